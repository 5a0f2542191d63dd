//! Tasks of a server behind a URL, over the client that the command also uses. Tasks of revision `2025-11-25` belong to
//! a session; tasks of the Tasks extension do not.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use longhaul::SystemClock;
use longhaul_client::{Call, Called, Client, Error, Identity, Nobody, Raw, Refusal, Status, Task, Tool};
use longhaul_core::Clock;
use longhaul_core::strict_json;
use longhaul_core::verbatim::request_text;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ErrorCode, InputRequests, InputResponses,
};
use serde_json::{Map, Value, json};

use super::client::asked_of;
use super::task::{Delivery, Seen, SessionId, Started, cancelled, tool_result};
use super::{RequestError, failed, questions, texts};
use crate::limits;

/// A session that has just begun.
pub(crate) struct Session(Client);

/// The result of calling a tool as a task.
pub(crate) enum Began {
    Task(Started),
    /// The server answered at once.
    Result(Box<CallToolResult>),
    /// Nothing: the server has not got it, for this reason.
    Unsent(String),
}

impl Session {
    /// A new session of revision `2025-11-25`.
    pub(crate) async fn begin(server: &Raw, declared: &ClientCapabilities) -> Result<Self, RequestError> {
        Client::begin(server.clone(), identity(declared)).await.map(Self).map_err(unanswered)
    }

    /// The capabilities of the server.
    pub(crate) const fn capabilities(&self) -> &Value {
        self.0.capabilities()
    }

    /// Whether the server may make tasks of calls.
    pub(crate) fn makes_tasks(&self) -> bool {
        self.0.makes_tasks()
    }

    /// The server's list of tools, as it was sent.
    pub(crate) async fn tools(&self) -> Result<Vec<Value>, RequestError> {
        let tools = self.0.tools().await.map_err(unanswered)?;
        Ok(tools.into_iter().map(|tool| tool.raw).collect())
    }

    /// Calls a tool as a task that is kept for so many milliseconds. The session continues if the call becomes a task.
    pub(crate) async fn start_task(
        self,
        server: &str,
        params: &CallToolRequestParams,
        ttl_ms: Option<u64>,
    ) -> Result<Began, RequestError> {
        let listed = Tool::read(&json!({"name": params.name, "execution": {"taskSupport": "required"}}));
        let arguments = params.arguments.clone().unwrap_or_default();
        let meta = params.meta.clone().unwrap_or_default().0.0;
        let call = Call { listed, ttl_ms, meta, ..Call::new(&params.name, arguments) };
        let called = tokio::time::timeout(limits::ANSWER_MAX, self.0.call(&call, &mut Nobody)).await;
        let session = SessionId(self.0.session());
        self.end().await;
        let late = || Error::Lost(format!("no answer within {} seconds", limits::ANSWER_MAX.as_secs()));
        match called.unwrap_or_else(|_late| Err(late())) {
            Ok(Called::Task(task)) => {
                let Task { id: task_id, interval_ms: every_ms, .. } = *task;
                Ok(Began::Task(Started { task_id, every_ms, session: Some(session) }))
            }
            Ok(Called::Result(result)) => {
                let result = tool_result(server, &texts::of_result(&result));
                result.map(Box::new).map(Began::Result).map_err(RequestError::Refused)
            }
            Ok(Called::Unanswered(_question)) => {
                Err(RequestError::Refused(failed("the server asks before it makes a task of the call")))
            }
            Err(error) if error.has_done_nothing() => Ok(Began::Unsent(error.to_string())),
            Err(error) => Err(unanswered(error)),
        }
    }

    /// Ends the session, unless a task is in it. A server that does not receive this ends the session later.
    pub(crate) async fn end(self) {
        self.0.close().await;
    }
}

/// A task of a server behind a URL, with the capabilities that its caller has declared.
pub(crate) struct RemoteTask<'s> {
    server: &'s Raw,
    started: &'s Started,
    identity: Identity,
}

impl<'s> RemoteTask<'s> {
    pub(crate) fn new(server: &'s Raw, started: &'s Started, declared: &ClientCapabilities) -> Self {
        Self { server, started, identity: identity(declared) }
    }

    /// A client in the session of the task, or in another one.
    fn client(&self, other: Option<&str>) -> Client {
        let (server, identity) = (self.server.clone(), self.identity.clone());
        match &self.started.session {
            Some(SessionId(own)) => Client::resume(server, identity, other.or(own.as_deref())),
            None => Client::per_request(server, identity),
        }
    }

