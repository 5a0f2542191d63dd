//! What a server reports during a call, in the order in which it came, and before the answer. `rmcp` handles each
//! notification in a task of its own, so that they overtake each other, and the answer them.

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

use super::client::{Client, Event};

/// A transport that hands what a server reports to the client itself.
pub(super) struct InOrder<T> {
    transport: T,
    client: Client,
    /// What waits until the caller has taken earlier ones.
    waiting: Option<(mpsc::Sender<Event>, Event)>,
}

impl<T> InOrder<T> {
    pub(super) const fn new(transport: T, client: Client) -> Self {
        Self { transport, client, waiting: None }
    }

    /// Waits until the caller can take what waits.
    async fn hand_over(&mut self) {
        let Some((events, _)) = &self.waiting else { return };
        let room = events.clone().reserve_owned().await;
        // Whoever does not listen does not miss it.
        if let (Ok(room), Some((_, event))) = (room, self.waiting.take()) {
            room.send(event);
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for InOrder<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.transport.send(message)
    }

    /// If this is dropped before it returns, nothing is lost.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.hand_over().await;
            match self.transport.receive().await? {
                JsonRpcMessage::Notification(message) if is_report(&message.notification) => {
                    self.waiting = self.client.event_of(message.notification);
                }
                message => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

const fn is_report(notification: &ServerNotification) -> bool {
    matches!(
        notification,
        ServerNotification::ProgressNotification(_) | ServerNotification::LoggingMessageNotification(_)
    )
}
