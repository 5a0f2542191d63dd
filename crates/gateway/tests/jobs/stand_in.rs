//! A server that answers as a test says, and notes what it was asked.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request that it got.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The name of the operation in AWS's JSON protocols; for others, the method and the path.
    pub(crate) fn operation(&self) -> String {
        match self.header("x-amz-target") {
            Some(target) => target.rsplit('.').next().unwrap().to_owned(),
            None => format!("{} {}", self.method, self.path),
        }
    }
}

/// Its answer.
pub(crate) enum Reply {
    Json(u16, Value),
    Text(u16, String),
    /// Closes the connection.
    Cut,
    /// Says nothing until the client gives up.
    Hang,
}

pub(crate) fn ok(body: Value) -> Reply {
    Reply::Json(200, body)
}

/// An error as AWS's JSON protocols have it.
pub(crate) fn refusal(code: &str, message: &str) -> Reply {
    Reply::Json(400, json!({"__type": format!("com.amazonaws.any#{code}"), "message": message}))
}

/// Ends when it is dropped.
pub(crate) struct StandIn {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl StandIn {
    /// `answer` gets the request, and how many requests with the same operation there were before it.
    pub(crate) async fn new(answer: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        let serving = tokio::spawn(async move {
            loop {
                let (connection, _peer) = listener.accept().await.unwrap();
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(serve(connection, seen, answer));
            }
        });
        Self { url, asked, serving }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The operations so far.
    pub(crate) fn operations(&self) -> Vec<String> {
        self.asked().iter().map(Asked::operation).collect()
    }

    pub(crate) fn times(&self, operation: &str) -> usize {
        self.operations().iter().filter(|asked| *asked == operation).count()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One connection, until it is closed.
async fn serve(
    connection: TcpStream,
    seen: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<impl Fn(&Asked, usize) -> Reply + Send + Sync>,
) {
    let mut connection = BufReader::new(connection);
    while let Some(asked) = read(&mut connection).await {
        let before = {
            let mut seen = seen.lock().unwrap();
            let before = seen.iter().filter(|other| other.operation() == asked.operation()).count();
            seen.push(asked.clone());
            before
        };
        let (status, body) = match answer(&asked, before) {
            Reply::Json(status, body) => (status, body.to_string()),
            Reply::Text(status, body) => (status, body),
            Reply::Cut => return,
            Reply::Hang => std::future::pending().await,
        };
        let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n\r\n", body.len());
        if connection.get_mut().write_all(format!("{head}{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(connection: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    connection.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    Some(Asked { method, path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
