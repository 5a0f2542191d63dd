//! A server that answers the client with any bytes. The caller gets an answer or an error that says why there is none,
//! after a limited number of requests.
//!
//! An input has the form of those of the target `upstream`: the answers of the server.

use std::net::SocketAddr;
use std::time::Duration;

use longhaul_client::{
    Call, Called, Client, Error, Nobody, Question, Status, Target, TaskFilter, unreadable_answer,
};
use serde_json::{Map, json};

use crate::upstream::against;

/// A server may ask for minutes of patience before its stream is read on.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connects, and asks for everything that a client asks for.
pub(crate) fn run(input: &[u8]) {
    assert!(unreadable_answer(input).is_none_or(|id| id.is_string() || id.is_number()));
    against(input, use_client);
}

async fn use_client(address: SocketAddr) {
    let url = format!("http://{address}/mcp");
    let Some(client) = told(Client::connect(Target::new(url.parse().unwrap()), None)).await else { return };
    assert!(!client.revision().is_empty());
    let tools = told(client.tools()).await.unwrap_or_default();
    let filter = TaskFilter { statuses: vec![Status::Working], tool: Some("x".to_owned()), ..TaskFilter::default() };
    if let Some(listed) = told(client.list(&filter, 50)).await {
        assert!(listed.tasks.iter().all(|task| filter.takes(task)) && listed.pages <= 100);
    }
    let call = Call { listed: tools.into_iter().next(), ..Call::new("x", Map::new()) };
    let id = match told(client.call(&call, &mut Nobody)).await {
        Some(Called::Task(task)) => task.id,
        Some(Called::Result(_) | Called::Unanswered(_)) | None => "7".to_owned(),
    };
    if let Some(task) = told(client.task(&id)).await {
        let asked = Question { key: "1".to_owned(), method: String::new(), params: json!(null) };
        let question = task.questions.first().unwrap_or(&asked);
        told(client.answer(&id, question, json!({"action": "decline"}))).await;
        let _none_is_fine = task.progress();
    }
    told(client.inspect(&id)).await;
    told(client.called(&id)).await;
    told(client.cancel(&id)).await;
    client.close().await;
}

/// The answer, if it came in time. An error has to say something.
async fn told<T>(answer: impl Future<Output = Result<T, Error>>) -> Option<T> {
    let answer = tokio::time::timeout(PATIENCE, answer).await.ok()?;
    answer.inspect_err(|error| assert!(!error.to_string().trim().is_empty(), "{error:?}")).ok()
}
