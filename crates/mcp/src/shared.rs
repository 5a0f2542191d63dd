//! What the code that answers requests and the code that runs tools have in common: the server's state, who calls,
//! messages, replies, errors, and calls on their way to the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use closed_requests::ClosedRequests;
use derived::Names;
use longhaul_engine::Engine;
use memory::Memory;
use polls::{Polls, Rate};
use session_streams::SessionStreams;
use signer::Signer;
use streams::Streams;
use task_logs::TaskLogs;
use tokio_util::sync::CancellationToken;
use tools::Tools;

use crate::{McpSettings, Policies};

pub(crate) mod accept;
pub(crate) mod asking;
pub(crate) mod caller;
pub(crate) mod cancelling;
mod closed_requests;
pub(crate) mod derived;
pub(crate) mod envelope;
pub(crate) mod errors;
pub(crate) mod handler;
pub(crate) mod incoming;
pub(crate) mod memory;
pub(crate) mod polls;
pub(crate) mod reply;
pub(crate) mod session;
pub(crate) mod session_streams;
pub(crate) mod signer;
pub(crate) mod sse;
pub(crate) mod streams;
pub(crate) mod task_logs;
pub(crate) mod tools;
pub(crate) mod watch;
pub(crate) mod weight;

/// What all handlers and attempts of a server share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) policies: Policies,
    pub(crate) settings: McpSettings,
    pub(crate) signer: Signer,
    /// Finds the tasks that clients named.
    pub(crate) names: Names,
    pub(crate) tools: Tools,
    /// How often clients ask for results that do not exist yet.
    pub(crate) rate: Rate,
    /// How often values for the callbacks of one task may be sent.
    pub(crate) callback_rate: Rate,
    pub(crate) polls: Polls,
    /// How many streams and waits they have open.
    pub(crate) streams: Streams,
    /// Which answers plain calls no longer await.
    pub(crate) closed_requests: ClosedRequests,
    /// What sessions of older revisions have subscribed to.
    pub(crate) session_streams: SessionStreams,
    /// What tasks log, for those who wait for them.
    pub(crate) logs: TaskLogs,
    /// What requests and attempts may use.
    pub(crate) memory: Arc<Memory>,
    /// Cancelled when open streams are to end.
    pub(crate) closing: CancellationToken,
}

impl Shared {
    pub(crate) fn scopes_of_call(&self, tool: &str) -> BTreeSet<String> {
        let mut scopes = self.policies.scopes_of(tool);
        scopes.extend(self.settings.scopes.of_call(tool).cloned());
        scopes
    }

    pub(crate) fn needs_no_scopes(&self) -> bool {
        self.settings.scopes.is_empty() && !self.policies.has_function()
    }

    pub(crate) fn new(engine: Engine, policies: Policies, mut settings: McpSettings) -> Self {
        for (tool, policy) in policies.named().filter(|(_, policy)| !policy.scopes().is_empty()) {
            settings.scopes.tools.entry(tool.clone()).or_default().extend(policy.scopes().iter().cloned());
        }
        Self {
            signer: Signer::new(engine.clone(), settings.secret),
            names: Names::new(&settings.secret),
            polls: Polls::new(engine.clone(), settings.poll_limit),
            streams: Streams::new(engine.clone(), &settings),
            tools: Tools::new(Arc::clone(&engine.ports().clock)),
            engine,
            policies,
            settings,
            rate: Rate::default(),
            callback_rate: Rate::default(),
            closed_requests: ClosedRequests::default(),
            session_streams: SessionStreams::default(),
            logs: TaskLogs::default(),
            memory: Arc::default(),
            closing: CancellationToken::new(),
        }
    }
}
