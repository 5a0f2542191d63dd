//! How a life is asked for, and its end waited for, in the words of each system.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::Value;

use crate::connection::Connection;
use crate::servers::life::Life;
use crate::wire::{self, Call};

/// The words of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// MCP with the Tasks extension: a call, then polls with such pauses.
    Tasks(Duration),
    /// MCP without tasks: one request, answered with the result.
    Plain,
    /// Restate's ingress: a request with an idempotency key, then one that waits.
    Restate,
    /// The front of DBOS: one request that is answered with the result, or one that starts and one that waits.
    Dbos,
}

impl Protocol {
    /// A whole life, until the client has its result.
    pub(crate) async fn live(self, connection: &mut Connection, life: &Life) -> anyhow::Result<()> {
        let body = match self {
            Self::Plain => connection.send(plain(life)?).await?,
            Self::Dbos => connection.send(post("/life", None, serde_json::to_string(life)?)?).await?,
            Self::Tasks(_) | Self::Restate => {
                let id = self.begin(connection, life).await?;
                return self.end(connection, &id, life).await;
            }
        };
        check(&body, life)
    }

    /// Asks for a life, and returns its id once the system has accepted it.
    pub(crate) async fn begin(self, connection: &mut Connection, life: &Life) -> anyhow::Result<String> {
        let arguments = serde_json::to_string(life)?;
        match self {
            Self::Plain => bail!("a plain call is answered at its end"),
            Self::Tasks(_) => {
                let answer = connection.send(wire::call("life", &arguments)?).await?;
                Ok(wire::task_in(&answer)?.task_id.to_owned())
            }
            Self::Restate => {
                let key = uuid();
                text_in(&connection.send(post("/Life/run/send", Some(&key), arguments)?).await?, "invocationId")
            }
            Self::Dbos => text_in(&connection.send(post("/lives", None, arguments)?).await?, "id"),
        }
    }

    /// Waits for the end of a life, and looks at its result.
    pub(crate) async fn end(self, connection: &mut Connection, id: &str, life: &Life) -> anyhow::Result<()> {
        let path = match self {
            Self::Tasks(pause) => return polled(connection, id, life, pause).await,
            Self::Plain => bail!("a plain call has no end to wait for"),
            Self::Restate => format!("/restate/invocation/{id}/attach"),
            Self::Dbos => format!("/lives/{id}"),
        };
        let request = Request::get(path).header(HOST, "localhost").body(Full::default())?;
        check(&connection.send(request).await?, life)
    }
}

async fn polled(connection: &mut Connection, id: &str, life: &Life, pause: Duration) -> anyhow::Result<()> {
    loop {
        let answer = connection.send(wire::poll(id)?).await?;
        if is_completed(&answer, life)? {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
    }
}

/// A call of a client that knows no tasks.
fn plain(life: &Life) -> anyhow::Result<Call> {
    wire::plain_call("life", &serde_json::to_string(life)?)
}

fn post(path: &str, key: Option<&str>, body: String) -> anyhow::Result<Call> {
    let mut request = Request::post(path).header(HOST, "localhost").header(CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    Ok(request.body(Full::from(body))?)
}

fn text_in(answer: &Bytes, field: &str) -> anyhow::Result<String> {
    let answer: Value = serde_json::from_slice(answer)?;
    Ok(answer.get(field).and_then(Value::as_str).with_context(|| format!("no {field} in {answer}"))?.to_owned())
}

/// Looks at the answer of a poll: whether the life is completed, with the right result.
pub(crate) fn is_completed(answer: &[u8], life: &Life) -> anyhow::Result<bool> {
    Ok(wire::task_in(answer)?.is_completed()? && check(answer, life).map(|()| true)?)
}

/// The result has to be the sum of the steps' numbers.
fn check(answer: &[u8], life: &Life) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Answer {
        Sum(u32),
        InObject { sum: u32 },
        Mcp { result: Value },
    }
    let shown = || String::from_utf8_lossy(answer.get(..answer.len().min(500)).unwrap_or(answer)).into_owned();
    let sum = match serde_json::from_slice(answer).with_context(shown)? {
        Answer::Sum(sum) | Answer::InObject { sum } => sum,
        Answer::Mcp { result } => {
            let result = result.get("result").unwrap_or(&result);
            let text = result.pointer("/content/0/text").and_then(Value::as_str).with_context(shown)?;
            text.parse().with_context(shown)?
        }
    };
    ensure!(sum == life.sum(), "the result is {sum} and not {}: {}", life.sum(), shown());
    Ok(())
}

/// A key that no other life has.
fn uuid() -> String {
    uuid::Uuid::now_v7().to_string()
}
