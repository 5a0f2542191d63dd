//! Calls into the author's code: a panic there becomes an error here, and a running tool is connected with the server
//! by typed messages in memory, no JSON.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) struct Panicked(pub(crate) String);

/// Runs `call`; a panic inside is caught and returned as an error.
pub(crate) async fn catch<T>(call: impl Future<Output = T>) -> Result<T, Panicked> {
    // Nothing of the call outlives the panic: its future is dropped, and the state that handlers share is their own
    // responsibility.
    AssertUnwindSafe(call).catch_unwind().await.map_err(|panic| Panicked(words(&*panic)))
}

/// Runs a handler's method. Without this, a panic would leave the request without any answer.
pub(crate) async fn guard<T>(call: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    catch(call).await.unwrap_or_else(|Panicked(words)| {
        tracing::error!(panic = words, "the handler panicked");
        Err(ErrorData::internal_error("the server's handler panicked", None))
    })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

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
