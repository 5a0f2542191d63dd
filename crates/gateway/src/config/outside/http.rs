//! Jobs that are started, polled and stopped by requests over HTTP.

use http::Method;
use longhaul_jobs::{Again, HttpJobSpec, HttpRequest, HttpResult, RequestKind};
use serde_json::{Value, json};

use super::super::fold::{pointer, states};
use super::super::reader::{Members, Node, Reader};
use super::{Kind, required};

/// Headers by name, with their places in the file.
type Headers = Vec<(String, String, String)>;

pub(super) fn http_job(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let common = members.find("headers").map(|node| headers(reader, &node)).unwrap_or_default();
    let again = members
        .find("repeat")
        .and_then(|node| reader.one_of(&node, &[("always", Again::SameJob), ("never", Again::AnotherJob)]));
    let start = required(reader, members, "start", |reader, node| {
        request(reader, node, RequestKind::Start, &Method::POST, &common)
    });
    let status = required(reader, members, "status", |reader, node| {
        request(reader, node, RequestKind::OfJob, &Method::GET, &common)
    });
    let find = members.find("find").and_then(|node| request(reader, &node, RequestKind::Find, &Method::GET, &common));
    let stop =
        members.find("stop").and_then(|node| request(reader, &node, RequestKind::OfJob, &Method::DELETE, &common));
    let result = match members.find("result") {
        None => Some(HttpResult::At(String::new())),
        Some(node) if node.value.as_str().is_some_and(|text| text.starts_with('/')) => {
            at(reader, &node).map(HttpResult::At)
        }
        Some(node) => request(reader, &node, RequestKind::OfJob, &Method::GET, &common).map(HttpResult::Of),
    };
    let id = required(reader, members, "id", at);
    let state = required(reader, members, "state", at);
    let done = required(reader, members, "done", states);
    let failed = members.find("failed").and_then(|node| states(reader, &node)).unwrap_or_default();
    if let Some(both) = done.iter().flatten().find(|state| failed.contains(state)) {
        reader.fault(&format!("{}/failed", members.node.pointer), format!("`{both}` is also in `done`"));
    }
    let mut optional = |key| members.find(key).and_then(|node| at(reader, &node));
    let (error, progress) = (optional("error"), [optional("progress"), optional("total"), optional("message")]);
    Some(Kind::Http(Box::new(HttpJobSpec {
        start: start?,
        again: again.unwrap_or(Again::AnotherJob),
        find,
        status: status?,
        stop,
        result: result?,
        id: id?,
        state: state?,
        done: done?,
        failed,
        error,
        progress,
    })))
}

fn at(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    pointer(reader, node).map(|pointer| pointer.as_str().to_owned())
}

/// A request: its URL alone, or an object with `url`, `method`, `headers` and `body`.
fn request(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    kind: RequestKind,
    usual: &Method,
    common: &Headers,
) -> Option<HttpRequest> {
    if node.value.is_string() {
        let request = url(reader, node, kind, usual.clone());
        return complete(reader, request, node, kind, (usual, None), common);
    }
    let mut members = reader.members(node)?;
    let method = members.find("method").and_then(|node| method(reader, &node)).unwrap_or_else(|| usual.clone());
    let request = required(reader, &mut members, "url", |reader, node| url(reader, node, kind, method.clone()));
    let own = members.find("headers").map(|node| headers(reader, &node)).unwrap_or_default();
    let body = members.find("body").and_then(|node| expanded(reader, &node));
    reader.refuse_unknown(&members);
    let common: Headers = common.iter().chain(&own).cloned().collect();
    complete(reader, request, node, kind, (&method, body), &common)
}

fn url(reader: &mut Reader<'_>, node: &Node<'_>, kind: RequestKind, method: Method) -> Option<HttpRequest> {
    let text = reader.text(node)?;
    reader.read(node, HttpRequest::new(kind, method, &text))
}

/// The request with its headers and its body. A start whose method has a body sends the arguments, if nothing else is
/// said.
fn complete(
    reader: &mut Reader<'_>,
    request: Option<HttpRequest>,
    node: &Node<'_>,
    kind: RequestKind,
    (method, body): (&Method, Option<Value>),
    headers: &Headers,
) -> Option<HttpRequest> {
    let mut request = request?;
    for (place, name, value) in headers {
        let added = request.header(kind, name, value);
        request = added.map_err(|what| reader.fault(place, what)).ok()?;
    }
    let has_body = kind == RequestKind::Start && [Method::POST, Method::PUT, Method::PATCH].contains(method);
    match body.or_else(|| has_body.then(|| json!("{input}"))) {
        Some(body) => {
            let added = request.body(kind, body);
            added.map_err(|what| reader.fault(&format!("{}/body", node.pointer), what)).ok()
        }
        None => Some(request),
    }
}

fn method(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Method> {
    let words = ["GET", "POST", "PUT", "PATCH", "DELETE"].map(|word| (word, word));
    reader.one_of(node, &words).and_then(|word| word.parse().ok())
}

fn headers(reader: &mut Reader<'_>, node: &Node<'_>) -> Headers {
    let Some(members) = reader.members(node) else { return Vec::new() };
    let read =
        members.all().filter_map(|(name, node)| Some((node.pointer.clone(), name.clone(), reader.scalar(&node)?)));
    read.collect()
}

/// JSON, with the values of variables in its texts.
fn expanded(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Value> {
    match node.value {
        Value::String(_) => reader.text(node).map(Value::String),
        Value::Array(all) => {
            let all = all.iter().enumerate().map(|(index, value)| node.child(&index.to_string(), value));
            all.map(|node| expanded(reader, &node)).collect::<Option<_>>().map(Value::Array)
        }
        Value::Object(all) => {
            let all = all.iter().map(|(name, value)| Some((name.clone(), expanded(reader, &node.child(name, value))?)));
            all.collect::<Option<_>>().map(Value::Object)
        }
        other => Some(other.clone()),
    }
}
