use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A real GPU architecture as nvcc names it: `sm_90`, `sm_90a`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Arch {
    pub major: u8,
    pub minor: u8,
    /// `a` (only this chip), `f` (this family), or nothing.
    pub suffix: Option<char>,
}

impl Arch {
    /// Returns true if machine code for `self` runs on a device of compute capability `major.minor`.
    ///
    /// CUDA C++ Programming Guide, "Binary compatibility": within one major revision, from the minor revision it was
    /// built for upwards; an `a` target only on exactly its own.
    pub fn runs_on(self, major: u8, minor: u8) -> bool {
        match self.suffix {
            Some('a') => (self.major, self.minor) == (major, minor),
            _ => self.major == major && self.minor <= minor,
        }
    }

    /// Returns true if machine code for `self` counts as machine code for `asked`: both are for one compute capability, and
    /// every device that runs code for `asked` runs this code, too.
    ///
    /// `sm_90a` counts as `sm_90`, as there are no other devices of major version 9. `sm_100a` does not count as `sm_100`: a
    /// device of 10.3 runs code for `sm_100` alone. Code for a family (`f`) runs wherever code without a suffix does.
    pub fn answers(self, asked: Self) -> bool {
        let runs_as_widely = match self.suffix {
            Some('a') => self.major == 9,
            suffix => suffix.is_some(),
        };
        let is_plain = Self {
            suffix: None,
            ..self
        } == asked;
        self == asked || (is_plain && runs_as_widely)
    }

    /// Returns true if PTX for `target` can be assembled for `self`: PTX serves its architecture and all later ones,
    /// with `a` exactly its own, and with `f` its family.
    pub fn takes_ptx_for(self, target: Self) -> bool {
        match target.suffix {
            Some('a') => self == target,
            Some(_) => self.major == target.major && self.minor >= target.minor,
            None => (self.major, self.minor) >= (target.major, target.minor),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.major, self.minor)?;
        self.suffix.map_or(Ok(()), |suffix| write!(f, "{suffix}"))
    }
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an architecture; write it as nvcc does, for example sm_90 or sm_90a")]
pub struct BadArch(pub String);

impl FromStr for Arch {
    type Err = BadArch;

    fn from_str(text: &str) -> Result<Self, BadArch> {
        let bad = || BadArch(text.to_owned());
        let rest = text.strip_prefix("sm_").ok_or_else(bad)?;
        let digits = rest.trim_end_matches(['a', 'f']);
        let suffix = match &rest[digits.len()..] {
            "" => None,
            "a" => Some('a'),
            "f" => Some('f'),
            _ => return Err(bad()),
        };
        if !(2..=3).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        let number: u16 = digits.parse().map_err(|_| bad())?;
        Ok(Self {
            major: (number / 10) as u8,
            minor: (number % 10) as u8,
            suffix,
        })
    }
}

impl TryFrom<String> for Arch {
    type Error = BadArch;
    fn try_from(text: String) -> Result<Self, BadArch> {
        text.parse()
    }
}

impl From<Arch> for String {
    fn from(arch: Arch) -> Self {
        arch.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_nonsense_is_refused() {
        for name in ["sm_75", "sm_90", "sm_90a", "sm_100f", "sm_120"] {
            assert_eq!(
                name.parse::<Arch>().map(|arch| arch.to_string()),
                Ok(name.to_owned())
            );
        }
        for name in [
            "",
            "90",
            "sm_",
            "sm_9",
            "sm_90aa",
            "sm_90x",
            "compute_90",
            "sm_1000",
            "sm_٩٠",
        ] {
            assert!(name.parse::<Arch>().is_err(), "{name}");
        }
    }

    #[test]
    fn takes_ptx_of_older_architectures() {
        let takes = |own: &str, target: &str| {
            let [own, target] = [own, target].map(|name| name.parse::<Arch>().unwrap());
            own.takes_ptx_for(target)
        };
        assert!(takes("sm_90", "sm_80") && takes("sm_90a", "sm_90") && takes("sm_90a", "sm_90a"));
        assert!(
            !takes("sm_80", "sm_90") && !takes("sm_90", "sm_90a") && !takes("sm_100", "sm_90a")
        );
        assert!(takes("sm_103f", "sm_100f") && !takes("sm_120f", "sm_100f"));
    }

    #[test]
    fn code_counts_for_an_architecture_whose_devices_all_run_it() {
        let answers = |own: &str, asked: &str| {
            let [own, asked] = [own, asked].map(|name| name.parse::<Arch>().unwrap());
            own.answers(asked)
        };
        for (own, asked) in [
            ("sm_80", "sm_80"),
            ("sm_90a", "sm_90a"),
            ("sm_90a", "sm_90"),
        ] {
            assert!(answers(own, asked), "{own} {asked}");
        }
        assert!(answers("sm_100f", "sm_100") && answers("sm_120f", "sm_120"));
        for (own, asked) in [
            ("sm_100a", "sm_100"),
            ("sm_120a", "sm_120"),
            ("sm_90", "sm_90a"),
        ] {
            assert!(!answers(own, asked), "{own} {asked}");
        }
        assert!(!answers("sm_80", "sm_86") && !answers("sm_90a", "sm_80"));
        assert!(!answers("sm_100f", "sm_103") && !answers("sm_100f", "sm_100a"));
    }

    #[test]
    fn runs_binaries_of_the_same_major_version() {
        let arch = |name: &str| name.parse::<Arch>().unwrap();
        assert!(arch("sm_80").runs_on(8, 9));
        assert!(!arch("sm_89").runs_on(8, 0));
        assert!(!arch("sm_89").runs_on(9, 0));
        assert!(arch("sm_90a").runs_on(9, 0));
    }
}
