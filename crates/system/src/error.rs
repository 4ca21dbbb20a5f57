//! Errors that end a command before it has a verdict. Faults of a kernel are evidence, and not errors.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
pub enum Error {
    /// The command line, or a file that the user wrote, is wrong: exit code 2.
    Usage(Diagnostic),
    /// The machine lacks something or broke: exit code 4.
    Environment(Diagnostic),
}

/// A problem: what it is, where it is, and what to do next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic {
    /// The problem in one sentence, without a full stop at the end.
    pub message: String,
    /// The place in a file: `gates.yaml:12:5`, `baselines/k/v/times.json:1:30`.
    pub at: Option<String>,
    /// The path of the key in that file: `kernels.gemm.launch.grid[0]`.
    pub key: Option<String>,
    /// Ways out, one on each line.
    pub help: Vec<String>,
    /// The error that the problem comes from, if it was another one. The message says what it says.
    pub source: Option<ErrorSource>,
}

/// The source of an error, for a log. What a problem says does not depend on it, so all sources are equal.
#[derive(Clone, Debug)]
pub struct ErrorSource(Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for ErrorSource {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ErrorSource {}

impl Diagnostic {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn at(mut self, at: impl fmt::Display) -> Self {
        self.at = Some(at.to_string());
        self
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}

impl Error {
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(Diagnostic::new(message))
    }

    pub fn environment(message: impl Into<String>) -> Self {
        Self::Environment(Diagnostic::new(message))
    }

    /// Returns the machine's error at a path.
    pub fn at_path(path: &Path, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::environment(format!("{}: {source}", path.display())).caused_by(source)
    }

    /// Returns the error for a file, a directory or a document that cannot be written.
    pub fn unwritten(
        what: impl fmt::Display,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::environment(format!("{what} cannot be written: {source}")).caused_by(source)
    }

    #[must_use]
    pub fn at(self, at: impl fmt::Display) -> Self {
        self.with(|diagnostic| diagnostic.at(at))
    }

    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.help(help))
    }

    /// Keeps the error that this one was made from.
    #[must_use]
    pub fn caused_by(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.with(|diagnostic| Diagnostic {
            source: Some(ErrorSource(Arc::new(source))),
            ..diagnostic
        })
    }

    fn with(self, more: impl FnOnce(Diagnostic) -> Diagnostic) -> Self {
        match self {
            Self::Usage(diagnostic) => Self::Usage(more(diagnostic)),
            Self::Environment(diagnostic) => Self::Environment(more(diagnostic)),
        }
    }

    pub fn diagnostic(&self) -> &Diagnostic {
        match self {
            Self::Usage(diagnostic) | Self::Environment(diagnostic) => diagnostic,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)?;
        self.help
            .iter()
            .try_for_each(|help| write!(f, "\n  help: {help}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic().fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let ErrorSource(source) = self.diagnostic().source.as_ref()?;
        Some(source.as_ref())
    }
}

pub type Result<T> = std::result::Result<T, Error>;
