use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arithmetic of a launch, by the unit that a GPU has for it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Arithmetic {
    /// Additions, products and both in one, of floats of 16 bits.
    Fp16,
    Fp32,
    Fp64,
    /// Exponentials, logarithms, roots, reciprocals, quotients, sines.
    Special,
    /// Products of matrices, by the type of what is multiplied.
    TensorF16,
    TensorBf16,
    TensorTf32,
    TensorFp8,
    TensorFp64,
    TensorInt8,
    /// Integers and floats of less than six bits.
    TensorNarrow,
}

impl Arithmetic {
    pub fn is_tensor(self) -> bool {
        matches!(
            self,
            Self::TensorF16
                | Self::TensorBf16
                | Self::TensorTf32
                | Self::TensorFp8
                | Self::TensorFp64
                | Self::TensorInt8
                | Self::TensorNarrow
        )
    }
}

/// How much arithmetic of one kind a launch does, as PTX names it. ptxas may join, split and drop arithmetic, so this
/// is for readers and is never gated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Instructions that warps issued for it.
    pub issued: u64,
    /// Operations of all lanes that took part; a product added to something is two.
    pub operations: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.issued += other.issued;
        self.operations += other.operations;
    }
}
