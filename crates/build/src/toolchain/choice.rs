//! Describes a compiler as a person asks for it: a release, the directory of a toolkit, or parts of several.

use super::releases::is_version;
use model::Component;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// The compiler that one side of a change asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The compiler that provides all other parts, or `None` for whichever is found first.
    pub whole: Option<CompilerOrigin>,
    /// The parts that come from elsewhere.
    pub parts: BTreeMap<Component, CompilerOrigin>,
}

/// The origin of a compiler or of a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompilerOrigin {
    /// A release such as `13.0`, as gates.yaml pins it.
    Pin(String),
    /// `13.0` or `13.0.88`, as the command line names it.
    Release(String),
    /// The directory that has `bin/nvcc` in it.
    Home(PathBuf),
}

impl Choice {
    pub fn pin(version: Option<&str>) -> Self {
        Self {
            whole: version.map(|version| CompilerOrigin::Pin(version.to_owned())),
            parts: BTreeMap::new(),
        }
    }

    /// Returns the choice as the command line names it, or `None` if it does not come from the command line.
    pub fn named(&self) -> Option<String> {
        let is_named = !matches!(self.whole, None | Some(CompilerOrigin::Pin(_)));
        is_named.then(|| self.to_string())
    }

    /// Returns all sources that the choice names.
    pub fn sources(&self) -> impl Iterator<Item = &CompilerOrigin> {
        self.whole.iter().chain(self.parts.values())
    }
}

/// The reason for which a text names no compiler.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error(
        "`{0}` is neither a version, such as 13.2 or 13.2.78, nor the path of a toolkit, such as /usr/local/cuda"
    )]
    NoOrigin(String),
    #[error("{0} is not a toolkit: it has no bin/nvcc")]
    NoToolkit(String),
    #[error(transparent)]
    Path(#[from] io::Error),
    #[error(
        "`{0}` is not a part with its version, such as ptxas=13.0; the parts are {parts}",
        parts = names()
    )]
    NoPart(String),
    #[error("there is no part `{0}`; the parts are {parts}", parts = names())]
    UnknownPart(String),
    #[error("{0} is named twice")]
    Twice(String),
}

/// Returns the names of all parts, for an error.
fn names() -> String {
    Component::ALL.map(Component::name).join(", ")
}

impl FromStr for CompilerOrigin {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        if is_version(text) {
            return Ok(Self::Release(text.to_owned()));
        }
        if !text.contains('/') {
            return Err(ChoiceError::NoOrigin(text.to_owned()));
        }
        let home = PathBuf::from(text);
        if !home.join("bin/nvcc").is_file() {
            return Err(ChoiceError::NoToolkit(text.to_owned()));
        }
        Ok(Self::Home(std::path::absolute(home)?))
    }
}

/// Parses choices such as `13.2`, `/opt/cuda` and `13.2,ptxas=13.0`.
impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let mut items = text.split(',');
        let whole: CompilerOrigin = items.next().unwrap_or_default().parse()?;
        let mut parts = BTreeMap::new();
        for item in items {
            let Some((name, source)) = item.split_once('=') else {
                return Err(ChoiceError::NoPart(item.to_owned()));
            };
            let Some(part) = Component::ALL
                .into_iter()
                .find(|component| component.name() == name)
            else {
                return Err(ChoiceError::UnknownPart(name.to_owned()));
            };
            if parts.insert(part, source.parse()?).is_some() {
                return Err(ChoiceError::Twice(name.to_owned()));
            }
        }
        Ok(Self {
            whole: Some(whole),
            parts,
        })
    }
}

impl fmt::Display for CompilerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pin(version) | Self::Release(version) => f.write_str(version),
            Self::Home(home) => write!(f, "{}", home.display()),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.whole {
            Some(whole) => write!(f, "{whole}")?,
            None => f.write_str("any")?,
        }
        self.parts
            .iter()
            .try_for_each(|(part, source)| write!(f, ",{}={source}", part.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_written_as_it_is_read() {
        for text in [
            "13.2",
            "13.2.78",
            "13.2,ptxas=13.0",
            "13.2,nvvm=13.1.80,ptxas=13.0",
        ] {
            let choice: Choice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
        }
    }

    #[test]
    fn a_mistake_says_how_it_is_written() {
        let says = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        assert_eq!(
            says("newest"),
            "`newest` is neither a version, such as 13.2 or 13.2.78, nor the path of a toolkit, such as /usr/local/cuda"
        );
        assert_eq!(
            says("/no/such"),
            "/no/such is not a toolkit: it has no bin/nvcc"
        );
        assert_eq!(
            says("13.2,ptxas"),
            "`ptxas` is not a part with its version, such as ptxas=13.0; the parts are nvcc, headers, nvvm, ptxas"
        );
        assert_eq!(
            says("13.2,cicc=13.0"),
            "there is no part `cicc`; the parts are nvcc, headers, nvvm, ptxas"
        );
        assert_eq!(says("13.2,ptxas=13.0,ptxas=13.1"), "ptxas is named twice");
    }
}
