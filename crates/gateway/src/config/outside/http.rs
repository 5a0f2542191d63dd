//! Jobs that are started, polled and stopped by requests over HTTP.

use crate::jobs::{Again, HttpJobSpec, HttpRequest, HttpResult, RequestKind};
use http::Method;
use serde_json::{Value, json};

use super::super::fold::{pointer, states};
use super::super::reader::{Members, Node, Reader};

/// Headers by name, with their places in the file.
type Headers = Vec<(String, String, String)>;

pub(super) fn http_job(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Box<HttpJobSpec>> {
    let common = members.find("headers").map(|node| headers(reader, &node)).unwrap_or_default();
    let again = members.optional(reader, "repeat", |reader, node| {
        reader.one_of(node, &[("always", Again::SameJob), ("never", Again::AnotherJob)])
    });
    let of = |kind, usual: Method| {
        let common = &common;
        move |reader: &mut Reader<'_>, node: &Node<'_>| request(reader, node, kind, &usual, common)
    };
    let start = members.required(reader, "start", of(RequestKind::Start, Method::POST));
    let status = members.required(reader, "status", of(RequestKind::OfJob, Method::GET));
    let find = members.optional(reader, "find", of(RequestKind::Find, Method::GET));
    let stop = members.optional(reader, "stop", of(RequestKind::OfJob, Method::DELETE));
    let result = match members.find("result") {
        None => Some(HttpResult::At(String::new())),
        Some(node) if node.value.as_str().is_some_and(|text| text.starts_with('/')) => {
            at(reader, &node).map(HttpResult::At)
        }
        Some(node) => request(reader, &node, RequestKind::OfJob, &Method::GET, &common).map(HttpResult::Of),
    };
    let [id, state] = ["id", "state"].map(|key| members.required(reader, key, at));
    let (done, failed) = states(reader, members);
    let [error, of_done, total, message] =
        ["error", "progress", "total", "message"].map(|key| members.optional(reader, key, at));
    Some(Box::new(HttpJobSpec {
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
        progress: [of_done, total, message],
    }))
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
    let url = |reader: &mut Reader<'_>, node: &Node<'_>, method: &Method| {
        let text = reader.text(node)?;
        reader.read(node, HttpRequest::new(kind, method.clone(), &text))
    };
    let (mut method, mut all, mut body) = (usual.clone(), common.clone(), None);
    let request = if node.value.is_string() {
        url(reader, node, &method)
    } else {
        let mut members = reader.members(node)?;
        method = members.optional(reader, "method", self::method).unwrap_or(method);
        let request = members.required(reader, "url", |reader, node| url(reader, node, &method));
        all.extend(members.find("headers").map(|node| headers(reader, &node)).unwrap_or_default());
        body = members.optional(reader, "body", expanded);
        reader.refuse_unknown(&members);
        request
    };
    let mut request = request?;
    for (place, name, value) in &all {
        let added = request.header(kind, name, value);
        request = added.map_err(|what| reader.fault(place, what)).ok()?;
    }
    // A start whose method has a body sends the arguments, unless the configuration says otherwise.
    let has_body = kind == RequestKind::Start && [Method::POST, Method::PUT, Method::PATCH].contains(&method);
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

/// JSON, with the values of variables in its strings.
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
