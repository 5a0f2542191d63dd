//! A connection to a server, which has one call at a time.

use rmcp::service::{Peer, RoleClient, RunningService, ServiceError};
use tokio::sync::OwnedSemaphorePermit;

use super::client::Client;
use super::http;
use super::pool::Turn;
use super::process::Process;
use crate::limits;
use crate::polls::RequestError;

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

    /// What requests are sent to.
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

    /// Whether the server is still there and has done nothing odd.
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

    /// What the server answers to a request that has to be quick. It is given back with the answer.
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
