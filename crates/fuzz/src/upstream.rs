//! A server behind the gateway that answers with any bytes. The gateway starts or says why not in few words. Callers of
//! its tools get an answer, and the gateway continues.
//!
//! An input is a list of blocks, each after a line `%%`: the answers of the server. The first line of a block is the
//! method that it answers, the status and the media type, the rest is the body. `ID` in it stands for the id of the
//! request.

use std::net::SocketAddr;

use longhaul::serve::{self, Options};
use longhaul_core::settings::table;
use longhaul_gateway::{Config, Gateway};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::dialogue::{blocks, body_of};

/// Answers of one input.
const BLOCKS_MAX: usize = 12;

/// Bytes of the message if a gateway does not start.
const ERROR_BYTES_MAX: usize = 40_000;

/// The statuses in which the gateway may answer a list or a call that is in order.
const STATUSES: [u16; 3] = [200, 400, 404];

/// Starts one gateway.
pub(crate) fn run(input: &[u8]) {
    against(input, use_gateway);
}

/// Uses a server that has the answers in an input.
pub(crate) fn against(input: &[u8], use_it: impl AsyncFnOnce(SocketAddr)) {
    let answers = blocks(input).take(BLOCKS_MAX).map(<[u8]>::to_vec).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::select! {
            () = serve(listener, answers) => {}
            () = use_it(address) => {}
        }
    });
}

/// Answers each request with the block for its method, and all others with a status of 500.
async fn serve(listener: TcpListener, answers: Vec<Vec<u8>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let Some(asked) = read_request(stream).await else { continue };
        let method = format!("{} ", asked.method);
        let text = answers.iter().find_map(|text| text.strip_prefix(method.as_bytes()));
        let answer = match &asked.id {
            Some(id) => response(text.unwrap_or(b"500 text/plain\n"), id),
            None => b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
        };
        let mut stream = asked.stream;
        // A gateway that has heard enough closes the connection.
        let _closed = stream.write_all(&answer).await;
        let _closed = stream.shutdown().await;
    }
}

/// A request of the gateway.
struct Asked {
    stream: TcpStream,
    method: String,
    /// Its id as JSON; `None` if it wants no answer.
    id: Option<String>,
}

async fn read_request(stream: TcpStream) -> Option<Asked> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let message: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message.get("method").and_then(|method| method.as_str()).unwrap_or_default().to_owned();
    Some(Asked { stream: stream.into_inner(), method, id: message.get("id").map(ToString::to_string) })
}

/// A block without its method as an HTTP response.
fn response(block: &[u8], id: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(block);
    let (head, body) = text.split_once('\n').unwrap_or((&text, ""));
    let (status, media_type) = head.split_once(' ').unwrap_or(("200", "application/json"));
    let status: u16 = status.parse().ok().filter(|status| (200..600).contains(status)).unwrap_or(200);
    let media_type: String = media_type.chars().filter(|letter| letter.is_ascii_graphic()).collect();
    let body = body.replace("ID", id);
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: \
         close\r\n\r\n{body}"
    )
    .into_bytes()
}

async fn use_gateway(address: SocketAddr) {
    let text = format!(r#"{{"mcpServers": {{"hostile": {{"type": "http", "url": "http://{address}/mcp"}}}}}}"#);
    let config = Config::from_json(&text, &std::collections::BTreeMap::<&str, &str>::new()).unwrap();
    let gateway = match Gateway::start(config).await {
        Ok(gateway) => gateway,
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty() && said.len() <= ERROR_BYTES_MAX, "{said}");
            return;
        }
    };
    let options =
        Options::default().with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0))).with(&table::DB, ":memory:");
    let running = serve::start(gateway.server(), &options).await.unwrap();
    for (method, name) in [("tools/list", None), ("tools/call", Some("x")), ("tools/list", None)] {
        let status = ask(running.address(), method, name).await;
        assert!(STATUSES.contains(&status), "{method} is answered with {status}");
    }
    running.stop().await;
    gateway.stop().await;
}

/// The status with which the gateway answers a client of 2026-07-28 that knows no tasks.
async fn ask(address: SocketAddr, method: &str, name: Option<&str>) -> u16 {
    let params = name.map_or_else(|| json!({}), |name| json!({"name": name, "arguments": {}}));
    let body = body_of(method, params, &json!({})).to_string();
    let named = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    let headers = format!(
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: \
         {method}\r\n{named}"
    );
    status_of(address, &headers, &body).await
}

/// The status with which a server answers a request with these headers.
pub(crate) async fn status_of(address: SocketAddr, headers: &str, body: &str) -> u16 {
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: \
         {length}\r\n{headers}connection: close\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("{answer}"))
}
