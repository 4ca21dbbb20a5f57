//! Lays out the variables of a module, with their first contents.

use super::{Load, LoadError, calls};
use crate::isa::*;
use crate::parse::ast::*;
use crate::program::*;
use crate::turn::{Turn, mixed};
use std::collections::HashMap;

/// Returns the variables of the module with their addresses and first contents. With `moved` they are in the reverse
/// order, and have other distances in the second turn.
pub fn lay_out(module: &Module, moved: Option<Turn>) -> Load<Vec<ModuleVariable>> {
    let mut next = MODULE_BASE;
    let mut all: Vec<ModuleVariable> = Vec::new();
    let mut places = HashMap::new();
    let wanted = |v: &&Var| matches!(v.space, Space::Global | Space::Const);
    for var in module.variables.iter().filter(wanted) {
        let bytes = var
            .bytes()
            .filter(|&b| b <= 1 << 30)
            .ok_or_else(|| invalid(var, "this variable is too large"))?;
        if var.is_extern {
            let what = "an extern variable has no storage in this module";
            return Err(invalid(var, what));
        }
        // Each variable has a page of its own, so that an index past its end hits nothing.
        let address = match moved {
            None => next,
            Some(_) => (HOST_BASE - (next - MODULE_BASE) - bytes - 4096) & !0xfff,
        };
        places.insert(var.name.clone(), address);
        all.push(ModuleVariable {
            name: var.name.clone(),
            address,
            bytes: vec![0; bytes as usize],
            read_only: var.space == Space::Const,
        });
        next += (bytes + 8192).next_multiple_of(4096);
        if moved == Some(Turn::Second) {
            next += (mixed(next) % 64) << 12;
        }
        if next - MODULE_BASE > 1 << 30 {
            let what = "the module's variables take more than 1 GiB";
            return Err(invalid(var, what));
        }
    }
    for (n, f) in module.functions.iter().enumerate() {
        if f.body.is_some() && !f.is_entry {
            places.entry(f.name.clone()).or_insert(calls::address(n));
        }
    }
    for (var, slot) in module.variables.iter().filter(wanted).zip(&mut all) {
        let width = var.ty.bytes() as usize;
        for (i, init) in var.init.iter().enumerate() {
            let value = match init {
                Init::Number(Number::Int(v)) => *v,
                Init::Number(Number::F32(v)) if width == 8 => {
                    f64::from(f32::from_bits(*v)).to_bits()
                }
                Init::Number(Number::F32(v)) => u64::from(*v),
                Init::Number(Number::F64(v)) if width == 4 => u64::from((*v as f32).to_bits()),
                Init::Number(Number::F64(v)) => v.to_bits(),
                Init::Symbol { name, offset, .. } => match places.get(name) {
                    Some(base) => base.wrapping_add(*offset as u64),
                    None => {
                        return Err(invalid(var, format!("`{name}` has no address known here")));
                    }
                },
            };
            let Some(to) = slot.bytes.get_mut(i * width..(i + 1) * width) else {
                return Err(invalid(var, "more values than elements"));
            };
            let value = value.to_le_bytes();
            let given = width.min(value.len());
            to[..given].copy_from_slice(&value[..given]);
        }
    }
    Ok(all)
}

fn invalid(var: &Var, message: impl Into<String>) -> LoadError {
    LoadError::Invalid {
        pos: var.pos,
        message: message.into(),
    }
}
