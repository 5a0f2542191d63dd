//! Every method of MCP, with every member of its parameters, in every form in which some client writes it. The tests
//! of the endpoint and of the gateway send the same requests.

use std::future::Future;

use serde_json::{Map, Value, json};

use crate::protocol_versions::NEWEST;

/// The revisions in which the requests are sent.
pub const REVISIONS: [&str; 6] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "next", NEWEST];

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The type of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Object,
    /// An object that needs members of its own.
    Full,
}

/// The result of a request without the member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
    /// A value that does not fit counts as absent.
    IfItFits,
}

type Members = &'static [(&'static str, Kind, Need)];

use Kind::{Full, Object, Text};
use Need::{IfItFits, Optional, Required};

const PAGE: Members = &[("cursor", Text, IfItFits)];
const TASKS: Members = &[("cursor", Text, Optional)];
const URI: Members = &[("uri", Text, Required)];
const TASK: Members = &[("taskId", Text, Required)];
const TOKEN: Members = &[("token", Text, Required)];

/// The methods of a revision: their usual parameters, and the members of these. `tool` is called without arguments.
#[expect(clippy::too_many_lines, reason = "a table")]
fn methods(revision: &str, tool: &str) -> Vec<(&'static str, Value, Members)> {
    let is_newest = revision == NEWEST;
    let id = json!({"taskId": crate::protocol_versions::UNKNOWN});
    let mut methods = vec![
        ("tools/list", json!({}), PAGE),
        ("prompts/list", json!({}), PAGE),
        ("resources/list", json!({}), PAGE),
        ("resources/templates/list", json!({}), PAGE),
        ("resources/read", json!({"uri": "test://none"}), URI),
        ("prompts/get", json!({"name": "none"}), &[("name", Text, Required), ("arguments", Object, Optional)]),
        (
            "tools/call",
            json!({"name": tool}),
            &[
                ("name", Text, Required),
                ("arguments", Object, Optional),
                ("inputResponses", Object, Optional),
                ("requestState", Text, Optional),
            ],
        ),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "a", "value": "b"}}),
            &[
                ("ref", Full, Required),
                ("ref.type", Text, Required),
                ("argument", Full, Required),
                ("argument.name", Text, Required),
                ("argument.value", Text, Required),
                ("context", Object, IfItFits),
            ],
        ),
    ];
    if is_newest {
        methods.push(("server/discover", json!({}), &[]));
        methods.push(("tasks/get", id.clone(), TASK));
        methods.push(("tasks/cancel", id.clone(), TASK));
        let update = json!({"taskId": id["taskId"], "inputResponses": {}});
        methods.push(("tasks/update", update, &[("taskId", Text, Required), ("inputResponses", Object, Required)]));
        return methods;
    }
    let hello = json!({
        "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"},
    });
    methods.push((
        "initialize",
        hello,
        &[
            ("protocolVersion", Text, Required),
            ("capabilities", Object, Required),
            ("capabilities.experimental", Object, IfItFits),
            ("capabilities.elicitation", Object, IfItFits),
            ("capabilities.sampling", Object, IfItFits),
            ("capabilities.roots", Object, IfItFits),
            ("clientInfo", Full, Required),
            ("clientInfo.name", Text, Required),
            ("clientInfo.version", Text, Required),
            ("clientInfo.title", Text, IfItFits),
            ("clientInfo.icons", Object, IfItFits),
        ],
    ));
    methods.push(("ping", json!({}), &[]));
    methods.push(("logging/setLevel", json!({"level": "info"}), &[("level", Text, Required)]));
    methods.push(("resources/subscribe", json!({"uri": "test://none"}), URI));
    methods.push(("resources/unsubscribe", json!({"uri": "test://none"}), URI));
    methods.push(("tools/async/get", json!({"token": "none"}), TOKEN));
    methods.push(("tools/async/join", json!({"token": "none"}), TOKEN));
    methods.push((
        "tools/async/call",
        json!({"name": tool}),
        &[("name", Text, Required), ("arguments", Object, Optional)],
    ));
    if revision == "2025-11-25" {
        methods.extend([("tasks/get", id.clone(), TASK), ("tasks/cancel", id.clone(), TASK)]);
        methods.extend([("tasks/result", id, TASK), ("tasks/list", json!({}), TASKS)]);
    }
    if revision == "next" {
        methods.extend([("tools/async/status", json!({"token": "none"}), TOKEN)]);
        methods.extend([("tools/async/result", json!({"token": "none"}), TOKEN)]);
    }
    methods
}

