//! How a call is begun, and its end waited for, in the protocol of each system.

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
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Protocol {
    /// MCP with the Tasks extension: a call, then polls with pauses.
    Tasks,
    /// MCP without tasks: one request, answered with the result.
    Plain,
    /// Restate's ingress: a request with an idempotency key, then one that waits.
    Restate,
    /// The front of DBOS: one request that is answered with the result, or one that starts and one that waits.
    Dbos,
}

impl Protocol {
    /// A whole call, until the client has its result.
    pub(super) async fn live(self, connection: &mut Connection, life: &Life, pause: Duration) -> anyhow::Result<()> {
        let arguments = serde_json::to_string(life)?;
        let body = match self {
            Self::Plain => connection.send(wire::plain_call("life", &arguments)?).await?,
            Self::Dbos => connection.send(post("/life", None, arguments)?).await?,
            Self::Tasks | Self::Restate => {
                let id = self.begin(connection, life).await?;
                return self.end(connection, &id, life, pause).await;
            }
        };
        check(&body, life)
    }

    /// Begins a call, and returns its id once the system has accepted it.
    pub(super) async fn begin(self, connection: &mut Connection, life: &Life) -> anyhow::Result<String> {
        let arguments = serde_json::to_string(life)?;
        let (request, field) = match self {
            Self::Plain => bail!("a plain call is answered at its end"),
            Self::Tasks => {
                let answer = connection.send(wire::call("life", &arguments)?).await?;
                return Ok(wire::task_in(&answer)?.task_id.to_owned());
            }
            Self::Restate => {
                (post("/Life/run/send", Some(&uuid::Uuid::now_v7().to_string()), arguments)?, "invocationId")
            }
            Self::Dbos => (post("/lives", None, arguments)?, "id"),
        };
        let answer: Value = serde_json::from_slice(&connection.send(request).await?)?;
        Ok(answer.get(field).and_then(Value::as_str).with_context(|| format!("no {field} in {answer}"))?.to_owned())
    }

    /// Waits for the end of a call, and checks its result.
    pub(super) async fn end(
        self,
        connection: &mut Connection,
        id: &str,
        life: &Life,
        pause: Duration,
    ) -> anyhow::Result<()> {
        let path = match self {
            Self::Tasks => {
                while !is_completed(&connection.send(wire::poll(id)?).await?, life)? {
                    tokio::time::sleep(pause).await;
                }
                return Ok(());
            }
            Self::Plain => bail!("a plain call has no end to wait for"),
            Self::Restate => format!("/restate/invocation/{id}/attach"),
            Self::Dbos => format!("/lives/{id}"),
        };
        let request = Request::get(path).header(HOST, "localhost").body(Full::default())?;
        check(&connection.send(request).await?, life)
    }
}

fn post(path: &str, key: Option<&str>, body: String) -> anyhow::Result<Call> {
    let mut request = Request::post(path).header(HOST, "localhost").header(CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    Ok(request.body(Full::new(Bytes::from(body)))?)
}

/// Looks at the answer of a poll: whether the life is completed, with the right result.
pub(super) fn is_completed(answer: &[u8], life: &Life) -> anyhow::Result<bool> {
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
    let shown = || wire::beginning(answer);
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
