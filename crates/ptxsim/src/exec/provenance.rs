//! Finds the buffers from which an address was computed. The program is searched when an access has gone wrong, so that
//! nothing is followed while it runs.

use super::state::Machine;
use crate::isa::{Access, AddressSpace, Object, Op};
use crate::regs::Class;
use std::collections::{BTreeSet, HashSet};

/// The number of buffers that a message names, at most: more of them say nothing.
const MOST_NAMED: usize = 3;

impl Machine<'_> {
    /// Returns the numbers of the buffers whose addresses went into the one that an instruction accesses: all that its
    /// chain of definitions leads to. The set is empty if the chain leads out of the function, or to memory.
    pub fn computed_from(&self, instruction: u32) -> BTreeSet<usize> {
        let code = &self.program.code;
        let address = self
            .program
            .memory_at(instruction)
            .find(|access| access.object == Object::Data && access.is_global())
            .and_then(|access| access.address);
        let (mut found, mut seen, mut open) =
            (BTreeSet::new(), HashSet::new(), Vec::from_iter(address));
        while let Some(register) = open.pop() {
            if register.0 != Class::R64 || !seen.insert(register) {
                continue;
            }
            found.extend(
                self.program
                    .constant(register)
                    .and_then(|value| self.memory.find(value, 0)),
            );
            for inst in code
                .iter()
                .filter(|inst| inst.written().contains(&register))
            {
                if let Some((_, from)) = inst.arithmetic() {
                    open.extend(from);
                } else if let Op::Load(a) = &inst.op
                    && a.space == AddressSpace::Param
                {
                    let value = self.parameter(a);
                    found.extend(value.and_then(|value| self.memory.find(value, 0)));
                }
            }
        }
        found
    }

    /// Returns the value of the parameter of the kernel that this loads.
    fn parameter(&self, access: &Access) -> Option<u64> {
        let at = self.program.constant(access.address)?;
        let at = usize::try_from(at.checked_add_signed(access.offset)?).ok()?;
        let bytes = self.job.params.get(at..)?.get(..8)?;
        (access.bytes() == 8).then(|| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    /// Returns the end of a message about an access outside all buffers: the buffers that its address was computed
    /// from. It is empty if none is known, if there are too many, or if it is only the nearest one.
    pub fn origin_of(&self, instruction: u32, address: u64) -> String {
        let nearest = self.memory.nearest(address);
        let from = self.computed_from(instruction);
        if from.is_empty() || from.len() > MOST_NAMED || from.iter().all(|i| Some(*i) == nearest) {
            return String::new();
        }
        let names: Vec<String> = from
            .iter()
            .map(|i| {
                let a = self.memory.at(*i);
                format!("`{}` ({} bytes at {:#x})", a.name, a.len(), a.base)
            })
            .collect();
        format!(
            "; it was computed from the address of {}",
            names.join(" or ")
        )
    }
}
