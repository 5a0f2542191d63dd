//! Revisions before `2026-07-28`: a handshake says what client and server can do. What was negotiated goes out in a
//! signed session id and comes back with every later request.

use async_trait::async_trait;
use http::{HeaderValue, Response, StatusCode};
use longhaul_core::{OwnerId, strict_json};
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, ErrorCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Body;
use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::revision::{Generation, own_revision};
use crate::shared::incoming::{Client, Incoming, Notice};
use crate::shared::session::{self, Session};
use crate::shared::{cancelling, errors, reply};
use crate::views::revised;

mod call;
mod stream;

/// Fields, and since which revision they exist.
type Fields = &'static [(&'static str, &'static str)];

/// The fields of a tool in a list. Fields of drafts are not here: only the protocol versions that know them show them.
const TOOL_FIELDS: Fields = &[
    ("annotations", "2025-03-26"),
    ("_meta", "2025-06-18"),
    ("outputSchema", "2025-06-18"),
    ("title", "2025-06-18"),
    ("execution", "2025-11-25"),
    ("icons", "2025-11-25"),
];

/// The same of a prompt, a resource, a template, and an argument of a prompt.
const OTHER_FIELDS: Fields = &[("_meta", "2025-06-18"), ("title", "2025-06-18"), ("icons", "2025-11-25")];

/// The same of what server and client say about themselves.
const IMPLEMENTATION_FIELDS: Fields =
    &[("title", "2025-06-18"), ("description", "2025-11-25"), ("icons", "2025-11-25"), ("websiteUrl", "2025-11-25")];

/// The first revision that has all of these fields.
const ALL_FIELDS_SINCE: &str = "2025-11-25";

pub(crate) struct Handshake;

#[async_trait]
impl ProtocolVersion for Handshake {
    async fn answer(&self, call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
        match (call.client.generation(), &*call.method) {
            (Generation::Handshake, "initialize") => Some(initialize(call, endpoint).await),
            (Generation::Handshake, "tools/call") => Some(call::answer(call, endpoint).await),
            (Generation::Handshake, "resources/subscribe" | "resources/unsubscribe")
                if stream::is_offered(endpoint) =>
            {
                Some(stream::change(call, endpoint).await)
            }
            // `rmcp` would answer these: they exist in later revisions.
            (Generation::Handshake, method) if method.starts_with("tasks/") => Some(no_such_method(call)),
            (Generation::Handshake | Generation::PerRequest, _) => None,
        }
    }

    async fn on_notification(&self, notice: &Notice<'_>, endpoint: &Endpoint) {
        if notice.client.generation() == Generation::Handshake && notice.method == cancelling::METHOD {
            cancelling::leave(endpoint.shared(), notice).await;
        }
    }

    async fn attend(&self, client: &Client, owner: OwnerId, endpoint: &Endpoint) -> Option<Response<Body>> {
        match client.generation() {
            Generation::Handshake => stream::open(client, owner, endpoint).await,
            Generation::PerRequest => None,
        }
    }

    fn patches(&self, call: &Incoming<'_>) -> bool {
        let is_older = call.client.revision() < ALL_FIELDS_SINCE;
        call.client.generation() == Generation::Handshake
            && match &*call.method {
                // What was negotiated is in the result.
                "initialize" => true,
                "tools/list" | "prompts/list" | "prompts/get" | "resources/list" | "resources/templates/list" => {
                    is_older
                }
                _ => false,
            }
    }

    fn patch(&self, call: &Incoming<'_>, _endpoint: &Endpoint, result: &mut Map<String, Value>) {
        let revision = call.client.revision();
        match &*call.method {
            "initialize" => {
                let negotiated = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
                let server = result.get_mut("serverInfo").and_then(Value::as_object_mut);
                server.into_iter().for_each(|server| remove_unknown(&negotiated, IMPLEMENTATION_FIELDS, server));
            }
            "tools/list" => objects(result, "tools").for_each(|tool| remove_unknown(revision, TOOL_FIELDS, tool)),
            "prompts/list" => objects(result, "prompts").for_each(|prompt| {
                remove_unknown(revision, OTHER_FIELDS, prompt);
                objects(prompt, "arguments").for_each(|argument| remove_unknown(revision, OTHER_FIELDS, argument));
            }),
            "prompts/get" => objects(result, "messages")
                .filter_map(|message| message.get_mut("content"))
                .for_each(|block| revised::content_block(revision, block)),
            "resources/list" => {
                objects(result, "resources").for_each(|resource| remove_unknown(revision, OTHER_FIELDS, resource));
            }
            _ => {
                let templates = objects(result, "resourceTemplates");
                templates.for_each(|template| remove_unknown(revision, OTHER_FIELDS, template));
            }
        }
    }
}

