//! Questions for clients, requests of the server to clients of older revisions, and their answers. A request's id is
//! signed and names the task or call of the request. So the answer may reach any instance, and no client can answer for
//! another.

use std::sync::Arc;

use http::{Response, StatusCode};
use longhaul_core::strict_json;
use longhaul_core::verbatim::{Object, carrying_alone, request_text, with_params};
use longhaul_core::{Ask, OwnerId, Task, TaskId, TaskKey};
use longhaul_engine::AnswerError;
use rmcp::model::{
    ClientCapabilities, ClientResult, CustomResult, ElicitRequestParams, ElicitationCapability,
    FormElicitationCapability, InputRequest, ServerRequest, UrlElicitationCapability,
};
use rmcp::{ErrorData, Peer, RoleServer, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::Body;
use crate::reply::{self, errors};
use crate::signing::signer::Purpose;
use crate::state::Shared;
use crate::tool_calls::plain_answers;
use crate::waiting::open_requests::Request;

/// In place of an answer: the error with which the client answered.
const REFUSED: &str = "dev.longhaul/error";

/// Says which task a message belongs to.
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// What a request of the server belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Asked {
    /// A question of a task, by its key.
    #[serde(rename = "t")]
    Task(TaskId, String),
    /// A request of a plain call, by its number. The id belongs to this call only.
    #[serde(rename = "c")]
    Call(TaskId, u32),
}

impl Asked {
    fn id(&self, shared: &Shared, owner: &OwnerId) -> Result<String, ErrorData> {
        shared.signer.sign(Purpose::Ask, owner, self)
    }
}

/// A question of a task, as the request that is sent to the client.
pub(crate) struct Question {
    id: String,
    method: String,
    pub(crate) params: Map<String, Value>,
    /// The parameters as they are stored.
    text: Option<String>,
}

impl Question {
    /// The same question, with its parameters as a revision has them.
    pub(crate) fn revised(
        mut self,
        revise: impl FnOnce(&str, &mut Map<String, Value>) -> Result<(), ErrorData>,
    ) -> Result<Self, ErrorData> {
        revise(&self.method, &mut self.params)?;
        Ok(self)
    }

    pub(crate) fn message(&self) -> String {
        let Self { id, method, params, text } = self;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        with_params(message, text.as_deref(), params)
    }
}

#[derive(Deserialize)]
struct StoredQuestion {
    method: String,
    params: Option<Map<String, Value>>,
}

/// The request that sends `ask` to the client of `task`. Its parameters say which task it belongs to.
pub(crate) fn question(shared: &Shared, task: &Task, ask: &Ask) -> Result<Question, ErrorData> {
    let mut question = question_of_call(Asked::Task(task.id, ask.key.clone()).id(shared, &task.owner)?, ask)?;
    let meta = question.params.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(RELATED_TASK.to_owned(), json!({"taskId": task.id.to_string()}));
    }
    Ok(question)
}

/// The request with this id that sends `ask` to a client whose call is open.
pub(crate) fn question_of_call(id: String, ask: &Ask) -> Result<Question, ErrorData> {
    let StoredQuestion { method, params } = read(ask)?;
    let text = Object::read(&ask.request).ok().and_then(|request| request.get("params").map(str::to_owned));
    Ok(Question { id, method, params: params.unwrap_or_default(), text })
}

/// The text of a question, as it is stored.
pub(crate) fn written(request: &InputRequest) -> Result<String, ErrorData> {
    let written = serde_json::to_value(request);
    let request = written.map_err(|error| errors::internal("a question could not be written", &error))?;
    Ok(text_of_question(request))
}

