//! Decodes loads, stores, asynchronous copies and conversions of addresses (PTX ISA 9.7.9, 9.7.13).

use super::scope::Symbol;
use super::{Decoder, Load, class};
use crate::alu::*;
use crate::exec::{cmp_ops, int_ops};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

/// The words by which a load or a store says its order, which [`order`] reads.
const ORDERS: [&str; 10] = [
    "volatile", "weak", "relaxed", "acquire", "release", "mmio", "cta", "cluster", "gpu", "sys",
];
/// The caches that a load or a store asks for, which no program can see.
const CACHES: [&str; 8] = ["nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt"];
/// The hints of loads and stores without an operand.
const HINTS: [&str; 11] = [
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_first",
    "L2::evict_last",
    "L2::evict_normal",
];

impl Decoder<'_> {
    /// Decodes an instruction on memory, by its first word.
    pub(super) fn memory(&mut self, words: &[&str]) -> Load<()> {
        match words[0] {
            "st" | "red" if words.get(1) == Some(&"async") => self.async_store(words),
            "ld" | "ldu" | "st" => self.load_store(words),
            "atom" | "red" => self.atomic(words),
            "cp" => self.copy(words),
            "cvta" => self.convert_address(words),
            "isspacep" => self.is_space(words),
            // These are hints, without an effect that a program could see.
            "prefetch" | "prefetchu" | "discard" | "applypriority" => {
                self.emit(Op::Nop);
                Ok(())
            }
            "createpolicy" => self.create_policy(words),
            _ => self.unsupported(""),
        }
    }

    /// Decodes `createpolicy`. A policy for the cache is a hint, too; its 64 bits are opaque (PTX ISA, "createpolicy").
    fn create_policy(&mut self, words: &[&str]) -> Load<()> {
        let is_priority = |w: &&str| w.starts_with("L2::evict_");
        let operands = match words {
            [_, "fractional", rest @ .., "b64"] if rest.iter().all(is_priority) => 1..=2,
            [_, "range", rest @ .., "b64"]
                if rest.iter().all(|w| *w == "global" || is_priority(w)) =>
            {
                4..=4
            }
            [_, "cvt", "L2", "b64"] => 2..=2,
            _ => return self.unsupported(""),
        };
        self.expect_operands(operands)?;
        let d = self.result(0, Class::R64)?;
        let none = self.constant64(0);
        self.alu(op1::<int_ops::w64::Mov>(), &[d, none]);
        Ok(())
    }

    /// Returns the state space that a word names.
    pub(super) fn state_space(&self, word: &str) -> Option<AddressSpace> {
        Some(match word {
            "global" | "const" => AddressSpace::Global,
            "shared" | "shared::cta" => AddressSpace::Shared,
            "shared::cluster" => AddressSpace::Cluster,
            "local" => AddressSpace::Local,
            "param" | "param::entry" | "param::func" => AddressSpace::Param,
            _ => return None,
        })
    }

    /// Reads the n-th operand as an address: its space, register and offset. A space of `.param` becomes local memory
    /// for parameters of functions, which lie there.
    pub(super) fn address(
        &mut self,
        n: usize,
        space: AddressSpace,
    ) -> Load<(AddressSpace, (Class, u32), i64)> {
        let Operand::Address { base, offset } = self.operand(n)? else {
            return self.invalid("expected an address in brackets");
        };
        self.address_from(base.as_deref(), *offset, space)
    }

    /// Returns the address of a name and an offset, as [`Self::address`] does.
    pub(super) fn address_from(
        &mut self,
        base: Option<&str>,
        offset: i64,
        space: AddressSpace,
    ) -> Load<(AddressSpace, (Class, u32), i64)> {
        let Some(name) = base else {
            let r = self.constant64(offset as u64);
            return Ok((space, (Class::R64, r), 0));
        };
        match self.scopes.get(name) {
            Some(Symbol::Register(Class::R32, r, _))
                if matches!(
                    space,
                    AddressSpace::Shared
                        | AddressSpace::Cluster
                        | AddressSpace::Local
                        | AddressSpace::Param
                ) =>
            {
                Ok((space, (Class::R32, r), offset))
            }
            Some(Symbol::Register(Class::R64, r, _)) => Ok((space, (Class::R64, r), offset)),
            Some(Symbol::Register(..)) => {
                self.invalid(format!("`{name}` is not a register that holds an address"))
            }
            Some(symbol) => {
                let own = match symbol {
                    Symbol::Local(..) | Symbol::Frame(_) => AddressSpace::Local,
                    Symbol::Shared(_) | Symbol::DynamicShared => AddressSpace::Shared,
                    Symbol::Parameter(_) => AddressSpace::Param,
                    _ => AddressSpace::Global,
                };
                let fits = space == own
                    || space == AddressSpace::Generic
                    || space == AddressSpace::Cluster && own == AddressSpace::Shared
                    || space == AddressSpace::Param && own == AddressSpace::Local;
                if !fits {
                    return self.invalid(format!(
                        "`{name}` is not in the state space of `{}`",
                        self.ptx.form()
                    ));
                }
                let r = self.symbol_address(name, symbol, 0, Class::R64)?;
                Ok((own, (Class::R64, r), offset))
            }
            None => self.invalid(format!("`{name}` is not declared")),
        }
    }

    /// Decodes a load or a store.
    fn load_store(&mut self, words: &[&str]) -> Load<()> {
        let is_store = words[0] == "st";
        let mut space = AddressSpace::Generic;
        let mut count = 1;
        let mut ty = None;
        let mut operands = 2;
        for &word in &words[1..] {
            match word {
                "v2" => count = 2,
                "v4" => count = 4,
                "v8" => count = 8,
                w if ORDERS.contains(&w) || CACHES.contains(&w) || HINTS.contains(&w) => {}
                "L2::cache_hint" => operands = 3,
                w => match (self.state_space(w), Ty::parse(w)) {
                    (Some(s), _) => space = s,
                    (_, Some(t)) if t != Ty::Pred => ty = Some(t),
                    _ => return self.unsupported(""),
                },
            }
        }
        let ty = self.known(ty)?;
        self.expect_operands(operands..=operands)?;
        let (address, value) = if is_store { (0, 1) } else { (1, 0) };
        let (space, address, offset) = self.address(address, space)?;
        if is_store && space == AddressSpace::Param {
            return self.unsupported("a kernel's own parameters cannot be written");
        }
        let one = std::slice::from_ref(self.operand(value)?);
        let elements = match self.operand(value)? {
            Operand::Vector(v) if v.len() == count => v.as_slice(),
            Operand::Vector(_) => {
                return self.invalid("the vector's length is not the instruction's");
            }
            _ if count == 1 => one,
            _ => return self.invalid("expected a vector in braces"),
        };
        let mut registers = Vec::new();
        let mut narrow = false;
        if ty == Ty::B128 {
            let [value] = elements else {
                return self.unsupported("");
            };
            let halves = self.wide(value, !is_store)?;
            registers.extend(halves.map(|r| (Class::R64, r)));
        }
        let elements = if ty == Ty::B128 { &[] } else { elements };
        for e in elements {
            // Registers may be wider than what is loaded (PTX ISA 9.4.1).
            let declared = self.class_of(e);
            let c = declared.map_or(class(ty), |(c, _)| c);
            if c == Class::Pred || c == Class::R32 && ty.bytes() == 8 {
                return self.invalid("a register is smaller than the value that it receives");
            }
            narrow |= declared.is_some_and(|(_, t)| t.bytes() == 2);
            let r = if is_store {
                self.value(e, c, ty)?
            } else {
                self.destination(e, c)?
            };
            registers.push((c, r));
        }
        // 128 bits are two elements of 64, between which no other access comes.
        let width = ty.bytes().min(8);
        let access = Box::new(Access {
            signed: ty.is_signed(),
            narrow,
            order: order(words, false),
            ..Access::new(space, width, registers, address, offset)
        });
        self.watch_shared(space, width);
        self.emit(if is_store {
            Op::Store(access)
        } else {
            Op::Load(access)
        });
        Ok(())
    }

    /// Notes the width of an access, so that race checks of shared memory are fine enough for it.
    pub(super) fn watch_shared(&mut self, space: AddressSpace, width: u32) {
        self.program.uses_clusters |= space == AddressSpace::Cluster;
        if matches!(
            space,
            AddressSpace::Shared | AddressSpace::Cluster | AddressSpace::Generic
        ) {
            self.program.shared_granule = self.program.shared_granule.min(width);
        }
    }

    /// Decodes `cp.async` and its groups (PTX ISA 9.7.9.25.3).
    fn copy(&mut self, words: &[&str]) -> Load<()> {
        match words {
            ["cp", "async", "commit_group"] => self.emit(Op::CpCommit),
            ["cp", "async", "wait_all"] => {
                self.emit(Op::CpCommit);
                self.emit(Op::CpWait(0));
            }
            ["cp", "async", "wait_group"] => {
                let keep = self.groups_to_keep()?;
                self.emit(Op::CpWait(keep));
            }
            ["cp", "async", "bulk", rest @ ..] => self.bulk(rest)?,
            ["cp", "reduce", "async", "bulk", rest @ ..] => self.bulk_reduction(rest)?,
            ["cp", "async", "mbarrier", "arrive", rest @ ..] => self.copies_arrive(rest)?,
            ["cp", "async", "ca" | "cg", rest @ ..]
                if !rest.iter().any(|w| w.contains("mbarrier")) =>
            {
                if !rest.starts_with(&["shared", "global"])
                    && !rest.starts_with(&["shared::cta", "global"])
                {
                    return self.unsupported("");
                }
                let hint = usize::from(rest.contains(&"L2::cache_hint"));
                self.expect_operands(3..=4 + hint)?;
                let Operand::Number(Number::Int(bytes @ (4 | 8 | 16))) = self.operand(2)? else {
                    return self.invalid("cp.async copies 4, 8 or 16 bytes");
                };
                let bytes = *bytes as u32;
                let size = match self.ptx.operands.get(3) {
                    Some(operand) if self.ptx.operands.len() == 4 + hint || hint == 0 => {
                        match operand {
                            // The operand is ignore-src: where it is true, nothing is read and zeros are written.
                            Operand::Name(n) if self.predicate(n).is_ok() => {
                                let ignore = self.predicate(n)?;
                                let read = self.register(Class::R32);
                                let (none, all) = (self.constant32(0), self.constant32(bytes));
                                let select = op3::<int_ops::w32::Selp>();
                                self.operand_step(select, &[read, none, all, ignore]);
                                read
                            }
                            operand => self.value(operand, Class::R32, Ty::U32)?,
                        }
                    }
                    _ => self.constant32(bytes),
                };
                let (_, to, to_offset) = self.address(0, AddressSpace::Shared)?;
                let (_, from, from_offset) = self.address(1, AddressSpace::Global)?;
                let access = |space, address, offset| {
                    let registers = vec![(Class::R32, 0)];
                    Box::new(Access::new(space, bytes, registers, address, offset))
                };
                let op = Op::CpAsync {
                    to: access(AddressSpace::Shared, to, to_offset),
                    from: access(AddressSpace::Global, from, from_offset),
                    bytes,
                };
                self.watch_shared(AddressSpace::Shared, 4);
                self.emit_with(op, [0, 0, size, 0, 0, 0]);
            }
            _ => return self.unsupported(""),
        }
        Ok(())
    }

    /// Returns the number of groups that may stay under way after a wait, at most.
    pub(super) fn groups_to_keep(&self) -> Load<u32> {
        match self.operand(0)? {
            Operand::Number(Number::Int(n)) => Ok((*n).min(1 << 20) as u32),
            _ => self.invalid("the number of groups must be a constant"),
        }
    }

    /// Returns the first generic address of a space.
    fn window(space: AddressSpace) -> u64 {
        match space {
            AddressSpace::Shared | AddressSpace::Cluster => SHARED_WINDOW,
            AddressSpace::Local => LOCAL_WINDOW,
            AddressSpace::Param => PARAM_WINDOW,
            _ => 0,
        }
    }

    /// Decodes `cvta`, which adds or subtracts the window of a space.
    fn convert_address(&mut self, words: &[&str]) -> Load<()> {
        let (to, space) = match words {
            ["cvta", "to", space, "u64"] => (true, *space),
            ["cvta", space, "u64"] => (false, *space),
            _ => return self.unsupported(""),
        };
        let space = self.known(self.state_space(space))?;
        self.expect_operands(2..=2)?;
        let d = self.result(0, Class::R64)?;
        let a = self.source(1, Class::R64, Ty::U64)?;
        // A parameter of a device function lives in local memory, whose window differs.
        let space = match self.operand(1)? {
            Operand::Name(n) | Operand::Offset(n, _)
                if matches!(
                    self.scopes.get(n),
                    Some(Symbol::Local(..) | Symbol::Frame(_))
                ) =>
            {
                AddressSpace::Local
            }
            _ => space,
        };
        let base = self.constant64(Self::window(space));
        self.alu(
            if to {
                op2::<int_ops::w64::Sub>()
            } else {
                op2::<int_ops::w64::Add>()
            },
            &[d, a, base],
        );
        Ok(())
    }

    /// Decodes `isspacep`, which compares an address with the window of a space.
    fn is_space(&mut self, words: &[&str]) -> Load<()> {
        let space = self.known(words.get(1).and_then(|w| self.state_space(w)))?;
        self.expect_operands(2..=2)?;
        let Operand::Name(p) = self.operand(0)? else {
            return self.unsupported("");
        };
        let p = self.predicate(p)?;
        let a = self.source(1, Class::R64, Ty::U64)?;
        let word = self.register(Class::R32);
        if space == AddressSpace::Shared {
            // Shared memory of another block of the cluster is not the block's own.
            let own = self.special(Special::ClusterCtarank, Class::R32);
            self.alu(op2::<int_ops::IsOwnShared>(), &[word, a, own]);
            self.alu(op1::<cmp_ops::NotZero>(), &[p, word]);
            return Ok(());
        }
        // Each window is one value of the upper 32 bits.
        self.alu(op1::<int_ops::HighWord>(), &[word, a]);
        let (op, limit) = match space {
            AddressSpace::Global => ("ge", (MODULE_BASE >> 32) as u32),
            space => ("eq", (Self::window(space) >> 32) as u32),
        };
        let limit = self.constant32(limit);
        let op = self.known(cmp_ops::lookup(op, Ty::U32, false))?;
        self.alu(op, &[p, word, limit]);
        Ok(())
    }
}

/// Returns the scope that the words name, or the device if they name none.
pub(super) fn scope(words: &[&str]) -> Scope {
    let says = |w: &str| words.contains(&w);
    match (says("cta"), says("cluster")) {
        (true, _) => Scope::Block,
        (_, true) => Scope::Cluster,
        _ => Scope::Device,
    }
}

/// Returns the order that the words name. Without any, atomics are relaxed, and loads and stores are weak.
pub(super) fn order(words: &[&str], atomic: bool) -> Order {
    let says = |w: &str| words.contains(&w);
    let strong = [
        "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio",
    ];
    if !atomic && !strong.into_iter().any(says) {
        return Order::Weak;
    }
    Order::Strong {
        release: says("release") || says("acq_rel"),
        acquire: says("acquire") || says("acq_rel"),
        scope: scope(words),
        volatile: says("volatile"),
    }
}