    /// The state of the task. A server that has forgotten the session was most often restarted. Its tasks may have
    /// survived that, so the server is asked again in a new session.
    pub(crate) async fn see(&self, server: &str) -> Result<Seen, RequestError> {
        let client = self.client(None);
        let task = client.task(&self.started.task_id).await.map_err(unanswered);
        let own = self.started.session.as_ref().and_then(|session| session.0.clone());
        let asked_in = client.session().filter(|session| Some(session) != own.as_ref());
        let seen = task.map(|task| seen(server, task, asked_in.as_deref()));
        if !matches!(seen, Ok(Seen::Asks(_))) {
            client.close().await;
        }
        seen
    }

    /// Answers questions. A server that has forgotten the session asks again.
    pub(crate) async fn answer(&self, answers: &InputResponses) -> Result<Delivery, RequestError> {
        let task_id = &self.started.task_id;
        if self.started.session.is_none() {
            let answers = answers.iter().map(|(key, answer)| (key.clone(), answer.clone())).collect();
            let answered = self.client(None).answer_all(task_id, answers).await;
            return answered.map(|()| Delivery::Done).map_err(unanswered);
        }
        for (key, answer) in answers {
            let (key, asked_in) = of_session(key);
            let client = self.client(asked_in.as_deref());
            let answers = Map::from_iter([(key, answer.clone())]);
            let answered = client.answer_all(task_id, answers).await;
            if asked_in.is_some() && answered.is_ok() {
                client.release();
                client.close().await;
            }
            match answered {
                Ok(()) => {}
                Err(Error::SessionGone) => return Ok(Delivery::Forgotten),
                Err(error) => return Err(unanswered(error)),
            }
        }
        Ok(Delivery::Done)
    }

    /// Asks the server to cancel the task, whose session ends with it.
    pub(crate) async fn cancel(&self) -> Result<(), RequestError> {
        let client = self.client(None);
        let cancelled = client.cancel(&self.started.task_id).await;
        if cancelled.is_ok() {
            client.release();
        }
        client.close().await;
        cancelled.map_err(unanswered)
    }
}

/// How long after the end of its task a session is ended: by then the end is recorded, most often. If it is not, the
/// server is asked once more, and may show the task to its session only.
const ENDED_MS: u64 = 60_000;

/// So many sessions wait for that. A server ends the others when it likes.
const ENDED_MAX: usize = 1_024;

/// The sessions whose tasks have ended. They are ended when the server is asked for something else.
#[derive(Default)]
pub(crate) struct EndedSessions(Mutex<VecDeque<(u64, String)>>);

impl EndedSessions {
    /// Notes that the task of a session has ended.
    pub(crate) fn note(&self, started: &Started) {
        let Some(SessionId(Some(session))) = &started.session else { return };
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() < ENDED_MAX && !ended.iter().any(|(_, other)| other == session) {
            ended.push_back((SystemClock.now().as_ms(), session.clone()));
        }
    }

    /// Ends the next one, if it is time for that.
    pub(crate) async fn end_next(&self, server: &Raw) {
        if let Some(session) = self.due(SystemClock.now().as_ms()) {
            let client = Client::resume(server.clone(), identity(&ClientCapabilities::default()), Some(&session));
            client.release();
            client.close().await;
        }
    }

    fn due(&self, now_ms: u64) -> Option<String> {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, session) = ended.pop_front_if(|(at_ms, _)| at_ms.saturating_add(ENDED_MS) <= now_ms)?;
        Some(session)
    }
}

/// The gateway's identity as a client, with the questions that its caller can be asked.
fn identity(declared: &ClientCapabilities) -> Identity {
    let capabilities = match serde_json::to_value(asked_of(declared)) {
        Ok(Value::Object(capabilities)) => capabilities,
        Ok(_) | Err(_) => Map::new(),
    };
    Identity { name: "longhaul-gateway".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), capabilities }
}

fn unanswered(error: Error) -> RequestError {
    match error {
        Error::Refused(refusal) => RequestError::Refused(error_data(refusal)),
        error => RequestError::Lost(error.to_string()),
    }
}

