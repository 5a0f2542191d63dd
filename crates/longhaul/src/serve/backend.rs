//! A store and a queue that the application provides.

use std::sync::Arc;

use longhaul_core::IdSource;

use crate::{OsIds, Server, ToolError};
use longhaul_core::ports::{AttemptPermits, TaskStore, WorkQueue};

/// Your own store and queue, for a server that runs [on](super::Options::on) them instead of the embedded database.
///
/// Both are described by the traits in [`longhaul_core::ports`]: each method is atomic, and its documentation says what
/// holds once it returns. The crate `longhaul-testkit` has the tests that every pair has to pass. The server deletes
/// nothing from such a store: records past their time to live count as absent, and the store may delete them. It waits
/// for the leases that it finds, since other workers may be alive. The option `owner-concurrency` is ignored: which
/// owner's message is next is the queue's decision.
///
/// ```no_run
/// use std::sync::Arc;
/// use longhaul::serve::{self, Backend, Options};
/// use longhaul_core::ports::{AttemptPermits, TaskStore, WorkQueue};
/// use longhaul::Server;
///
/// type Served = Result<(), serve::ServeError>;
///
/// async fn run(server: Server, store: Arc<dyn TaskStore>, queue: Arc<dyn WorkQueue>) -> Served {
///     longhaul::serve(server, Options::default().on(Backend::new(store, queue))).await
/// }
///
/// /// With flow control, and the same key in every process.
/// fn shared(backend: Backend, permits: Arc<dyn AttemptPermits>, key: [u8; 32]) -> Options {
///     Options::default().on(backend.permits(permits).signing_key(key))
/// }
/// ```
#[derive(Clone)]
pub struct Backend {
    pub(super) store: Arc<dyn TaskStore>,
    pub(super) queue: Arc<dyn WorkQueue>,
    pub(super) permits: Option<Arc<dyn AttemptPermits>>,
    pub(super) signing_key: [u8; 32],
}

impl Backend {
    /// A server on this store and this queue.
    #[must_use]
    pub fn new(store: Arc<dyn TaskStore>, queue: Arc<dyn WorkQueue>) -> Self {
        let mut signing_key = [0; 32];
        OsIds.fill(&mut signing_key);
        Self { store, queue, permits: None, signing_key }
    }

    /// Counts the attempts of tools with flow control here ([`TaskPolicy::concurrency`](crate::TaskPolicy::concurrency)).
    /// A server that has such tools does not start without it.
    #[must_use]
    pub fn permits(mut self, permits: Arc<dyn AttemptPermits>) -> Self {
        self.permits = Some(permits);
        self
    }

    /// The secret of the keys that sign the state which clients carry between their requests: sessions, and the state
    /// of calls that ask questions. The keys change on their own. The secret should not, since the server uses it to
    /// find the tasks that clients named. Give the same secret to all processes that share the store, and to this one
    /// after a restart. Without it a random one is used, and clients have to start new sessions after a restart.
    #[must_use]
    pub const fn signing_key(mut self, key: [u8; 32]) -> Self {
        self.signing_key = key;
        self
    }

    /// Refuses tools with flow control if no store counts their attempts.
    pub(super) fn check(&self, server: &Server) -> Result<(), ToolError> {
        let tasks = server.tasks();
        match tasks.named().find(|(_, policy)| policy.has_flow_control()) {
            Some((tool, _)) if self.permits.is_none() => {
                let why = "`concurrency` and `rate` need a store of permits: name one with `Backend::permits`";
                Err(ToolError::Policy { tool: tool.clone(), why: why.to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Backend {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}
