//! How the command ends, with exit codes for scripts.

use std::process::ExitCode;

use longhaul_client::Error;

/// How the command ends. The greatest value counts if there are several tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Well = 0,
    Unexpected = 1,
    Usage = 2,
    NotSignedIn = 3,
    Unreachable = 4,
    Failed = 5,
    Unanswered = 6,
    WaitOver = 7,
    Cancelled = 8,
    Interrupted = 130,
}

impl Exit {
    /// Its name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Well => "success",
            Self::Unexpected => "unexpected",
            Self::Usage => "usage",
            Self::NotSignedIn => "not_authenticated",
            Self::Unreachable => "not_reachable",
            Self::Failed => "failed",
            Self::Unanswered => "input_required",
            Self::WaitOver => "wait_elapsed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why the command does not do what it was asked.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) exit: Exit,
    /// A sentence for the user. Empty if there is nothing to say.
    pub(crate) why: String,
}

impl Stop {
    pub(crate) fn new(exit: Exit, why: impl Into<String>) -> Self {
        Self { exit, why: why.into() }
    }

    pub(crate) fn usage(why: impl Into<String>) -> Self {
        Self::new(Exit::Usage, why)
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted")
    }

    /// The reader of the standard output has gone, as `head` does. That is not an error.
    pub(crate) const fn reader_gone() -> Self {
        Self { exit: Exit::Well, why: String::new() }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Unreachable(_) | Error::Lost(_) | Error::Busy { .. } | Error::SessionGone => Exit::Unreachable,
            Error::NotSignedIn(_) | Error::NoCredentials(_) => Exit::NotSignedIn,
            // The request does not fit: a tool, a task, an argument.
            error if error.is_about_params() => Exit::Usage,
            Error::Refused(_) => Exit::Failed,
            Error::Unsupported(_) | Error::Unexpected(_) => Exit::Unexpected,
        };
        Self::new(exit, error.to_string())
    }
}