fn error_data(refusal: Refusal) -> ErrorData {
    let code = i32::try_from(refusal.code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    ErrorData::new(code, refusal.message, refusal.data)
}

/// Reads the state of a task. `asked_in` is the session that its questions came in, if it is not the task's own
/// session.
fn seen(server: &str, task: Task, asked_in: Option<&str>) -> Seen {
    let Task { status, message, questions, end, .. } = task;
    match (status, end) {
        (Status::Completed | Status::Failed, Some(Ok(result))) => {
            Seen::Ended(tool_result(server, &texts::of_result(&result)).map(Box::new))
        }
        (Status::Completed | Status::Failed, Some(Err(refusal))) => Seen::Ended(Err(error_data(refusal))),
        (Status::Completed | Status::Failed, None) => {
            let how = if status == Status::Failed { "failed without a reason" } else { "ended without a result" };
            Seen::Ended(Err(failed(&format!("a task of `{server}` {how}"))))
        }
        (Status::Cancelled, _) => Seen::Ended(Err(cancelled(server, message))),
        (Status::Working | Status::InputRequired, _) => {
            let mut asked = InputRequests::new();
            for question in questions {
                let request = request_text(json!({"method": question.method, "params": question.params}));
                if let Some(request) = questions::of_task(&request) {
                    asked.insert(in_session(question.key, asked_in), request);
                }
            }
            if asked.is_empty() { Seen::Working { message } } else { Seen::Asks(asked) }
        }
    }
}

/// The name of a question that came in a session. Its answer belongs in that session, and another session counts from
/// the start.
fn in_session(key: String, session: Option<&str>) -> String {
    match session {
        Some(session) => json!([key, session]).to_string(),
        None => key,
    }
}

fn of_session(name: &str) -> (String, Option<String>) {
    match strict_json::from_str::<[String; 2]>(name) {
        Ok([key, session]) => (key, Some(session)),
        Err(_) => (name.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_without_a_session_id_is_not_taken_for_one_of_the_extension() {
        for (session, recorded) in [
            (None, json!(null)),
            (Some(SessionId(None)), json!("")),
            (Some(SessionId(Some("a".to_owned()))), json!("a")),
        ] {
            let started = Started { task_id: "t".to_owned(), every_ms: None, session: session.clone() };
            let written = serde_json::to_value(&started).unwrap();
            assert_eq!(written["session"], recorded);
            assert_eq!(serde_json::from_value::<Started>(written).unwrap().session, session);
        }
    }

    #[test]
    fn a_session_is_ended_once_a_minute_after_its_task() {
        let (ended, now_ms) = (EndedSessions::default(), SystemClock.now().as_ms());
        for session in [None, Some(SessionId(None)), Some(SessionId(Some("a".to_owned())))] {
            let started = Started { task_id: "t".to_owned(), every_ms: None, session };
            ended.note(&started);
            ended.note(&started);
        }
        assert_eq!(ended.due(now_ms), None);
        assert_eq!(ended.due(now_ms + 2 * ENDED_MS).as_deref(), Some("a"));
        assert_eq!(ended.due(now_ms + 2 * ENDED_MS), None);
    }

    #[test]
    fn a_question_of_another_session_is_answered_there() {
        for (key, session) in [("0", None), ("\"a\"", Some("s1")), ("[\"0\"]", Some(""))] {
            let name = in_session(key.to_owned(), session);
            assert_eq!(of_session(&name), (key.to_owned(), session.map(str::to_owned)));
        }
    }

    fn task(more: Value) -> Task {
        let mut raw = json!({"taskId": "t", "status": "working"});
        raw.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Task::read(&raw).unwrap()
    }

    #[test]
    fn what_a_task_says_is_what_was_seen() {
        let asks = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema":
            {"type": "object", "properties": {}}}});
        let odd = json!({"method": "odd/odd"});
        let of = |more| seen("s", task(more), None);
        assert!(matches!(of(json!({"status": "completed", "result": {"content": []}})), Seen::Ended(Ok(_))));
        assert!(matches!(of(json!({"status": "completed", "result": 7})), Seen::Ended(Err(_))));
        assert!(matches!(of(json!({"status": "completed"})), Seen::Ended(Err(_))));
        assert!(matches!(of(json!({"status": "failed"})), Seen::Ended(Err(_))));
        assert!(matches!(of(json!({"status": "cancelled"})), Seen::Ended(Err(_))));
        let asked = of(json!({"status": "input_required", "inputRequests": {"a": asks, "b": odd.clone()}}));
        assert!(matches!(asked, Seen::Asks(asked) if asked.keys().eq(["a"])));
        let asked = of(json!({"status": "input_required", "inputRequests": {"b": odd}}));
        assert!(matches!(asked, Seen::Working { .. }));
    }
}
