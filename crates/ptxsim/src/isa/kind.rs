//! The kinds that instructions are counted by.

/// The kind that an instruction counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Float,
    Integer,
    Move,
    Convert,
    Compare,
    Branch,
    GlobalLoad,
    GlobalStore,
    SharedLoad,
    SharedStore,
    OtherMemory,
    Atomic,
    AsyncCopy,
    /// Bulk copies between global and shared memory.
    BulkLoad,
    BulkStore,
    BulkReduction,
    Barrier,
    WarpSync,
    Exchange,
    Matrix,
    /// Products of a warpgroup, by `wgmma`.
    WarpgroupMatrix,
    /// `ldmatrix`, and `wmma.load` of A and B from shared memory, which is that on hardware.
    MatrixLoad,
    /// Matrices that `stmatrix` stores in shared memory.
    MatrixStore,
    Other,
}

impl Kind {
    /// Returns the kind of arithmetic that PTX writes in this form.
    pub fn from_form(form: &str) -> Kind {
        match form.split('.').next().unwrap_or("") {
            "mov" | "cvta" => Kind::Move,
            "cvt" => Kind::Convert,
            "setp" | "set" | "selp" | "slct" => Kind::Compare,
            _ if form.ends_with("f32") || form.ends_with("f64") || form.contains("f16") => {
                Kind::Float
            }
            _ => Kind::Integer,
        }
    }
}