/// The forms of a member, and whether the request is still the usual one.
fn forms(kind: Kind, need: Need) -> [(&'static str, Option<Value>, bool); 4] {
    let may_be_left_out = need != Required;
    let may_be_anything = need == IfItFits;
    let other = if kind == Text { json!(7) } else { json!("text") };
    [
        ("absent", None, may_be_left_out),
        ("null", Some(Value::Null), may_be_left_out),
        ("of another type", Some(other), may_be_anything),
        ("an empty list", Some(json!([])), may_be_anything || kind == Object),
    ]
}

/// Sends all requests of a revision, and returns what is wrong with the answers. `post` sends one, with these headers,
/// and returns its status and what was answered.
#[expect(clippy::future_not_send, reason = "awaited by the test that makes it")]
pub async fn faults<A: Future<Output = (u16, Value)>>(
    revision: &str,
    session: Option<&str>,
    tool: &str,
    post: impl Fn(Vec<(&'static str, String)>, Value) -> A,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (method, usual, members) in methods(revision, tool) {
        let send = |params: Value| post(headers(revision, session, method, &params), message(method, params));
        let control = outcome(&send(with_meta(revision, usual.clone())).await);
        let about = if revision == NEWEST {
            [("_meta", Full, Required), ("_meta.progressToken", Object, IfItFits)]
        } else {
            [("_meta", Object, IfItFits), ("_meta.progressToken", Object, IfItFits)]
        };
        let declared = (format!("_meta.{CAPABILITIES}"), Object, Required);
        // Without capabilities, a client does not know tasks.
        let declared =
            (revision == NEWEST && !method.starts_with("tasks/")).then_some((&*declared.0, declared.1, declared.2));
        let all = members.iter().copied().chain(about).chain(declared);
        let all = all.flat_map(|(member, kind, need)| forms(kind, need).map(|form| (member, form)));
        for (member, (form, value, is_usual)) in all {
            let mut params = with_meta(revision, usual.clone());
            set(&mut params, member, value);
            let answer = outcome(&send(params).await);
            let is_right = if is_usual { answer == control } else { names(&answer, member) };
            if !is_right {
                faults.push(format!("{revision} {method}: `{member}` {form}: {answer:?}, usually {control:?}"));
            }
        }
    }
    faults
}

/// The status and the code of an error with its message, or that there was a result.
type Outcome = Result<(), (u16, i64, String)>;

fn outcome((status, answer): &(u16, Value)) -> Outcome {
    match answer.get("error") {
        None => Ok(()),
        Some(error) => Err((
            *status,
            error["code"].as_i64().unwrap_or_default(),
            error["message"].as_str().unwrap_or_default().to_owned(),
        )),
    }
}

fn names(answer: &Outcome, member: &str) -> bool {
    let last = member.rsplit_once('/').map_or(member, |(_, last)| last);
    matches!(answer, Err((status, -32602, message)) if *status != 415 && message.contains(last))
}

fn message(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn with_meta(revision: &str, mut params: Value) -> Value {
    if revision == NEWEST {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
    }
    params
}

/// Sets the member at this path, or removes it.
fn set(params: &mut Value, path: &str, value: Option<Value>) {
    // A name may have points in it.
    let (parent, name) = match path.split_once('.') {
        Some((parent, name)) => (params[parent].as_object_mut(), name),
        None => (params.as_object_mut(), path),
    };
    let parent = match parent {
        Some(parent) => parent,
        None => {
            params["_meta"] = json!({});
            params["_meta"].as_object_mut().unwrap()
        }
    };
    insert(parent, name, value);
}

fn insert(parent: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(parent.insert(name.to_owned(), value)),
        None => drop(parent.remove(name)),
    }
}

fn headers(revision: &str, session: Option<&str>, method: &str, params: &Value) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
    ];
    if method == "initialize" {
        return headers;
    }
    headers.push(("mcp-protocol-version", revision.to_owned()));
    headers.extend(session.map(|session| ("mcp-session-id", session.to_owned())));
    if revision == NEWEST {
        headers.push(("mcp-method", method.to_owned()));
        let name = ["name", "uri", "taskId"].iter().find_map(|name| params[*name].as_str());
        headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
    }
    headers
}
