//! An authorization server on this machine, which publishes what a test wants, and counts who asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where its metadata are.
pub const METADATA: &str = "/.well-known/oauth-authorization-server";
/// Where its metadata would be for OpenID Connect.
pub const OPENID: &str = "/.well-known/openid-configuration";
/// Where its keys are.
pub const KEYS: &str = "/jwks";

/// How a path is answered.
#[derive(Clone)]
pub enum Answer {
    /// This document.
    Json(Value),
    /// Nothing but a status.
    Status(u16),
    /// A redirect to this URL.
    Redirect(String),
    /// Bytes without end.
    Endless,
    /// Nothing, as long as the connection is open.
    Silence,
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    asked: Vec<String>,
}

/// The server.
#[derive(Clone)]
pub struct Issuer {
    /// Its name, which is the URL that it listens on too.
    pub name: String,
    state: Arc<Mutex<State>>,
}

impl Issuer {
    /// One that publishes its metadata and no keys.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Self { name, state: Arc::default() };
        issuer.answer(METADATA, Answer::Json(issuer.metadata()));
        issuer.publish(&[]);
        let serving = issuer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        issuer
    }

    /// Its metadata.
    pub fn metadata(&self) -> Value {
        json!({"issuer": self.name, "jwks_uri": format!("{}{KEYS}", self.name)})
    }

    /// Publishes these keys from now on.
    pub fn publish(&self, keys: &[Value]) {
        self.answer(KEYS, Answer::Json(json!({"keys": keys})));
    }

    /// Answers requests for a path like this from now on.
    pub fn answer(&self, path: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), answer);
    }

    /// How often the path was asked for.
    pub fn asked(&self, path: &str) -> usize {
        self.state.lock().unwrap().asked.iter().filter(|asked| *asked == path).count()
    }

    /// How often anything was asked for.
    pub fn asked_at_all(&self) -> usize {
        self.state.lock().unwrap().asked.len()
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let answer = {
            let mut state = self.state.lock().unwrap();
            state.asked.push(path.clone());
            state.answers.get(&path).cloned().unwrap_or(Answer::Status(404))
        };
        drop(send(&mut stream, answer).await);
    }
}

async fn send(stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    let head = |status: u16, more: &str| format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{more}\r\n");
    match answer {
        Answer::Json(document) => {
            let body = document.to_string();
            let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
            stream.write_all((head(200, &more) + &body).as_bytes()).await
        }
        Answer::Status(status) => stream.write_all(head(status, "Content-Length: 0\r\n").as_bytes()).await,
        Answer::Redirect(target) => {
            let more = format!("Location: {target}\r\nContent-Length: 0\r\n");
            stream.write_all(head(302, &more).as_bytes()).await
        }
        Answer::Endless => {
            stream.write_all(head(200, "").as_bytes()).await?;
            loop {
                stream.write_all(&[b' '; 4096]).await?;
            }
        }
        Answer::Silence => std::future::pending().await,
    }
}
