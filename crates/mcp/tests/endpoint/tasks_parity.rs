//! `tasks/get`, `tasks/update` and `tasks/cancel` of `2026-07-28` are answered without `rmcp`, as `rmcp` 3.9 answered
//! them: `tasks_parity.txt` has its answers to these requests, valid and invalid, from when it still got them. Three
//! kinds of them are answered otherwise since: parameters that are refused by name or read as if they were not there,
//! headers that are sent twice, and headers that contradict the body.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use serde_json::{Value, json};

use crate::world::{Sent, World, bob, no_tasks, read};

const RECORDED: &str = include_str!("tasks_parity.txt");

const METHODS: [&str; 3] = ["tasks/get", "tasks/update", "tasks/cancel"];

const UNKNOWN: &str = "0199aaaa-0000-7000-8000-000000000000";

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A request that may be wrong in ways that [`Sent`] cannot be.
struct Case {
    name: String,
    sent: Sent,
    /// Replaces the body.
    body: Option<String>,
    /// Headers of any bytes, added to the others.
    more: Vec<(&'static str, &'static [u8])>,
}

/// The cases of one method, about one task.
struct Cases {
    method: &'static str,
    good: Sent,
    cases: Vec<Case>,
}

impl Cases {
    fn new(method: &'static str, id: &str) -> Self {
        let params = match method {
            "tasks/update" => json!({"taskId": id, "inputResponses": {}}),
            _ => json!({"taskId": id}),
        };
        Self { method, good: Sent::new(method, params), cases: Vec::new() }
    }

    fn add(&mut self, name: &str, sent: Sent) {
        self.cases.push(Case { name: format!("{} {name}", self.method), sent, body: None, more: Vec::new() });
    }

    fn header(&mut self, header: &'static str, value: Option<&str>) {
        let sent = self.good.clone();
        match value {
            Some(value) => self.add(&format!("{header}: {value:?}"), sent.with_header(header, value)),
            None => self.add(&format!("{header}: missing"), sent.without_header(header)),
        }
    }

    fn more(&mut self, name: &str, sent: Sent, more: Vec<(&'static str, &'static [u8])>) {
        self.cases.push(Case { name: format!("{} {name}", self.method), sent, body: None, more });
    }

    fn param(&mut self, param: &str, value: Option<Value>) {
        let sent = self.good.clone();
        let name = format!("{param} = {}", value.as_ref().map_or("missing".to_owned(), Value::to_string));
        let mut sent = if param == "taskId" { sent.without_header("mcp-name") } else { sent };
        let params = sent.body["params"].as_object_mut().unwrap();
        drop(params.remove(param));
        params.extend(value.map(|value| (param.to_owned(), value)));
        self.add(&name, sent);
    }

    fn meta(&mut self, key: &str, value: Option<Value>) {
        let mut sent = self.good.clone();
        let name = format!("_meta {key} = {}", value.as_ref().map_or("missing".to_owned(), Value::to_string));
        let meta = sent.body["params"]["_meta"].as_object_mut().unwrap();
        drop(meta.remove(key));
        meta.extend(value.map(|value| (key.to_owned(), value)));
        self.add(&name, sent);
    }

    fn raw(&mut self, name: &str, body: String) {
        let sent = self.good.clone();
        self.cases.push(Case { name: format!("{} {name}", self.method), sent, body: Some(body), more: Vec::new() });
    }

    fn about_tasks(&mut self) {
        self.add("own task", self.good.clone());
        self.add("another's task", self.good.clone().of(bob()));
        for wrong in [UNKNOWN, "no uuid", "", "ünïcode", " padded ", "line\nbreak", "=?base64?AAAA?=", "\u{0}"] {
            self.param("taskId", Some(wrong.into()));
        }
    }

