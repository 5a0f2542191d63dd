//! Revisions before `2026-07-28`, in which client and server exchange their capabilities in a handshake. The result
//! goes out in a signed session id and comes back with every later request.

use async_trait::async_trait;
use http::{HeaderValue, Response, StatusCode};
use longhaul_core::OwnerId;
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, ErrorCode, InitializeRequest, InitializeRequestParams, ProtocolVersion};
use serde_json::{Map, Value};

use crate::call::{self, answered};
use crate::protocol_version::{self, Endpoint};
use crate::request::incoming::{Client, Incoming, Notice};
use crate::revision::{Generation, VERSION_HEADER, own_revision};
use crate::signing::session::{self, Session};
use crate::tool_calls::cancelling;
use crate::views::revised;
use crate::{Body, reply};

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

/// The members of the descriptions of server and client.
const IMPLEMENTATION_FIELDS: Fields =
    &[("title", "2025-06-18"), ("description", "2025-11-25"), ("icons", "2025-11-25"), ("websiteUrl", "2025-11-25")];

/// The first revision that has all of these fields.
const ALL_FIELDS_SINCE: &str = "2025-11-25";

pub(crate) struct Handshake;

#[async_trait]
impl protocol_version::ProtocolVersion for Handshake {
    async fn answer(&self, call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
        match (call.client.generation(), &*call.method) {
            (Generation::Handshake, "initialize") => Some(initialize(call, endpoint).await),
            (Generation::Handshake, "resources/subscribe" | "resources/unsubscribe")
                if stream::is_offered(endpoint) =>
            {
                Some(stream::change(call, endpoint).await)
            }
            // These exist in later revisions.
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
                // Schemas of results differ in all of them.
                "tools/list" => true,
                "prompts/list" | "prompts/get" | "resources/list" | "resources/templates/list" => is_older,
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
            "tools/list" => objects(result, "tools").for_each(|tool| {
                remove_unknown(revision, TOOL_FIELDS, tool);
                revised::output_schema(revision, tool);
            }),
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

/// The handshake: the handler negotiates, the protocol versions add what they have, and the session id stores the
/// outcome.
async fn initialize(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let mut params: InitializeRequestParams = match call.members.read_as(&call.method) {
        Ok(params) => params,
        Err(error) => return reply::error(&call.id, &error),
    };
    if let Err(error) = check_header(call, &params.protocol_version) {
        return reply::error_with(StatusCode::BAD_REQUEST, Some(&call.id), &error);
    }
    let capabilities = params.capabilities.clone();
    let own = own_revision(params.protocol_version.as_str());
    if let Some(own) = own {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == own.served_as);
        known.into_iter().for_each(|known| params.protocol_version = known.clone());
    }
    let result = call::result(call, endpoint, InitializeRequest::new(params).into()).await;
    let mut result = match result.and_then(|result| answered::members(&result)) {
        Ok(result) => result,
        Err(error) => return reply::error(&call.id, &error),
    };
    if let Some(own) = own {
        result.insert("protocolVersion".to_owned(), own.name.into());
    }
    endpoint.patch(call, &mut result);
    with_session(result, call, endpoint, capabilities)
}

/// A header that names a revision must name the one that the client asks for.
fn check_header(call: &Incoming<'_>, requested: &ProtocolVersion) -> Result<(), ErrorData> {
    let Some(header) = call.http.headers().get(VERSION_HEADER) else { return Ok(()) };
    if header.as_bytes() == requested.as_str().as_bytes() {
        return Ok(());
    }
    let header = String::from_utf8_lossy(header.as_bytes());
    let message = format!(
        "Invalid Request: MCP-Protocol-Version header ({header}) does not match initialize params.protocolVersion \
         ({requested})"
    );
    Err(ErrorData::invalid_request(message, None))
}

/// The answer with the session that it begins.
fn with_session(
    result: Map<String, Value>,
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    capabilities: ClientCapabilities,
) -> Response<Body> {
    let negotiated = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut answer = reply::result(&call.id, &Value::Object(result).to_string());
    let shared = endpoint.shared();
    let session = Session::new(negotiated, capabilities, &*shared.engine.ports().ids);
    let signed = session.sign(&shared.signer, &call.owner).ok().and_then(|id| HeaderValue::from_str(&id).ok());
    if let Some(signed) = signed {
        answer.headers_mut().insert(session::HEADER, signed);
    }
    answer
}
