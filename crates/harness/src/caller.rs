//! A client of revision `2026-07-28` that is only HTTP and JSON, so that a test controls exactly what is sent.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The Tasks extension's name.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client.
#[derive(Clone)]
pub struct Caller {
    http: reqwest::Client,
    url: String,
    capabilities: Value,
    token: Option<String>,
}

impl Caller {
    /// A client that declares the tasks extension and elicitation.
    pub fn new(url: &str) -> Self {
        let capabilities = json!({"elicitation": {}, "extensions": {TASKS: {}}});
        Self { http: reqwest::Client::new(), url: url.to_owned(), capabilities, token: None }
    }

    /// The same client with an access token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same client with other capabilities.
    pub fn declaring(&self, capabilities: Value) -> Self {
        Self { capabilities, ..self.clone() }
    }

    /// The `_meta` of every request.
    pub fn meta(&self) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "e2e", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        })
    }

    /// A request as it would be sent; nothing is sent yet.
    pub fn request(&self, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        let name = ["name", "taskId", "uri"].iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
        let mut meta = self.meta();
        if let Some(more) = params["_meta"].as_object() {
            meta.as_object_mut().unwrap().extend(more.clone());
        }
        params["_meta"] = meta;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .body(body.to_string());
        let request = self.token.iter().fold(request, |request, token| request.bearer_auth(token));
        match name {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    /// Sends a request and returns the JSON-RPC answer, result or error.
    pub async fn answer(&self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params).send().await.expect("the server answers");
        json_of(&answer.text().await.expect("the answer is text"))
    }

    /// Sends a request that has to succeed.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a request that has to fail, and returns the error.
    pub async fn error(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer.get("error").is_some(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// Calls a tool plainly or as a task, whichever the server chooses.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool that has to become a task, and returns the task's id.
    pub async fn call_task(&self, tool: &str, arguments: Value) -> String {
        let created = self.call(tool, arguments).await;
        assert_eq!(created["resultType"], "task", "{created}");
        created["taskId"].as_str().expect("a task has an id").to_owned()
    }

    /// The task's current state.
    pub async fn get(&self, task_id: &str) -> Value {
        self.result("tasks/get", json!({"taskId": task_id})).await
    }

    /// Polls until the task has this status. Another terminal status fails the test.
    pub async fn until(&self, task_id: &str, status: &str) -> Value {
        self.until_it(task_id, status, |task| task["status"] == status).await
    }

    /// Polls until `seen` holds.
    pub async fn until_it(&self, task_id: &str, what: &str, seen: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let task = self.get(task_id).await;
            if seen(&task) {
                return task;
            }
            let ended = ["completed", "failed", "cancelled"].iter().any(|end| task["status"] == *end);
            assert!(!ended, "waited for {what}, and the task ended: {task}");
            assert!(begun.elapsed() < PATIENCE, "waited for {what}: {task}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Answers an elicitation of a task.
    pub async fn accept(&self, task_id: &str, key: &str, content: Value) {
        let responses = json!({key: {"action": "accept", "content": content}});
        self.result("tasks/update", json!({"taskId": task_id, "inputResponses": responses})).await;
    }
}

/// The last message of an answer, which is JSON or a stream of events.
pub fn json_of(text: &str) -> Value {
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let last = data.rfind(|data| !data.is_empty()).unwrap_or(text);
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The structured content of a tool's result, or its first text, parsed if it is JSON.
pub fn structured(result: &Value) -> Value {
    if result["structuredContent"].is_object() {
        return result["structuredContent"].clone();
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"));
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

/// Polls until a task has ended.
pub async fn ended(caller: &Caller, id: &str) -> Value {
    let ends = |task: &Value| ["completed", "failed", "cancelled"].iter().any(|end| task["status"] == *end);
    caller.until_it(id, "the end", ends).await
}

/// The words of a result.
pub fn words(task: &Value) -> String {
    task["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {task}")).to_owned()
}

/// Why a task failed.
pub fn why(task: &Value) -> String {
    assert_eq!(task["status"], "failed", "{task}");
    task["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {task}")).to_owned()
}
