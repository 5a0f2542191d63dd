//! A source that says what a test wants, and a browser that asks.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use longhaul_client::{Call, Called, Error, Question, Refusal, Status, Task, Tool};
use longhaul_console::{Act, Body, Console, Filter, Listed, Row, Setup, Source};
use serde_json::{Map, Value, json};

/// The actions that a source was asked for.
pub(crate) type Done = Arc<Mutex<Vec<String>>>;

/// A source with some tasks.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    /// Whether the caller is an operator.
    pub(crate) is_operator: bool,
    /// Where the tasks begin that are not in the list.
    pub(crate) older: Option<&'static str>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) records: Map<String, Value>,
    pub(crate) is_gone: bool,
    /// Why it refuses all calls and answers.
    pub(crate) refusal: Option<&'static str>,
    pub(crate) done: Done,
    /// The reads of the source.
    pub(crate) reads: Done,
}

const CREATED_AT: &str = "2026-11-23T04:05:30Z";

/// A task.
pub(crate) fn task(id: &str, status: Status, message: &str) -> Task {
    let raw = json!({"taskId": id, "createdAt": CREATED_AT, "lastUpdatedAt": "2026-11-23T04:06:00Z"});
    Task {
        id: id.to_owned(),
        status,
        message: Some(message.to_owned()).filter(|message| !message.is_empty()),
        interval_ms: None,
        questions: Vec::new(),
        end: None,
        raw: raw.as_object().unwrap().clone(),
    }
}

/// The record of a task with these attempts and entries, the first of which began at once.
pub(crate) fn record(attempts: &[Value], journal: Vec<Value>) -> Value {
    let created_at = attempts.first().map_or(CREATED_AT, |attempt| attempt["from"].as_str().unwrap());
    json!({"task": {"createdAt": created_at}, "tool": "etl", "attempt": attempts.len(), "failures": 0,
        "deadlineAt": "2999-01-01T00:00:00Z", "expiresAt": "2999-01-01T01:00:00Z", "attempts": attempts, "journal":
            journal,
        "arguments": {"bytes": 9, "value": {"rows": 3}}})
}

impl Fake {
    fn gone<T>(&self, value: Option<T>) -> Result<T, Error> {
        if self.is_gone {
            return Err(Error::Unreachable("connection refused".to_owned()));
        }
        let refusal = Refusal { code: -32602, message: "the task does not exist".to_owned(), data: None };
        value.ok_or(Error::Refused(refusal))
    }

    fn refused(&self) -> Result<(), Error> {
        let refusal = |why: &str| Error::Refused(Refusal { code: -32602, message: why.to_owned(), data: None });
        self.refusal.map_or(Ok(()), |why| Err(refusal(why)))
    }

    fn read(&self, what: &str) {
        self.reads.lock().unwrap().push(what.to_owned());
    }

    fn did(&self, what: String) {
        self.done.lock().unwrap().push(what);
    }
}

#[async_trait]
impl Source for Fake {
    fn url(&self) -> &str {
        "http://127.0.0.1:8080/mcp"
    }

    fn of_owner(&self, owner: &str) -> Arc<dyn Source> {
        self.read(&format!("of {owner}"));
        Arc::new(self.clone())
    }

    async fn is_operator(&self) -> Result<bool, Error> {
        self.gone(Some(self.is_operator))
    }

    async fn asking(&self) -> Result<usize, Error> {
        let asks = |task: &&Task| task.status == Status::InputRequired;
        self.gone(Some(self.tasks.iter().filter(asks).count()))
    }

    async fn tasks(&self, filter: &Filter) -> Result<Listed, Error> {
        self.read(&format!("tasks before {}", filter.before.as_deref().unwrap_or("now")));
        let rows = self.tasks.iter().map(|task| Row { task: task.clone(), tool: Some("etl".to_owned()) });
        let (tools, older) = (vec!["etl".to_owned()], self.older.map(str::to_owned));
        let counts = Status::ALL.map(|status| self.tasks.iter().filter(|task| task.status == status).count());
        self.gone(Some(Listed { rows: rows.collect(), counts, tools, newest: None, older }))
    }

    async fn task(&self, id: &str) -> Result<Task, Error> {
        self.read("task");
        self.gone(self.tasks.iter().find(|task| task.id == id).cloned())
    }

    async fn inspect(&self, id: &str) -> Result<Value, Error> {
        self.read("inspect");
        match self.records.get(id) {
            Some(record) => self.gone(Some(record.clone())),
            None => Err(Error::Unsupported("no records here".to_owned())),
        }
    }

