//! The request that `gatekeeper capture` passes to the library inside the program.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The environment variable that holds the request, as JSON. Child processes inherit it.
pub const VARIABLE: &str = "GATEKEEPER_CAPTURE";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The directory of the capture, absolute.
    pub out: PathBuf,
    /// Parts of kernel names, with `*`. Without any, all kernels are captured.
    pub kernels: Vec<String>,
    /// Names of regions, with `*`. Without any, the whole program is captured.
    pub regions: Vec<String>,
    /// The number of launches of each kernel that are captured, in each region.
    pub launches: u32,
    /// The most memory that a launch may reach, in bytes.
    pub most_bytes: u64,
    /// Floats in memory are replaced, and the launch that is captured is one on these.
    pub random_inputs: bool,
}

impl Request {
    /// Returns true if a kernel is to be captured, by its mangled or its readable name.
    pub fn selects(&self, symbol: &str, readable: &str) -> bool {
        let mut globs = self.kernels.iter();
        self.kernels.is_empty() || globs.any(|glob| Self::fits(glob, symbol, readable))
    }

    /// Returns true if a glob fits a kernel, by its mangled or its readable name.
    pub fn fits(glob: &str, symbol: &str, readable: &str) -> bool {
        fits(glob, symbol) || fits(glob, readable)
    }

    /// Returns true if a launch is to be captured while these regions are open.
    pub fn selects_in(&self, open: &[String]) -> bool {
        let is_named = |region: &String| self.regions.iter().any(|glob| fits(glob, region));
        self.regions.is_empty() || open.iter().any(is_named)
    }
}

/// Returns true if a glob fits a name. Only `*` has a meaning, which is any text: names contain the other characters
/// that globs for files give a meaning (`[`, `{`, `?`).
fn fits(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_is_any_text_and_nothing_else_is_special() {
        for (glob, name, wanted) in [
            ("k", "k", true),
            ("k", "kk", false),
            ("k*", "kernel", true),
            ("*", "", true),
            ("*soft*max*", "void softmax_warp<float>(float*)", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("k<float[4]>", "k<float[4]>", true),
            ("*add*", "mul", false),
        ] {
            assert_eq!(fits(glob, name), wanted, "{glob} {name}");
        }
    }
}
