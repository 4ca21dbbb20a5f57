//! Classifies opcodes. The names are those of NVIDIA's "CUDA Binary Utilities", instruction set reference.

use crate::listing::Instruction;
use model::{InstructionKind as Kind, Width};

/// Returns the kind of an instruction, or `None` if it does nothing.
pub(crate) fn kind(instruction: &Instruction) -> Option<Kind> {
    let name = instruction.mnemonic();
    let has = |wanted: &str| instruction.modifiers().any(|modifier| modifier == wanted);
    let width = || width(instruction);
    Some(match name {
        "NOP" => return None,
        "FADD" | "FMUL" | "FFMA" | "FADD32I" | "FMUL32I" | "FFMA32I" | "FMNMX" | "FMNMX3"
        | "FSWZADD" | "FADD2" | "FMUL2" | "FFMA2" | "FRND" | "FADD3" => Kind::Fp32,
        // HFMA2.MMA R7, -RZ, RZ, 0, 0 writes a constant through the fp16 pipe.
        "HFMA2" if is_constant(instruction) => Kind::Move,
        "HADD2" | "HMUL2" | "HFMA2" | "HMNMX2" | "HADD2_32I" | "HMUL2_32I" | "HFMA2_32I" => {
            Kind::Fp16
        }
        "DADD" | "DMUL" | "DFMA" | "DMNMX" | "DSETP" | "DSET" => Kind::Fp64,
        "HMMA" | "IMMA" | "DMMA" | "BMMA" | "QMMA" | "OMMA" | "HGMMA" | "IGMMA" | "QGMMA"
        | "BGMMA" | "UTCHMMA" | "UTCIMMA" | "UTCQMMA" | "UTCOMMA" | "UTCMMA" => Kind::Tensor,
        "MUFU" => special(instruction),
        "FCHK" => Kind::DivisionCheck,
        "F2F" | "I2F" | "F2I" if has("F64") => Kind::DoubleConversion,
        "F2F" | "I2F" | "F2I" | "F2FP" | "I2FP" | "I2I" | "I2IP" | "F2IP" | "UF2FP" | "UI2F"
        | "UI2FP" | "UF2F" | "UF2I" => Kind::Conversion,
        "LDG" if has("CONSTANT") => Kind::ReadOnlyLoad(width()),
        "LDG" => Kind::GlobalLoad(width()),
        "STG" => Kind::GlobalStore(width()),
        "LDS" | "ULDS" => Kind::SharedLoad(width()),
        "STS" => Kind::SharedStore(width()),
        "LDL" if is_at_fixed_place(instruction) => Kind::StackLoad(width()),
        "STL" if is_at_fixed_place(instruction) => Kind::StackStore(width()),
        "LDL" => Kind::LocalLoad(width()),
        "STL" => Kind::LocalStore(width()),
        "LD" => Kind::GenericLoad(width()),
        "ST" => Kind::GenericStore(width()),
        "LDC" | "LDCU" | "ULDC" => Kind::ConstantLoad,
        "LDSM" | "LDTM" => Kind::MatrixLoad,
        "STSM" | "STTM" => Kind::MatrixStore,
        "LDGSTS" => Kind::AsyncCopy,
        "LDGDEPBAR" | "DEPBAR" | "ARRIVES" | "SYNCS" => Kind::AsyncWait,
        "UBLKCP" | "UBLKRED" | "UBLKPF" | "UTMALDG" | "UTMASTG" | "UTMAREDG" | "UTMAPF"
        | "UTMACMDFLUSH" | "UTMACCTL" => Kind::BulkCopy,
        "ATOM" | "ATOMG" | "RED" | "REDG" => Kind::GlobalAtomic,
        "ATOMS" | "REDS" | "ATOMAS" => Kind::SharedAtomic,
        "BAR" | "B2R" | "R2B" | "UCGABAR_ARV" | "UCGABAR_WAIT" => Kind::Barrier,
        "WARPSYNC" | "NANOSLEEP" | "WARPGROUP" | "WARPGROUPSET" | "YIELD" => Kind::WarpBarrier,
        "MEMBAR" | "FENCE" | "ERRBAR" | "CCTL" | "CCTLL" | "CCTLT" | "UCCTL" => Kind::Fence,
        "SHFL" => Kind::Shuffle,
        "VOTE" | "VOTEU" | "MATCH" | "REDUX" | "CREDUX" | "UVOTE" => Kind::Vote,
        "TEX" | "TLD" | "TLD4" | "TMML" | "TXD" | "TXQ" | "SULD" | "SUST" | "SUATOM" | "SURED" => {
            Kind::Texture
        }
        "ISETP" | "FSETP" | "HSETP2" | "UISETP" | "UFSETP" | "ICMP" | "FSET" | "HSET2"
        | "PLOP3" | "UPLOP3" | "P2R" | "R2P" | "PSETP" | "UP2UR" | "UR2UP" | "ISET" => {
            Kind::Compare
        }
        "SEL" | "FSEL" | "USEL" | "UFSEL" => Kind::Select,
        "MOV" | "UMOV" | "CS2R" | "S2R" | "S2UR" | "CS2UR" | "R2UR" | "MOV32I" | "UCS2R"
        | "MOVM" | "LEPC" | "UGETNEXTWORKID" | "S2P" => Kind::Move,
        "IMAD" if has("MOV") => Kind::Move,
        "BRA" | "BRX" | "BRXU" | "JMP" | "JMX" | "JMXU" | "ACQBULK" | "ELECT" => Kind::Branch,
        "BSSY" | "BSYNC" | "BREAK" | "BMOV" | "RPCMOV" => Kind::Reconvergence,
        "CALL" => Kind::Call,
        "RET" | "EXIT" | "KILL" | "BPT" => Kind::Return,
        _ if is_integer(name) => Kind::Int,
        _ => Kind::Other,
    })
}

