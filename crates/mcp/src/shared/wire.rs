//! The connection between a running tool and the server: typed messages in memory, no JSON.

use std::convert::Infallible;
use std::future::{Future, ready};

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The service behind a tool's peer. `rmcp` makes no peer without one, and nothing is ever sent to it.
pub(crate) struct UnusedService;

impl ServerHandler for UnusedService {}

/// The tool's end of the connection.
pub(crate) struct Wire {
    out: UnboundedSender<ServerJsonRpcMessage>,
    back: UnboundedReceiver<ClientJsonRpcMessage>,
}

/// The server's end of the connection. A tool awaits each message that it sends, so the queue is never longer than the
/// number of branches that the tool runs concurrently.
pub(crate) struct Pipes {
    pub(crate) from_tool: UnboundedReceiver<ServerJsonRpcMessage>,
    pub(crate) to_tool: UnboundedSender<ClientJsonRpcMessage>,
}

impl Wire {
    pub(crate) fn new() -> (Self, Pipes) {
        let (out, from_tool) = unbounded_channel();
        let (to_tool, back) = unbounded_channel();
        (Self { out, back }, Pipes { from_tool, to_tool })
    }
}

impl Transport<RoleServer> for Wire {
    type Error = Infallible;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        // If the server's end is closed, the attempt is over and the message has no reader.
        drop(self.out.send(message));
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.back.recv().await
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
