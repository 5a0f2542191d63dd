//! `echo`: answers at once with what it was sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `echo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EchoArgs {
    /// What to answer with.
    pub text: String,
}
