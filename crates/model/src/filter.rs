use super::CaseId;
use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Selects cases: `kernel/variant@shape`, each part a glob, where everything but the kernel may be left out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Filter {
    text: String,
    pub kernel: GlobMatcher,
    pub variant: Option<GlobMatcher>,
    pub shape: Option<GlobMatcher>,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadFilter {
    #[error("`{0}` is not a filter")]
    Form(String),
    #[error("`{part}` is not a glob: {problem}")]
    Glob { part: String, problem: String },
}

impl FromStr for Filter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Self, BadFilter> {
        let (left, shape) = match text.split_once('@') {
            Some((left, shape)) => (left, Some(shape)),
            None => (text, None),
        };
        let (kernel, variant) = match left.split_once('/') {
            Some((kernel, variant)) => (kernel, Some(variant)),
            None => (left, None),
        };
        let part = |part: &str| {
            if part.is_empty() || part.contains(['/', '@']) {
                return Err(BadFilter::Form(text.to_owned()));
            }
            let glob = Glob::new(part).map_err(|error| BadFilter::Glob {
                part: part.to_owned(),
                problem: error.kind().to_string(),
            })?;
            Ok(glob.compile_matcher())
        };
        Ok(Self {
            text: text.to_owned(),
            kernel: part(kernel)?,
            variant: variant.map(part).transpose()?,
            shape: shape.map(part).transpose()?,
        })
    }
}

impl Filter {
    /// Returns true if each glob of the filter matches. A glob that is left out matches everything.
    pub fn fits(&self, id: &CaseId) -> bool {
        let fits = |glob: &Option<GlobMatcher>, name: &str| {
            glob.as_ref().is_none_or(|glob| glob.is_match(name))
        };
        self.kernel.is_match(&id.kernel)
            && fits(&self.variant, &id.variant)
            && fits(&self.shape, &id.shape)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Compares the texts of two filters.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl From<Filter> for String {
    fn from(filter: Filter) -> Self {
        filter.text
    }
}

impl TryFrom<String> for Filter {
    type Error = BadFilter;

    fn try_from(text: String) -> Result<Self, BadFilter> {
        text.parse()
    }
}