    fn about_headers(&mut self, id: &str) {
        let version = "mcp-protocol-version";
        for value in [None, Some("2025-11-25"), Some("next"), Some("2999-01-01"), Some("1999-01-01"), Some("")] {
            self.header(version, value);
        }
        for value in [None, Some("tools/list"), Some("Tasks/Get"), Some("")] {
            self.header("mcp-method", value);
        }
        let encoded = "=?base64?YW5vdGhlcg==?=";
        for value in [None, Some("another"), Some(""), Some(encoded), Some("=?base64?!?="), Some("=?base64?/w==?=")] {
            self.header("mcp-name", value);
        }
        let own = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, id);
        self.add("mcp-name: own in base64", self.good.clone().with_header("mcp-name", &format!("=?base64?{own}?=")));
        let types = [
            None,
            Some("text/plain"),
            Some("application/json; charset=utf-8"),
            Some("Application/JSON"),
            Some("application/jsonx"),
            Some("application/json;"),
            Some(""),
        ];
        for value in types {
            self.header("content-type", value);
        }
        for value in [None, Some("text/html"), Some("application/json")] {
            self.header("accept", value);
        }
        let bytes: &[u8] = &[0xff];
        for header in [version, "mcp-method", "mcp-name", "content-type"] {
            let without = self.good.clone().without_header(header);
            self.more(&format!("{header}: not text"), without, vec![(header, bytes)]);
            self.more(&format!("{header}: twice, then not text"), self.good.clone(), vec![(header, bytes)]);
        }
        let method = self.method.as_bytes();
        self.more("mcp-method: twice", self.good.clone(), vec![("mcp-method", method)]);
        self.more("mcp-name: twice", self.good.clone(), vec![("mcp-name", b"another")]);
        self.more("mcp-protocol-version: twice", self.good.clone(), vec![(version, b"2026-07-28")]);
        self.more("mcp-protocol-version: twice, another", self.good.clone(), vec![(version, b"2025-11-25")]);
    }

    fn about_params(&mut self) {
        for value in [None, Some(json!(1)), Some(Value::Null), Some(json!(["a"])), Some(json!({}))] {
            self.param("taskId", value);
        }
        for value in [
            None,
            Some(Value::Null),
            Some(json!([])),
            Some(json!("text")),
            Some(json!({})),
            Some(json!({"a": 1, "b": null, "c": {"action": "accept"}})),
        ] {
            self.param("inputResponses", value);
        }
        for value in [None, Some(Value::Null), Some(json!(1)), Some(json!([])), Some(json!("text")), Some(json!({}))] {
            self.param("_meta", value);
        }
        self.param("more", Some(json!([1, {"a": "b"}])));
        for value in [None, Some(json!(7)), Some(Value::Null), Some("2025-11-25".into()), Some("2999-01-01".into())] {
            self.meta(PROTOCOL_VERSION, value);
        }
        let tasks = |settings: Value| Some(json!({"extensions": {"io.modelcontextprotocol/tasks": settings}}));
        for value in [
            None,
            Some(json!(7)),
            Some(Value::Null),
            Some(json!({})),
            Some(no_tasks()),
            Some(json!({"extensions": 1})),
            Some(json!({"extensions": {}})),
            tasks(json!({"more": 1})),
            tasks(Value::Null),
            tasks(json!(true)),
        ] {
            self.meta(CLIENT_CAPABILITIES, value);
        }
        self.meta("io.modelcontextprotocol/clientInfo", None);
        self.meta("io.modelcontextprotocol/clientInfo", Some(json!(1)));
    }

    fn about_bodies(&mut self, id: &str) {
        let method = self.method;
        let meta = self.good.body["params"]["_meta"].to_string();
        let with = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
        self.raw("without params", format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"}}"#));
        for params in ["null", "[]", "[1]", "1", "\"text\"", "{}", "true"] {
            self.raw(&format!("params = {params}"), with(params));
        }
        let rest = r#""inputResponses":{}"#;
        self.raw("taskId twice", with(&format!(r#"{{"taskId":"{id}","taskId":"{id}",{rest},"_meta":{meta}}}"#)));
        self.raw("_meta twice", with(&format!(r#"{{"taskId":"{id}",{rest},"_meta":{meta},"_meta":{meta}}}"#)));
        let escaped = id.replacen('0', "\\u0030", 1);
        self.raw("taskId with an escape", with(&format!(r#"{{"taskId":"{escaped}",{rest},"_meta":{meta}}}"#)));
        let padding = "x".repeat(7 * 1024 * 1024);
        self.raw("too large", with(&format!(r#"{{"taskId":"{id}","more":"{padding}",{rest},"_meta":{meta}}}"#)));
        for id_of_request in ["\"a\"", "0", "-1"] {
            let body = with(&format!(r#"{{"taskId":"{id}",{rest},"_meta":{meta}}}"#));
            self.raw(
                &format!("id = {id_of_request}"),
                body.replacen("\"id\":7", &format!("\"id\":{id_of_request}"), 1),
            );
        }
    }

    /// Which of several errors is reported.
    fn about_order(&mut self) {
        let good = self.good.clone();
        let bare = good.clone().declaring(no_tasks());
        let no_id = |mut sent: Sent| {
            sent.body["params"].as_object_mut().unwrap().remove("taskId");
            sent
        };
        let unknown = |sent: Sent| sent.with_param("taskId", UNKNOWN.into()).with_header("mcp-name", UNKNOWN);
        let another_version = |sent: Sent| sent.with_meta(PROTOCOL_VERSION, "2999-01-01".into());
        let unsupported = |sent: Sent| another_version(sent).with_header("mcp-protocol-version", "2999-01-01");
        let no_version = |mut sent: Sent| {
            sent.body["params"]["_meta"].as_object_mut().unwrap().remove(PROTOCOL_VERSION);
            sent
        };
        let no_capabilities = |mut sent: Sent| {
            sent.body["params"]["_meta"].as_object_mut().unwrap().remove(CLIENT_CAPABILITIES);
            sent
        };
        let wrong_method = |sent: Sent| sent.with_header("mcp-method", "tools/list");
        let text = |sent: Sent| sent.with_header("content-type", "text/plain");
        let wrong_name = |sent: Sent| sent.with_header("mcp-name", "another");
        for (name, sent) in [
            ("undeclared, unknown task", unknown(bare.clone())),
            ("undeclared, no taskId", no_id(bare.clone())),
            ("undeclared, wrong name", wrong_name(bare.clone())),
            ("no capabilities, no taskId", no_id(no_capabilities(good.clone()))),
            ("no capabilities, wrong method", wrong_method(no_capabilities(good.clone()))),
            ("no capabilities, unsupported", no_capabilities(unsupported(good.clone()))),
            ("no capabilities, versions differ", no_capabilities(another_version(good.clone()))),
            ("no version, wrong method", wrong_method(no_version(good.clone()))),
            ("no version, no capabilities", no_version(no_capabilities(good.clone()))),
            ("no version, no taskId", no_version(no_id(good.clone()))),
            ("no version, unknown header", no_version(good.clone()).with_header("mcp-protocol-version", "2999-01-01")),
            ("wrong method, wrong name", wrong_method(wrong_name(good.clone()))),
            ("wrong method, versions differ", wrong_method(another_version(good.clone()))),
            ("wrong name, versions differ", wrong_name(another_version(good.clone()))),
            ("wrong name, no taskId", wrong_name(no_id(good.clone()))),
            ("unsupported", unsupported(good.clone())),
            ("unsupported, no taskId", no_id(unsupported(good.clone()))),
            ("unsupported, undeclared", unsupported(bare)),
            ("unsupported, wrong method", wrong_method(unsupported(good.clone()))),
            ("text, wrong method", text(wrong_method(good.clone()))),
            ("text, no version", text(no_version(good))),
        ] {
            self.add(name, sent);
        }
    }
}

/// The part of an answer that is compared: status, content type, the error with the names of its data, or the names in
/// the result.
async fn summary(world: &World, case: &Case) -> String {
    let mut request = match &case.body {
        None => case.sent.request(),
        Some(body) => {
            let (parts, _) = case.sent.request().into_parts();
            Request::from_parts(parts, Bytes::from(body.clone()))
        }
    };
    for (name, value) in &case.more {
        request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
    }
    let answer = read(world.mcp.respond(request, case.sent.owner).await).await;
    let json = answer.json();
    let sorted = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(" ");
    let names = |value: &Value| value.as_object().map(|fields| sorted(fields.keys().map(String::as_str).collect()));
    let kind = answer.headers["content-type"].to_str().unwrap();
    let outcome = match (&json["result"], &json["error"]) {
        (Value::Null, error) => {
            let data = names(&error["data"]).unwrap_or_default();
            format!("{} {} {{{data}}}", error["code"], error["message"])
        }
        (result, _) => format!("{} {{{}}}", result["resultType"], names(result).unwrap()),
    };
    format!("{} {kind} id {} {}: {outcome}", answer.status.as_u16(), json["id"], names(&json).unwrap())
}

#[tokio::test]
async fn requests_about_tasks_are_answered_as_rmcp_answers_them() {
    let world = World::new();
    let mut lines = Vec::new();
    for method in METHODS {
        let id = world.start("sleeps", json!({"ms": 60_000})).await;
        let mut cases = Cases::new(method, &id);
        cases.about_tasks();
        cases.about_headers(&id);
        cases.about_params();
        cases.about_bodies(&id);
        cases.about_order();
        for case in cases.cases {
            let line = format!("{} -> {}", case.name, summary(&world, &case).await);
            lines.push(line.replace(&id, "(the task)"));
        }
    }
    let recorded: Vec<&str> = RECORDED.lines().collect();
    let different: Vec<String> = lines
        .iter()
        .enumerate()
        .filter(|(index, line)| recorded.get(*index) != Some(&line.as_str()))
        .map(|(index, line)| format!("then: {}\nnow:  {line}", recorded.get(index).unwrap_or(&"nothing")))
        .collect();
    assert!(different.is_empty(), "{} of {}\n{}", different.len(), lines.len(), different.join("\n"));
    assert_eq!(recorded.len(), lines.len());
}
