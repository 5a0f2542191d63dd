//! The identity of a source, by which every chunk checks that it has not changed.

use serde::{Deserialize, Serialize};

/// The source as it was when the task began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Its length in bytes; `None` if a server does not say.
    pub(crate) bytes: Option<u64>,
    /// The time of a file's last change; of a resource its strong entity tag, or the time of its last change.
    pub(super) version: Option<String>,
    /// Whether it can be read from any byte on, so that every chunk can be a separate step.
    pub(super) has_parts: bool,
}
