//! The wire between a running tool and us: typed messages in memory, no JSON.

use std::convert::Infallible;
use std::future::{Future, ready};

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The service behind a tool's peer. Nothing is ever sent to it: a peer cannot be had without one.
pub(crate) struct Nobody;

impl ServerHandler for Nobody {}

/// The tool's end of the wire.
pub(crate) struct Wire {
    out: UnboundedSender<ServerJsonRpcMessage>,
    back: UnboundedReceiver<ClientJsonRpcMessage>,
}

/// Our end of the wire. What comes out was awaited by the tool, one message at a time for each of its branches, so the
/// queue is as short as the tool is narrow.
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
        // Where our end is gone, the leg is over and nobody listens.
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
