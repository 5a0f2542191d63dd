//! Every request that names a task or a session, in every protocol version, as it goes over the wire. The tests of
//! isolation send the same requests to four targets: the endpoint in memory, the API function, the `local` binary and
//! the deployed template.

use serde_json::{Value, json};

/// The revisions with sessions: one for each protocol version that has them, and one for batches.
pub const REVISIONS: [&str; 4] = ["2025-11-25", "next", "2025-06-18", "2025-03-26"];

/// The revision without sessions.
pub const NEWEST: &str = "2026-07-28";

/// An id that was never a task.
pub const UNKNOWN: &str = "0199aaaa-0000-7000-8000-00000000000a";

/// A request that names something.
pub struct Naming {
    /// The revision that it is a request of.
    pub revision: &'static str,
    /// The method of HTTP.
    pub http_method: &'static str,
    /// The body; nothing if there is none.
    pub body: Option<Value>,
    /// Whether the answer shows the owner of the task that it exists. It does not if the revision lacks the method, or
    /// if there is no answer.
    pub tells_owner: bool,
}

impl Naming {
    /// Its name, for people.
    pub fn name(&self) -> String {
        let method = match &self.body {
            Some(Value::Array(_)) => "a batch",
            Some(body) if body.get("id").is_none() => "a notification",
            Some(body) => body["params"]["name"].as_str().or(body["method"].as_str()).unwrap_or("a reply"),
            None => self.http_method,
        };
        format!("{method} of {}", self.revision)
    }

    /// Its headers, apart from those that HTTP itself needs. `sessions` has one for each of [`REVISIONS`].
    pub fn headers(&self, sessions: &[String]) -> Vec<(&'static str, String)> {
        let mut headers = vec![("accept", "application/json, text/event-stream".to_owned())];
        let session = REVISIONS.iter().zip(sessions).find(|(revision, _)| **revision == self.revision);
        headers.extend(session.map(|(_, session)| ("mcp-session-id", session.clone())));
        let Some(body) = &self.body else {
            headers.push(("last-event-id", UNKNOWN.to_owned()));
            return headers;
        };
        headers.push(("content-type", "application/json".to_owned()));
        if body["method"] == "initialize" {
            return headers;
        }
        headers.push(("mcp-protocol-version", self.revision.to_owned()));
        if self.revision == NEWEST {
            headers.push(("mcp-method", body["method"].as_str().unwrap().to_owned()));
            let name = ["name", "taskId"].iter().find_map(|name| body["params"][*name].as_str());
            headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
        }
        headers
    }
}

fn message(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn posted(revision: &'static str, body: Value, tells_owner: bool) -> Naming {
    Naming { revision, http_method: "POST", body: Some(body), tells_owner }
}

/// The request that begins a session.
pub fn initialize(revision: &'static str) -> Naming {
    let client = json!({"name": "tests", "version": "1"});
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    let params = json!({"protocolVersion": revision, "clientInfo": client, "capabilities": capabilities});
    posted(revision, message("initialize", &params), false)
}

/// A call of a tool, as a client of [`NEWEST`] with tasks sends it.
pub fn call(tool: &str, arguments: Value) -> Naming {
    let params = json!({"name": tool, "arguments": arguments});
    posted(NEWEST, newest("tools/call", params, json!({"io.modelcontextprotocol/tasks": {}})), false)
}

fn newest(method: &str, mut params: Value, extensions: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"form": {}}, "sampling": {}, "roots": {}, "extensions": extensions,
        },
    });
    message(method, &params)
}

fn job(tool: &str, task: &str) -> Value {
    json!({"name": tool, "arguments": {"job_id": task, "wait_s": 0}})
}

/// Every request that names a task, in every revision: in those that do not have the method, too.
pub fn requests(task: &str) -> Vec<Naming> {
    let mut all = of_newest(task);
    for revision in REVISIONS {
        all.extend(of_older(revision, task));
    }
    all
}

