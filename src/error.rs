//! The one error of this crate: what was being done, to what, why it failed, and the way out.

use std::{error::Error as StdError, fmt, io};

/// The result of anything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of failure this is: enough to choose an exit code or a retry, no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request itself cannot be: a bad spec, size or combination of options.
    Usage,
    /// This host does not allow or have it: capabilities, lockdown, limits, a kernel without the feature.
    Precondition,
    /// A probe is missing or cannot be attached.
    Attach,
    /// A sink failed.
    Sink,
    /// The reader of our output has gone (`EPIPE`).
    Closed,
    /// Anything else that went wrong at run time.
    Runtime,
}

/// An error with its kind, its chain of causes, and a hint at the way out.
///
/// `Display` gives what was being done and why it failed, on one line unless it shows a place in a text that was
/// typed; [`Error::help`] the way out.
pub struct Error {
    kind: ErrorKind,
    message: String,
    help: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error that is its own cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), help: None, source: None }
    }

    /// An error caused by another; its text follows after a colon.
    pub fn caused(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        Error { kind, message: message.into(), help: None, source: Some(source.into()) }
    }

    /// A usage error.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Usage, message)
    }

    /// The same error with a way out.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Error {
        self.help = Some(help.into());
        self
    }

    /// The same error, said to have happened while doing `what`.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Error {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// What sort of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The way out, where one is known.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The operating system's error number at the bottom of the chain of causes, if there is one.
    pub fn os_error(&self) -> Option<i32> {
        let mut cause: Option<&(dyn StdError + 'static)> = self.source.as_deref().map(|s| s as _);
        while let Some(e) = cause {
            if let Some(code) = e.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
                return Some(code);
            }
            cause = e.source();
        }
        None
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause: Option<&(dyn StdError + 'static)> = self.source.as_deref().map(|s| s as _);
        while let Some(e) = cause {
            write!(f, ": {e}")?;
            cause = e.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)?;
        self.help.iter().try_for_each(|h| write!(f, " (help: {h})"))
    }
}

impl StdError for Error {
    // The causes are part of `Display`; a source as well would print them twice.
}
