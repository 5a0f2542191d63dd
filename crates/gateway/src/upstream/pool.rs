//! Connections to a server, each of which has one call at a time. Some are kept from one call to the next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul::SystemClock;
use longhaul_core::Clock;
use rmcp::service::{Peer, RoleClient, RunningService, ServiceError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::Client;
use super::process::Process;
use super::{RequestError, http};
use crate::limits;
use crate::target::Keeping;

/// The idle connections of one server. A connection that is in use is not among them.
pub(super) struct Pool {
    /// One permit for each connection: calls that wait for a connection get it in order.
    turns: Arc<Semaphore>,
    keeping: Keeping,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    kept: Vec<Kept>,
    /// Whether a task that closes idle connections is running.
    swept: bool,
    closed: bool,
}

struct Kept {
    connection: Connection,
    calls: usize,
    idle_ms: u64,
}

/// The permission to use a connection, and to keep it for the next call.
pub(super) struct Turn {
    pool: Arc<Pool>,
    calls: usize,
    _turn: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(connections: usize, keeping: Keeping) -> Self {
        Self { turns: Arc::new(Semaphore::new(connections)), keeping, idle: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer calls than connections are under way.
    pub(super) async fn turn(self: &Arc<Self>) -> Result<Turn, tokio::sync::AcquireError> {
        let turn = Arc::clone(&self.turns).acquire_owned().await?;
        Ok(Turn { pool: Arc::clone(self), calls: 0, _turn: turn })
    }

    /// The same without waiting; `None` while as many calls as connections are under way.
    pub(super) fn try_turn(self: &Arc<Self>) -> Option<Turn> {
        let turn = Arc::clone(&self.turns).try_acquire_owned().ok()?;
        Some(Turn { pool: Arc::clone(self), calls: 0, _turn: turn })
    }

    /// Ends the one that has been idle for longest, to make room.
    pub(super) fn make_room(&self) {
        let mut idle = self.lock();
        let longest = (!idle.kept.is_empty()).then(|| idle.kept.remove(0));
        drop(idle);
        drop(longest);
    }

    /// Ends all idle ones, and keeps none from now on.
    pub(super) fn close(&self) {
        let mut idle = self.lock();
        idle.closed = true;
        let kept = std::mem::take(&mut idle.kept);
        drop(idle);
        drop(kept);
    }

    fn keep(self: &Arc<Self>, connection: Connection, calls: usize) {
        let mut idle = self.lock();
        if idle.closed || calls >= self.keeping.calls_max {
            drop(idle);
            drop(connection);
            return;
        }
        idle.kept.push(Kept { connection, calls, idle_ms: 0 });
        if !idle.swept {
            idle.swept = true;
            sweep(Arc::downgrade(self));
        }
    }

    /// Ends connections that have been idle for too long, or are not usable any more. Returns whether some are left.
    fn sweep(&self) -> bool {
        let mut idle = self.lock();
        for kept in &mut idle.kept {
            kept.idle_ms += limits::SWEEP_MS;
        }
        let ended = take(&mut idle.kept, |kept| {
            Duration::from_millis(kept.idle_ms) > self.keeping.idle_max || !kept.connection.is_fit()
        });
        idle.swept = !idle.kept.is_empty();
        let left = idle.swept;
        drop(idle);
        drop(ended);
        left
    }
}

impl Turn {
    /// The connection that was used last, among those that this client may use.
    pub(super) fn idle(&mut self, client: &Client) -> Option<Connection> {
        let mut idle = self.pool.lock();
        let ended = take(&mut idle.kept, |kept| !kept.connection.is_fit());
        let place = idle.kept.iter().rposition(|kept| kept.connection.client().fits(client));
        let kept = place.map(|place| idle.kept.remove(place));
        drop(idle);
        drop(ended);
        let Kept { connection, calls, .. } = kept?;
        connection.client().take_over(client);
        self.calls = calls;
        Some(connection)
    }

    /// Keeps the connection for the next call, if it may have another one.
    pub(super) fn keep(self, connection: Connection) {
        self.pool.keep(connection, self.calls + 1);
    }
}

/// Takes the connections that match out of `kept`.
fn take(kept: &mut Vec<Kept>, matches: impl Fn(&Kept) -> bool) -> Vec<Kept> {
    let (taken, left) = std::mem::take(kept).into_iter().partition(matches);
    *kept = left;
    taken
}

#[expect(clippy::disallowed_methods, reason = "ends when nothing is idle, or the pool is gone")]
fn sweep(pool: Weak<Pool>) {
    tokio::spawn(async move {
        loop {
            SystemClock.sleep_ms(limits::SWEEP_MS).await;
            match pool.upgrade() {
                Some(pool) if pool.sweep() => {}
                _ => return,
            }
        }
    });
}

/// A connection. When it is dropped, the process behind it is ended.
pub(crate) struct Connection {
    server: String,
    running: RunningService<RoleClient, Client>,
    process: Option<Process>,
    _permit: Option<OwnedSemaphorePermit>,
    /// If it may be kept.
    turn: Option<Turn>,
}

impl Connection {
    pub(super) fn new(
        server: &str,
        running: RunningService<RoleClient, Client>,
        process: Option<Process>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { server: server.to_owned(), running, process, _permit: permit, turn: None }
    }

    /// It may be kept after its call.
    pub(super) fn may_be_kept(&mut self, turn: Turn) {
        self.turn = Some(turn);
    }

    /// The peer that requests are sent to.
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.running.peer()
    }

    pub(super) fn client(&self) -> &Client {
        self.running.service()
    }

    /// Whether the server is still there.
    pub(super) fn is_open(&self) -> bool {
        let gone = self.running.is_closed() || self.peer().is_transport_closed();
        !gone && self.process.as_ref().is_none_or(Process::is_alive)
    }

    /// Whether the server is still there and has not broken the protocol.
    pub(super) fn is_fit(&self) -> bool {
        self.is_open() && self.client().watch().unfit().is_none()
    }

    /// Gives it back after its call has ended with an answer, so that another call may use it. Otherwise, and if it is
    /// not kept, it is ended.
    pub(crate) fn give_back(mut self) {
        let Some(turn) = self.turn.take() else { return };
        if self.is_fit() {
            self.client().watch().leave();
            turn.keep(self);
        } else {
            let why = self.client().watch().unfit().unwrap_or("it has ended");
            tracing::debug!(server = self.server, why, "a process or connection is not kept");
        }
    }

    /// The server's answer to a request that has to be quick. The connection is returned with the answer.
    pub(crate) async fn request<T>(
        self,
        request: impl AsyncFnOnce(&Peer<RoleClient>) -> Result<T, ServiceError>,
    ) -> Result<T, RequestError> {
        // Boxed because the futures of `rmcp` are too large for the stack of a thread otherwise.
        let answered = tokio::time::timeout(limits::ANSWER_MAX, Box::pin(request(self.peer()))).await;
        match answered {
            Ok(Ok(answer)) => {
                self.give_back();
                Ok(answer)
            }
            Ok(Err(ServiceError::McpError(error))) => {
                self.give_back();
                Err(RequestError::Refused(error))
            }
            Ok(Err(error)) => Err(RequestError::Lost(format!("{}: {error}", self.server))),
            Err(_late) => {
                let (server, seconds) = (&self.server, limits::ANSWER_MAX.as_secs());
                Err(RequestError::Lost(format!("{server}: no answer within {seconds} seconds")))
            }
        }
    }

    /// Whether nothing of the latest request was sent, after it failed. Nothing of it will be.
    pub(crate) fn withheld(&self, error: &ServiceError) -> bool {
        match &self.process {
            Some(_) => self.client().watch().withhold(),
            None => http::is_unsent(error),
        }
    }

    /// Why the connection is gone, after a request failed because of it.
    pub(crate) async fn last_words(mut self, error: &ServiceError) -> String {
        match &mut self.process {
            Some(process) => process.last_words().await,
            None => format!("the connection was lost: {}", lost(error)),
        }
    }
}

/// Why a connection was lost, without the names of types.
fn lost(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => http::why(error),
        other => longhaul_client::with_causes(other),
    }
}
