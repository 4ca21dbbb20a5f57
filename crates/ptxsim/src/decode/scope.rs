//! Names in nested scopes, and the names of special registers.

use crate::isa::Special;
use crate::parse::ast::Ty;
use crate::regs::Class;
use std::collections::HashMap;

/// The thing that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symbol {
    Register(Class, u32, Ty),
    /// A register of 128 bits: this 64-bit register and the next.
    Wide(u32),
    /// A variable in global memory or a function, by its address.
    Address(u64),
    Shared(u32),
    DynamicShared,
    /// A variable in local memory: its address, and its size in bytes.
    Local(u32, u32),
    /// A variable of a function that may be entered again, by its offset from the stack pointer.
    Frame(u32),
    /// A parameter of the kernel, by its offset in the parameter buffer.
    Parameter(u32),
}

#[derive(Default)]
struct Scope {
    parent: Option<usize>,
    names: HashMap<String, Symbol>,
    /// The ranges of registers: prefix (`%f`), count, class, first, type.
    ranges: Vec<(String, u32, Class, u32, Ty)>,
    labels: HashMap<String, u32>,
}

/// The scopes of a kernel. None is thrown away, because branches to labels are resolved at the end of a body.
#[derive(Default)]
pub struct Scopes {
    all: Vec<Scope>,
    pub current: Option<usize>,
}

impl Scopes {
    /// Opens a scope within the present one.
    pub fn open(&mut self) {
        self.all.push(Scope {
            parent: self.current,
            ..Scope::default()
        });
        self.current = Some(self.all.len() - 1);
    }

    /// Goes back to the scope around the present one.
    pub fn close(&mut self) {
        self.current = self.current.and_then(|c| self.all[c].parent);
    }

    /// Adds a name to the present scope.
    pub fn insert(&mut self, name: &str, symbol: Symbol) {
        if let Some(c) = self.current {
            self.all[c].names.insert(name.into(), symbol);
        }
    }

    /// Adds a range of registers to the present scope.
    pub fn insert_range(&mut self, prefix: &str, count: u32, class: Class, first: u32, ty: Ty) {
        if let Some(c) = self.current {
            self.all[c]
                .ranges
                .push((prefix.into(), count, class, first, ty));
        }
    }

    /// Adds a label. Returns false if the scope has it already.
    pub fn insert_label(&mut self, name: &str, at: u32) -> bool {
        self.current
            .is_some_and(|c| self.all[c].labels.insert(name.into(), at).is_none())
    }

    /// Returns the symbol that a name stands for here.
    pub fn get(&self, name: &str) -> Option<Symbol> {
        let split = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (prefix, digits) = name.split_at(split);
        let number = digits.parse::<u32>().ok();
        let mut at = self.current;
        while let Some(c) = at {
            let scope = &self.all[c];
            if let Some(s) = scope.names.get(name) {
                return Some(*s);
            }
            if let Some(n) = number {
                for (p, count, class, first, ty) in &scope.ranges {
                    if p == prefix && n < *count {
                        return Some(match ty {
                            Ty::B128 => Symbol::Wide(first + 2 * n),
                            ty => Symbol::Register(*class, first + n, *ty),
                        });
                    }
                }
            }
            at = scope.parent;
        }
        None
    }

    /// Returns the instruction of a label that can be seen from a scope.
    pub fn label(&self, scope: usize, name: &str) -> Option<u32> {
        let mut at = Some(scope);
        while let Some(c) = at {
            if let Some(l) = self.all[c].labels.get(name) {
                return Some(*l);
            }
            at = self.all[c].parent;
        }
        None
    }
}

/// Returns true if a name is `row` followed by a number of at most `last`.
pub fn numbered(name: &str, row: &str, last: u32) -> bool {
    let number = name
        .strip_prefix(row)
        .and_then(|digits| digits.parse().ok());
    number.is_some_and(|number: u32| number <= last)
}

/// Returns the special register with this name, if a warp keeps its value (PTX ISA 10).
pub fn special(name: &str) -> Option<Special> {
    let axis = |s: &str| match s {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    if let Some((base, suffix)) = name.split_once('.') {
        let a = axis(suffix)?;
        return Some(match base {
            "%tid" => Special::Tid(a),
            "%ntid" => Special::Ntid(a),
            "%ctaid" => Special::Ctaid(a),
            "%nctaid" => Special::Nctaid(a),
            "%cluster_ctaid" => Special::ClusterCtaid(a),
            "%cluster_nctaid" => Special::ClusterNctaid(a),
            "%clusterid" => Special::ClusterId(a),
            "%nclusterid" => Special::NClusterId(a),
            _ => return None,
        });
    }
    Some(match name {
        "%cluster_ctarank" => Special::ClusterCtarank,
        "%cluster_nctarank" => Special::ClusterNctarank,
        "%is_explicit_cluster" => Special::IsExplicitCluster,
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NWarpId,
        "%smid" => Special::SmId,
        "%nsmid" => Special::NSmId,
        "%gridid" => Special::GridId,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%dynamic_smem_size" => Special::DynamicSharedSize,
        "%total_smem_size" => Special::TotalSharedSize,
        // The system's software decides what lies in that region (PTX ISA 10): cooperative groups
        // have all of it from the first offset on.
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" | "%reserved_smem_offset_1" => {
            Special::ReservedShared { end: false }
        }
        "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => {
            Special::ReservedShared { end: true }
        }
        // Cooperative groups find the grid's workspace by these (its own driver_abi.h).
        "%envreg1" => Special::Workspace { high: true },
        "%envreg2" => Special::Workspace { high: false },
        _ if numbered(name, "%envreg", 31) => Special::DriverRegister,
        _ => return None,
    })
}