fn of_newest(task: &str) -> Vec<Naming> {
    let tasks = json!({"io.modelcontextprotocol/tasks": {}});
    let answers = json!({"name": {"action": "accept", "content": {"value": "Eve"}}});
    let filtered = |params| posted(NEWEST, newest("dev.longhaul/tasks/list", params, tasks.clone()), false);
    let lists = [filtered(json!({"cursor": task})), filtered(json!({"tool": task}))];
    [
        ("tasks/get", json!({"taskId": task}), &tasks),
        ("dev.longhaul/tasks/inspect", json!({"taskId": task}), &tasks),
        ("dev.longhaul/tasks/resume", json!({"taskId": task}), &tasks),
        ("tasks/update", json!({"taskId": task, "inputResponses": answers}), &tasks),
        ("tasks/cancel", json!({"taskId": task}), &tasks),
        ("subscriptions/listen", json!({"notifications": {"taskIds": [task]}}), &tasks),
        ("tools/call", job("get_job_status", task), &json!({})),
        ("tools/call", job("cancel_job", task), &json!({})),
        ("tools/call", job("get_job_status", task), &tasks),
        ("tools/call", job("cancel_job", task), &tasks),
    ]
    .into_iter()
    .map(|(method, params, extensions)| posted(NEWEST, newest(method, params, extensions.clone()), true))
    .chain(lists)
    .collect()
}

fn of_older(revision: &'static str, task: &str) -> Vec<Naming> {
    let of = |revisions: &[&str]| revisions.contains(&revision);
    let (core, operations) = (of(&["2025-11-25"]), of(&["next"]));
    let each = [
        ("tasks/get", json!({"taskId": task}), core),
        ("tasks/result", json!({"taskId": task}), core),
        ("tasks/cancel", json!({"taskId": task}), core),
        ("tasks/list", json!({"cursor": task}), false),
        ("dev.longhaul/tasks/list", json!({"cursor": task}), false),
        ("dev.longhaul/tasks/list", json!({"tool": task}), false),
        ("tools/async/status", json!({"token": task}), operations),
        ("tools/async/result", json!({"token": task}), operations),
        ("tools/async/join", json!({"token": task, "keepAlive": 7_200}), true),
        ("tools/async/get", json!({"token": task, "timeout": 0}), true),
        ("tools/async/cancel", json!({"token": task}), true),
        ("resources/read", json!({"uri": format!("longhaul://tasks/{task}")}), true),
        ("tools/call", job("get_job_status", task), true),
        ("tools/call", job("cancel_job", task), true),
    ];
    let mut all: Vec<_> =
        each.into_iter().map(|(method, params, tells)| posted(revision, message(method, &params), tells)).collect();
    for (method, params) in
        [("tools/async/cancel", json!({"token": task})), ("notifications/cancelled", json!({"requestId": task}))]
    {
        all.push(posted(revision, json!({"jsonrpc": "2.0", "method": method, "params": params}), false));
    }
    let reply = json!({"jsonrpc": "2.0", "id": task, "result": {"action": "decline"}});
    all.push(posted(revision, reply, false));
    let each =
        |id: u64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": job(tool, task)});
    let batch = json!([each(1, "get_job_status"), each(2, "cancel_job")]);
    all.push(posted(revision, batch, of(&["2025-03-26"])));
    all
}

/// Every kind of request that a client sends in a session.
pub fn in_sessions() -> Vec<Naming> {
    let mut all = Vec::new();
    for revision in REVISIONS {
        for method in [
            "ping",
            "tools/list",
            "tools/call",
            "tasks/list",
            "dev.longhaul/tasks/list",
            "tools/async/status",
            "notifications/cancelled",
        ] {
            let params = json!({"name": "add", "arguments": {}, "token": "t", "requestId": 7});
            all.push(posted(revision, message(method, &params), true));
        }
    }
    all
}

/// Requests that end a session, or open and resume its stream. The answer is the same in every session.
pub fn about_sessions() -> Vec<Naming> {
    let of = |revision| {
        ["GET", "DELETE"].map(|http_method| Naming { revision, http_method, body: None, tells_owner: false })
    };
    REVISIONS.into_iter().flat_map(of).collect()
}