fn is_integer(name: &str) -> bool {
    const NAMES: [&str; 34] = [
        "IADD3",
        "IADD",
        "VIADD",
        "IMAD",
        "IMUL",
        "LEA",
        "LOP3",
        "LOP",
        "SHF",
        "SHL",
        "SHR",
        "POPC",
        "FLO",
        "BREV",
        "PRMT",
        "BMSK",
        "SGXT",
        "IABS",
        "IMNMX",
        "VIMNMX",
        "VIMNMX3",
        "VIADDMNMX",
        "IDP",
        "IDP4A",
        "ISCADD",
        "VABSDIFF",
        "VABSDIFF4",
        "XMAD",
        "VHMNMX",
        "IADD2",
        "IADD32I",
        "IMAD32I",
        "LOP32I",
        "BFE",
    ];
    let scalar = name.strip_prefix('U').unwrap_or(name);
    NAMES.contains(&name) || NAMES.contains(&scalar)
}

fn special(instruction: &Instruction) -> Kind {
    match instruction.modifiers().next() {
        Some("RCP" | "RCP64H") => Kind::Reciprocal,
        Some("RSQ" | "RSQ64H" | "SQRT") => Kind::Root,
        Some("EX2") => Kind::Exponential,
        Some("LG2") => Kind::Logarithm,
        Some("SIN" | "COS") => Kind::Sine,
        _ => Kind::OtherSpecial,
    }
}

fn is_constant(instruction: &Instruction) -> bool {
    let mut operands = instruction.operands().skip(1);
    let (a, b) = (operands.next(), operands.next());
    a.is_some_and(|operand| operand.ends_with("RZ"))
        && b.is_some_and(|operand| operand.ends_with("RZ"))
}

/// Returns the width of an access, which is a word if nothing else is given.
fn width(instruction: &Instruction) -> Width {
    instruction
        .modifiers()
        .filter_map(|modifier| match modifier {
            "U8" | "S8" => Some(Width::W8),
            "U16" | "S16" => Some(Width::W16),
            "64" => Some(Width::W64),
            "128" => Some(Width::W128),
            "256" | "ENL2" => Some(Width::W256),
            _ => None,
        })
        .max()
        .unwrap_or(Width::W32)
}

/// Returns true for an address relative to R1, which is the pointer of the stack.
fn is_at_fixed_place(instruction: &Instruction) -> bool {
    let address = instruction.operands.split_once('[');
    let address = address.and_then(|(_, rest)| rest.split_once(']'));
    address.is_some_and(|(address, _)| {
        let register = address.split(['+', '-']).next().unwrap_or_default();
        let rest = address.get(register.len()..).unwrap_or_default();
        register.trim() == "R1" && !rest.contains('R')
    })
}
