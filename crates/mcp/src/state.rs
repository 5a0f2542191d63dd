//! The state of a server, which all its handlers and attempts share.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul_engine::{Engine, Retry};
use tokio_util::sync::CancellationToken;

use crate::admission::memory::Memory;
use crate::admission::polls::{Polls, Rate};
use crate::admission::streams::Streams;
use crate::signing::derived::Names;
use crate::signing::signer::Signer;
use crate::tools::Tools;
use crate::waiting::open_requests::OpenRequests;
use crate::waiting::session_streams::SessionStreams;
use crate::waiting::task_logs::TaskLogs;
use crate::{McpSettings, Policies};

/// The state that all handlers and attempts of a server share.
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
    pub(crate) open_requests: OpenRequests,
    /// The subscriptions of sessions of older revisions.
    pub(crate) session_streams: SessionStreams,
    /// The log messages of tasks, for the requests that wait for them.
    pub(crate) logs: TaskLogs,
    /// The memory that requests and attempts may use.
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

    /// How often steps of this tool are tried that do not say it.
    pub(crate) fn retry_of(&self, tool: &str) -> Retry {
        self.policies.get(tool).map(|policy| policy.retry).unwrap_or_default()
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
            open_requests: OpenRequests::default(),
            session_streams: SessionStreams::default(),
            logs: TaskLogs::default(),
            memory: Arc::default(),
            closing: CancellationToken::new(),
        }
    }
}
