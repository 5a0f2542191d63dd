//! The processes of a test run, and how they end.

use std::fmt;
use std::sync::Arc;

use crate::Server;

/// Makes the server of a new process.
pub(super) type MakeServer = Arc<dyn Fn() -> Server + Send + Sync>;

/// The processes of a run.
#[derive(Clone, Default)]
pub(super) enum Processes {
    /// One server lives through all crashes, and a crash drops the attempt.
    #[default]
    ShareAServer,
    /// Each has a server of its own.
    Of { make_server: MakeServer, at_a_crash: AtACrash },
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShareAServer => f.write_str("ShareAServer"),
            Self::Of { at_a_crash, .. } => f.debug_tuple("Of").field(at_a_crash).finish(),
        }
    }
}

/// The fate of an attempt whose process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtACrash {
    /// It is dropped, and the destructors of its values run.
    Dropped,
    /// It is left alone, as in a process that is killed.
    Killed,
}