    async fn record(&self, id: &str) -> Result<Value, Error> {
        self.read("record");
        let mut record = self.gone(self.records.get(id).cloned())?;
        record.as_object_mut().map(|record| record.remove("journal"));
        Ok(record)
    }

    async fn called(&self, id: &str) -> Result<(String, Map<String, Value>), Error> {
        self.gone(
            self.tasks
                .iter()
                .find(|task| task.id == id)
                .map(|_| ("etl".to_owned(), Map::from_iter([("rows".to_owned(), 3.into())]))),
        )
    }

    async fn tools(&self) -> Result<Vec<Tool>, Error> {
        self.read("tools");
        let schema = json!({"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]});
        self.gone(Some(vec![Tool { name: "etl".to_owned(), raw: json!({"name": "etl", "inputSchema": schema}) }]))
    }

    async fn call(&self, call: &Call) -> Result<Called, Error> {
        self.refused()?;
        self.did(format!("call {} {}", call.tool, call.key.as_deref().unwrap_or_default()));
        self.gone(Some(Called::Task(Box::new(task("new", Status::Working, "")))))
    }

    async fn answer(&self, id: &str, question: &Question, answer: Value) -> Result<(), Error> {
        self.refused()?;
        self.did(format!("answer {id} {} {answer}", question.key));
        self.gone(Some(()))
    }

    async fn resume(&self, id: &str, from: Option<&str>, key: Option<&str>) -> Result<Task, Error> {
        self.refused()?;
        self.did(format!("resume {id} {} {}", from.unwrap_or("-"), key.unwrap_or_default()));
        self.gone(Some(task("new", Status::Working, "")))
    }

    async fn cancel(&self, id: &str) -> Result<(), Error> {
        let known = self.tasks.iter().find(|task| task.id == id).map(drop);
        self.did(format!("cancel {id}"));
        self.gone(known)
    }
}

/// A browser in front of a console.
pub(crate) struct Browser {
    pub(crate) console: Console,
    pub(crate) done: Done,
    pub(crate) acts: Done,
    reads: Done,
    pub(crate) cookie: Mutex<String>,
}

/// The console's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) text: String,
    pub(crate) head: http::HeaderMap,
}

impl Browser {
    pub(crate) fn of(fake: Fake) -> Self {
        Self::with(fake, |_setup| {})
    }

    pub(crate) fn with(fake: Fake, change: impl FnOnce(&mut Setup)) -> Self {
        let (done, reads, acts) = (Arc::clone(&fake.done), Arc::clone(&fake.reads), Done::default());
        let log = Arc::clone(&acts);
        let log = move |act: &Act<'_>| {
            let outcome = if act.error.is_some() { "not " } else { "" };
            log.lock().unwrap().push(format!("{outcome}{} {}", act.what, act.task.unwrap_or_default()));
        };
        let source = Arc::new(fake);
        let servers = Box::new(Vec::new);
        let mut setup =
            Setup { source, acts: Box::new(log), is_read_only: false, hosts: Vec::new(), secret: None, servers };
        change(&mut setup);
        Self { console: Console::new(setup).unwrap(), done, acts, reads, cookie: Mutex::default() }
    }

    pub(crate) async fn send(&self, request: http::request::Builder, body: &str) -> Response<Body> {
        let request = request.header("cookie", self.cookie.lock().unwrap().as_str());
        let request: Request<Full<Bytes>> = request.body(Full::from(body.to_owned())).unwrap();
        self.console.respond(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        read(self.send(Request::get(path).header("host", "localhost:8081"), "").await).await
    }

    /// Sends a form as a page of the console does.
    pub(crate) async fn post(&self, path: &str, fields: &str) -> Answer {
        let page = self.get("/console").await.text;
        let token = page.split_once(r#"name="token" value=""#).map_or("", |(_, rest)| rest.split('"').next().unwrap());
        self.post_as("http://localhost:8081", path, &format!("token={token}&{fields}")).await
    }

    pub(crate) async fn post_as(&self, origin: &str, path: &str, body: &str) -> Answer {
        let request = Request::post(path).header("host", "localhost:8081").header("origin", origin);
        read(self.send(request, body).await).await
    }

    /// The number of reads of one kind since the last call.
    pub(crate) fn reads(&self, kind: &str) -> usize {
        let reads = std::mem::take(&mut *self.reads.lock().unwrap());
        reads.iter().filter(|read| *read == kind).count()
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    pub(crate) fn acts(&self) -> Vec<String> {
        self.acts.lock().unwrap().clone()
    }
}

pub(crate) async fn read(answer: Response<Body>) -> Answer {
    let (head, body) = answer.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Answer { code: head.status.as_u16(), text, head: head.headers }
}
