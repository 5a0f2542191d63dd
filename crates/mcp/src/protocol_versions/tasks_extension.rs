//! The Tasks extension of MCP `2026-07-28`: all requests about existing tasks.

use async_trait::async_trait;
use http::{Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::ErrorCode;

use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::request::incoming::Incoming;
use crate::revision::Generation;
use crate::views::filtered;
use crate::{Body, reply};

mod inspect;
mod listen;
mod resume;
mod tasks;

use tasks::Method;

pub(crate) struct TasksExtension;

#[async_trait]
impl ProtocolVersion for TasksExtension {
    async fn answer(&self, call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
        match call.client.generation() {
            Generation::PerRequest => answer_modern(call, endpoint).await,
            Generation::Handshake => None,
        }
    }
}

async fn answer_modern(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    match &*call.method {
        "subscriptions/listen" => {
            let ids = listen::task_ids(call.params)?;
            Some(listen::open(call, endpoint, ids).await)
        }
        "tasks/get" => Some(tasks::answer(Method::Get, call, endpoint).await),
        "tasks/update" => Some(tasks::answer(Method::Update, call, endpoint).await),
        "tasks/cancel" => Some(tasks::answer(Method::Cancel, call, endpoint).await),
        filtered::METHOD if filtered::is_for(call, endpoint.shared()) => Some(tasks::list(call, endpoint).await),
        filtered::METHOD => Some(no_such_method(call)),
        inspect::METHOD => Some(tasks::answer(Method::Inspect, call, endpoint).await),
        resume::METHOD => Some(tasks::answer(Method::Resume, call, endpoint).await),
        _ => None,
    }
}

fn no_such_method(call: &Incoming<'_>) -> Response<Body> {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, call.method.clone().into_owned(), None);
    reply::error_with(StatusCode::NOT_FOUND, Some(&call.id), &error)
}
