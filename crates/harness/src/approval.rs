//! Sending values to the callback of a task of the tool `approval`.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::caller::Caller;

/// The status of a value that comes after another one, while the task continues.
pub const LATE: u16 = 409;

/// The status of a value that comes after the task's end.
pub const ENDED: u16 = 410;

/// The token that the tool has handed out.
pub async fn token_of(caller: &Caller, id: &str) -> String {
    let shows_token = |task: &Value| task["_meta"]["dev.longhaul/variables"]["token"].is_string();
    let task = caller.until_it(id, "its token", shows_token).await;
    task["_meta"]["dev.longhaul/variables"]["token"].as_str().unwrap().to_owned()
}

/// The status that the value gets; `None` if no function answered because one died. The endpoint in front of the
/// functions may still have answered.
pub async fn post(url: &str, value: &Value) -> Option<u16> {
    let sent = reqwest::Client::new().post(url).header("content-type", "application/json").body(value.to_string());
    let status = sent.send().await.ok()?.status().as_u16();
    Some(status).filter(|status| *status < 500)
}

/// Sends a first value, even if processes die meanwhile.
pub fn send_first(url: &str) -> JoinHandle<Option<u16>> {
    let url = url.to_owned();
    tokio::spawn(async move { post(&url, &json!("first")).await })
}

/// The value that counts, by the answers to a first and to a second one. The answer to the first may be lost. The
/// sender of the second one learns which of them counts.
pub fn counted(first: Option<u16>, second: Option<u16>) -> &'static str {
    match (first, second) {
        (Some(202) | None, Some(LATE | ENDED)) => "first",
        (None, Some(202)) => "second",
        other => panic!("the answers are {other:?}"),
    }
}
