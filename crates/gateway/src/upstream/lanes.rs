//! Connections for requests that do not wait for calls.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::Client;
use super::pool::{Connection, Pool};
use super::{ConnectError, RequestError, Upstream};

impl Upstream {
    /// A connection for a quick request. While calls have all connections, it is another one, which is not kept.
    pub(crate) async fn connect_once(&self, client: Client) -> Result<Connection, RequestError> {
        let connected = Box::pin(self.connect_next_to_calls(client, &self.quick)).await;
        connected.map_err(|error| RequestError::Lost(error.to_string()))
    }

    /// A connection for a list, a prompt, a resource or a completion: the same, but polls do not wait for it.
    pub(crate) async fn connect_for_a_request(&self, client: Client) -> Result<Connection, ConnectError> {
        Box::pin(self.connect_next_to_calls(client, &self.requests)).await
    }

    /// A connection that is kept or that calls leave free, otherwise one of `own`.
    async fn connect_next_to_calls(&self, client: Client, own: &Arc<Semaphore>) -> Result<Connection, ConnectError> {
        if let Some(mut turn) = self.pool.as_ref().and_then(Pool::try_turn) {
            if let Some(mut connection) = turn.idle(&client) {
                connection.may_be_kept(turn);
                return Ok(connection);
            }
            let has_room = self.permits.available_permits() > 0;
            let client = client.clone().noting_changes(&self.changed, &self.quota);
            let mut connection = self.connect_with_any(client, &[&self.permits, own]).await?;
            if has_room {
                connection.may_be_kept(turn);
            }
            return Ok(connection);
        }
        let client = client.noting_changes(&self.changed, &self.quota);
        let free: &[&Arc<Semaphore>] = if self.pool.is_some() { &[own] } else { &[&self.permits, own] };
        self.connect_with_any(client, free).await
    }

    pub(super) async fn permit(&self, permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ConnectError> {
        self.first_permit(&[permits]).await
    }

    /// The first permit of any of these.
    pub(super) async fn first_permit(&self, any: &[&Arc<Semaphore>]) -> Result<OwnedSemaphorePermit, ConnectError> {
        let each = any.iter().map(|permits| Box::pin(Arc::clone(permits).acquire_owned()));
        // The semaphores are never closed.
        let (first, ..) = futures::future::select_all(each).await;
        first.map_err(|closed| self.lost(&closed.to_string()))
    }
}