/// The texts of questions that a result asks.
pub(crate) fn all_written(requests: Map<String, Value>) -> String {
    let members =
        requests.into_iter().map(|(key, request)| format!("{}:{}", Value::from(key), text_of_question(request)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn text_of_question(mut request: Value) -> String {
    strip_additions(&mut request);
    request_text(request)
}

/// Checks that a stored question can be read, for protocol versions that send its stored text.
pub(crate) fn check(ask: &Ask) -> Result<(), ErrorData> {
    read(ask).map(drop)
}

fn read(ask: &Ask) -> Result<StoredQuestion, ErrorData> {
    serde_json::from_str(&ask.request).map_err(|error| unreadable(&error))
}

/// The error for clients if a stored question cannot be read.
fn unreadable(error: &serde_json::Error) -> ErrorData {
    errors::internal("a question of this task cannot be read", error)
}

/// Takes a client's answer.
pub(crate) async fn take(
    shared: &Shared,
    owner: OwnerId,
    id: &RawValue,
    outcome: Result<&RawValue, &RawValue>,
) -> Response<Body> {
    let id: Option<String> = serde_json::from_str(id.get()).ok();
    let asked = id.and_then(|id| shared.signer.verify(Purpose::Ask, &owner, &id));
    let Some(asked) = asked else {
        let error = ErrorData::invalid_request("the server has not sent a request with this id", None);
        return reply::error_with(StatusCode::BAD_REQUEST, None, &error);
    };
    let text = match outcome {
        Ok(answer) => answer.get().to_owned(),
        Err(error) => format!(r#"{{"{REFUSED}":{}}}"#, error.get()),
    };
    let engine = &shared.engine;
    let taken = match asked {
        Asked::Task(task, key) => engine.answer(&TaskKey::new(owner, task), &[(key, text)].into()).await,
        Asked::Call(call, number) => plain_answers::leave(shared, &owner, (call, number), &text).await,
    };
    match taken {
        Ok(()) => reply::accepted(),
        Err(AnswerError::NotFound) => {
            let message = "nobody waits for this answer any more: what asked has ended, or its connection is closed";
            reply::error_with(StatusCode::BAD_REQUEST, None, &ErrorData::invalid_request(message, None))
        }
        Err(error @ AnswerError::TooLarge { .. }) => {
            reply::error_with(StatusCode::PAYLOAD_TOO_LARGE, None, &errors::of_answer(error))
        }
        Err(AnswerError::Unavailable(error)) => {
            let status = errors::status_of(&error);
            reply::error_with(status, None, &errors::of_answer(AnswerError::Unavailable(error)))
        }
    }
}

/// A request of a plain call whose answer is awaited for as long as this exists.
pub(crate) struct Awaited {
    shared: Arc<Shared>,
    owner: OwnerId,
    request: Request,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.shared.open_requests.close(self.request);
    }
}

impl Awaited {
    /// The request with this number of a call.
    pub(crate) fn new(shared: Arc<Shared>, owner: OwnerId, call: TaskId, number: u32) -> Self {
        shared.open_requests.open((call, number));
        Self { shared, owner, request: (call, number) }
    }

    pub(crate) fn id(&self) -> Result<String, ErrorData> {
        let (call, number) = self.request;
        Asked::Call(call, number).id(&self.shared, &self.owner)
    }

    /// Waits until the client has answered, on any instance.
    pub(crate) async fn answer(self) -> Result<Value, NoAnswer> {
        let Self { shared, owner, request } = &self;
        let (clock, settings) = (&shared.engine.ports().clock, &shared.settings);
        let deadline = clock.now().plus_ms(settings.ask_ms_max);
        let (mailbox, mut listener) = (plain_answers::mailbox(*request), shared.engine.listener());
        loop {
            match listener.collect(owner, &mailbox).await {
                Ok(Some(text)) if plain_answers::take(shared, owner, self.request, deadline).await => {
                    return read_answer(&text).map_err(NoAnswer::Refused);
                }
                Ok(Some(_withdrawn)) => {
                    let message = "the client's answer came from another instance and was withdrawn: ask again";
                    return Err(NoAnswer::Open(ErrorData::internal_error(message, None)));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a mailbox could not be read");
                }
            }
            if clock.now() >= deadline {
                return Err(NoAnswer::Open(ErrorData::internal_error("the client did not answer in time", None)));
            }
            tokio::select! {
                biased;
                _left = listener.changed() => {}
                () = clock.sleep_ms(settings.listen_poll_ms.max(1)) => {}
            }
        }
    }
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The client answered with this error.
    Refused(ErrorData),
    /// The client did not answer.
    Open(ErrorData),
}

/// Asks the client while its plain call is open, and returns its answer.
pub(crate) async fn ask(peer: &Peer<RoleServer>, request: InputRequest) -> Result<Value, ErrorData> {
    let request = match request {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        // Anything that a later version of `rmcp` may add.
        _ => return Err(ErrorData::invalid_request("this request cannot be sent while a call is open", None)),
    };
    match peer.send_request(request).await {
        Ok(answer) => {
            serde_json::to_value(answer).map_err(|error| errors::internal("an answer could not be read", &error))
        }
        Err(ServiceError::McpError(error)) => Err(error),
        Err(error) => Err(ErrorData::internal_error(format!("the client could not be asked: {error}"), None)),
    }
}

/// The stored text instead of an answer, if the client refused.
pub(crate) fn refusal(error: &ErrorData) -> String {
    json!({REFUSED: error}).to_string()
}

/// Reads a stored answer. Fails with the error with which the client answered, or that the text cannot be read.
pub(crate) fn read_answer(text: &str) -> Result<Value, ErrorData> {
    let answer = serde_json::from_str(text);
    unless_refused(answer.map_err(|error| errors::internal("a stored answer cannot be read", &error))?)
}

/// The answer; or the error that is stored in its place.
pub(crate) fn unless_refused(mut answer: Value) -> Result<Value, ErrorData> {
    let Some(error) = answer.get_mut(REFUSED) else { return Ok(answer) };
    let error = serde_json::from_value(error.take());
    Err(error.unwrap_or_else(|_malformed| ErrorData::internal_error("the client could not answer", None)))
}

pub(crate) fn client_result(answer: Value) -> ClientResult {
    serde_json::from_value(answer.clone()).unwrap_or(ClientResult::CustomResult(CustomResult(answer)))
}

/// A complete request: `request` has its method and its parameters, which were read from `text`.
pub(crate) fn message(id: &str, mut request: Map<String, Value>, text: Option<&str>) -> String {
    request.insert("jsonrpc".to_owned(), "2.0".into());
    request.insert("id".to_owned(), id.into());
    let params = request.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    with_params(Value::Object(request).to_string(), text, &params)
}

/// Removes the additions of `rmcp` from a request. A progress token means nothing to a client that reports no progress.
/// An elicitation without an id gets an empty one.
pub(crate) fn strip_additions(request: &mut Value) {
    let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) else { return };
    if params.get("elicitationId").is_some_and(|id| id == "") {
        params.shift_remove("elicitationId");
    }
    let meta_is_empty = params.get_mut("_meta").and_then(Value::as_object_mut).is_some_and(|meta| {
        meta.shift_remove("progressToken");
        meta.is_empty()
    });
    if meta_is_empty {
        params.shift_remove("_meta");
    }
}

/// Whether a client with these capabilities can be asked a stored question.
pub(crate) fn is_declared(declared: &ClientCapabilities, ask: &Ask) -> Result<bool, ErrorData> {
    check(ask)?;
    let request = strict_json::from_str(&ask.request)
        .or_else(|error| strict_json::from_str(&carrying_alone(&ask.request).ok_or(error)?))
        .map_err(|error| unreadable(&error))?;
    Ok(check_declared(declared, &request).is_ok())
}

/// Whether a client with these capabilities can be asked this. Fails with `-32021`, which names what the client would
/// have to declare.
pub(crate) fn check_declared(declared: &ClientCapabilities, request: &InputRequest) -> Result<(), ErrorData> {
    let needed = needed(request);
    if covers(declared, &needed) { Ok(()) } else { Err(ErrorData::missing_required_client_capability(needed)) }
}

fn needed(request: &InputRequest) -> ClientCapabilities {
    let mut needed = ClientCapabilities::default();
    match request {
        InputRequest::Elicitation(request) => {
            needed.elicitation = Some(match &request.params {
                ElicitRequestParams::UrlElicitationParams { .. } => {
                    ElicitationCapability::new().with_url(UrlElicitationCapability::default())
                }
                // Forms, and anything that a later version of `rmcp` may add.
                _ => ElicitationCapability::new().with_form(FormElicitationCapability::default()),
            });
        }
        InputRequest::CreateMessage(_) => needed.sampling = Some(rmcp::model::SamplingCapability::default()),
        // Roots, and anything that a later version of `rmcp` may add.
        _ => needed.roots = Some(rmcp::model::RootsCapabilities::default()),
    }
    needed
}

fn covers(declared: &ClientCapabilities, needed: &ClientCapabilities) -> bool {
    let elicitation = match (&declared.elicitation, &needed.elicitation) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(declared), Some(needed)) if needed.url.is_some() => declared.url.is_some(),
        // An empty object means forms: it dates from before there were other kinds.
        (Some(declared), Some(_)) => declared.form.is_some() || declared.url.is_none(),
    };
    let sampling = needed.sampling.is_none() || declared.sampling.is_some();
    let roots = needed.roots.is_none() || declared.roots.is_some();
    elicitation && sampling && roots
}
