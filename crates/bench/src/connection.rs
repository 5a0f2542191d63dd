//! One keep-alive connection to a server.

use std::net::SocketAddr;

use anyhow::ensure;
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::wire::Call;

/// One keep-alive connection to a server; one request at a time.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the connection; the sender sees what breaks it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender })
    }

    /// Opens `count` connections.
    pub(crate) async fn open_many(address: SocketAddr, count: usize) -> anyhow::Result<Vec<Self>> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Self::open(address).await?);
        }
        Ok(connections)
    }

    /// Sends `request` and returns the whole body of its answer.
    pub(crate) async fn send(&mut self, request: Call) -> anyhow::Result<Bytes> {
        Ok(self.exchange(request).await?.into_body())
    }

    /// The same, with the headers of the answer.
    pub(crate) async fn exchange(&mut self, request: Call) -> anyhow::Result<Response<Bytes>> {
        self.sender.ready().await?;
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        ensure!(head.status.is_success(), "{}: {}", head.status, String::from_utf8_lossy(&body));
        Ok(Response::from_parts(head, body))
    }
}
