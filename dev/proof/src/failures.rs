//! Random programs that once came out differently on a GPU and in ptxsim, to be run again forever.
//!
//! A seed means another program as soon as the generator or its list of forms changes: so the text is
//! kept. To keep one: `proof ptx --seed N > fixtures/failures/N.ptx` before anything changes, and an entry
//! here with the message of `random` on the seed.

/// The side whose answer is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// The GPU's, and ptxsim was wrong.
    Gpu,
    /// The ISA's: ptxas made a wrong program of it, and the GPU's answer is of no use.
    Isa,
}

#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The seed of the input, and of the program when it was made.
    pub seed: u64,
    pub ptx: &'static str,
    /// 64-bit words of output for each thread.
    pub output_words: usize,
    /// When, on what, and what differed.
    pub failed: &'static str,
    pub right: Right,
    /// The hash of the right output.
    pub hash: u64,
}

pub const FAILURES: &[Failure] = &[
    Failure {
        seed: 15482,
        ptx: include_str!("../fixtures/failures/15482.ptx"),
        output_words: 131,
        failed: "2026-11-21, H100, ptxas 13.0.88: a loop of four turns around \
             `mad.hi.s32 %r12, %r15, %r6, %r12` whose result goes through memory gives in its third turn \
             the result of the first; the machine code of the unrolled loop stores the first turn's register",
        right: Right::Isa,
        hash: 0x8be8_8ca8_cd70_a85e,
    },
    Failure {
        seed: 5585,
        ptx: include_str!("../fixtures/failures/5585.ptx"),
        output_words: 117,
        failed: "2026-11-21, H200, ptxas 13.0.88: `fma.rn.ftz.relu.f16` whose result only rounding lifts to the \
                 smallest normal number is flushed; ptxsim kept it",
        right: Right::Gpu,
        hash: 0x633f_14c8_95de_eee0,
    },
    Failure {
        seed: 15316,
        ptx: include_str!("../fixtures/failures/15316.ptx"),
        output_words: 117,
        failed: "2026-11-21, H200, ptxas 13.0.88: `mul.rn.ftz.f16x2`, the same",
        right: Right::Gpu,
        hash: 0xf816_a6d8_7ca2_fd68,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;
    use crate::sweep;

    #[test]
    fn fixed_failures_stay_right() {
        for f in FAILURES {
            let output = random::simulate_text(f.ptx, f.seed, f.output_words)
                .unwrap_or_else(|e| panic!("seed {}: {e}", f.seed));
            let hash = sweep::hash(&output);
            assert_eq!(
                hash, f.hash,
                "seed {}, by {:?}: {}",
                f.seed, f.right, f.failed
            );
        }
    }
}