fn objects<'a>(parent: &'a mut Map<String, Value>, list: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = parent.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    list.filter_map(Value::as_object_mut)
}

fn remove_unknown(revision: &str, fields: Fields, object: &mut Map<String, Value>) {
    for (field, since) in fields {
        if revision < *since {
            object.remove(*field);
        }
    }
}

fn no_such_method(call: &Incoming<'_>) -> Response<Body> {
    reply::error(&call.id, &ErrorData::new(ErrorCode::METHOD_NOT_FOUND, call.method.clone().into_owned(), None))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    protocol_version: String,
    capabilities: ClientCapabilities,
}

/// The handshake: `rmcp` negotiates, the protocol versions add what they have, and the session id stores the outcome.
async fn initialize(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let Some(params) = call.params::<Params>() else {
        let message = "the params of initialize are malformed: `capabilities`, and what is in it, must be objects";
        return reply::error(&call.id, &ErrorData::invalid_params(message, None));
    };
    let own = own_revision(&params.protocol_version);
    let mut request = call.http.clone();
    if let Some(own) = own {
        match with_requested_revision(call, own.served_as) {
            Some(body) => *request.body_mut() = body.into(),
            None => return endpoint.backend().answer(request, Some(&call.id)).await,
        }
    }
    let answer = endpoint.backend().answer(request, Some(&call.id)).await;
    if answer.status() != StatusCode::OK || !reply::is_json(&answer) {
        return answer;
    }
    let answer = match own {
        Some(own) => match with_agreed_revision(answer, own.name).await {
            Ok(answer) => answer,
            Err(error) => return reply::error(&call.id, &error),
        },
        None => answer,
    };
    let answer = endpoint.patched(call, answer).await;
    with_session(answer, call, endpoint, params.capabilities).await
}

/// The request with another revision in it; `None` if its parameters are not an object.
fn with_requested_revision(call: &Incoming<'_>, revision: &str) -> Option<String> {
    let mut params: Map<String, Value> = call.params()?;
    params.insert("protocolVersion".to_owned(), revision.into());
    Some(serde_json::json!({"jsonrpc": "2.0", "id": call.id, "method": "initialize", "params": params}).to_string())
}

async fn with_agreed_revision(answer: Response<Body>, revision: &str) -> Result<Response<Body>, ErrorData> {
    let (parts, body) = answer.into_parts();
    let text = reply::read(body).await;
    let mut message: Value = strict_json::from_slice(&text)
        .map_err(|error| errors::internal("the handler's answer cannot be read", &error))?;
    match message.get_mut("result").and_then(|result| result.get_mut("protocolVersion")) {
        Some(version) => *version = revision.into(),
        None => return Ok(Response::from_parts(parts, reply::body(text))),
    }
    Ok(Response::from_parts(parts, reply::body(message.to_string())))
}

#[derive(Deserialize)]
struct Agreed {
    result: Negotiated,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Negotiated {
    protocol_version: String,
}

/// The answer with the session that it begins. An error does not begin a session.
async fn with_session(
    answer: Response<Body>,
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    capabilities: ClientCapabilities,
) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    let text = reply::read(body).await;
    if let Ok(Agreed { result }) = strict_json::from_slice(&text) {
        let shared = endpoint.shared();
        let session = Session::new(result.protocol_version, capabilities, &*shared.engine.ports().ids);
        let signed = session.sign(&shared.signer, &call.owner).ok().and_then(|id| HeaderValue::from_str(&id).ok());
        if let Some(signed) = signed {
            parts.headers.insert(session::HEADER, signed);
        }
    }
    Response::from_parts(parts, reply::body(text))
}
