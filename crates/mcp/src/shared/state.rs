//! The state that all handlers and legs of a server share.

use std::collections::BTreeMap;

use longhaul_engine::Engine;
use tokio_util::sync::CancellationToken;

use super::rate::Rate;
use super::schemas::Schemas;
use super::signer::Signer;
use crate::{McpSettings, TaskPolicy};

/// What all handlers and legs of a server share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) policies: BTreeMap<String, TaskPolicy>,
    pub(crate) settings: McpSettings,
    pub(crate) signer: Signer,
    /// What the arguments of calls are checked against.
    pub(crate) schemas: Schemas,
    /// How often clients ask for results that do not exist yet.
    pub(crate) rate: Rate,
    /// Cancelled when open streams are to end.
    pub(crate) closing: CancellationToken,
}

impl Shared {
    pub(crate) fn new(engine: Engine, policies: BTreeMap<String, TaskPolicy>, settings: McpSettings) -> Self {
        let signer = Signer::new(settings.state_key);
        Self {
            engine,
            policies,
            settings,
            signer,
            schemas: Schemas::default(),
            rate: Rate::default(),
            closing: CancellationToken::new(),
        }
    }
}
