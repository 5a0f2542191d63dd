//! Accepting a tool call as a task, the same for all protocol versions; and the call as the task's record stores it for
//! the worker.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;

use longhaul_core::verbatim::{Object, changed, has_other_forms, in_one_line};
use longhaul_core::{
    Cleanup, Labels, Principal, RequestedTerms, Task, Terms, Timestamp, TraceParent, limits, strict_json,
};
use longhaul_engine::{Call, Engine, Idempotency};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, InputResponses, JsonObject, ProgressToken, RequestMetaObject,
};
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::TaskPolicy;
use crate::reply::errors;
use crate::request::incoming::{Incoming, TRACEPARENT};
use crate::revision::Generation;
use crate::state::Shared;
use crate::tool_calls::caller::{self, VerifiedCaller};

/// The call of a tool that the server makes by itself, for this caller: its client can be asked nothing.
pub(crate) fn own_call(
    shared: &Shared,
    caller: &Principal,
    policy: &TaskPolicy,
    (tool, arguments): (&str, Option<JsonObject>),
    trace: Option<&TraceParent>,
) -> Result<Call, ErrorData> {
    let mut meta = RequestMetaObject::default();
    meta.set_client_capabilities(ClientCapabilities::default());
    set_trace(&mut meta, trace);
    let stored = StoredCall::new(arguments, meta);
    call(shared, caller, (tool.to_owned(), stored), Terms::negotiate(&policy.terms, RequestedTerms::default()), None)
}

/// The arguments of a call, as text and as values.
pub(crate) struct Arguments<'a> {
    /// As the client wrote them, unless they have changed since.
    pub(crate) given: Option<&'a RawValue>,
    pub(crate) read: Option<JsonObject>,
}

/// The answers and the state that a later round of a call brings.
#[derive(Default)]
pub(crate) struct Brought {
    /// All answers, those of this round included.
    pub(crate) given: BTreeMap<String, Value>,
    /// The answers of this round.
    pub(crate) answers: Option<InputResponses>,
    /// The tool's own state.
    pub(crate) state: Option<String>,
}

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(given) = self.given else { return self.read.serialize(serializer) };
        // A server on standard input reads lines.
        match in_one_line(given.get()) {
            Cow::Borrowed(_) => given.serialize(serializer),
            Cow::Owned(text) => RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer),
        }
    }
}

/// The call that a request makes of a tool, which the author's handler does not see before a worker runs it. Its
/// progress token outlives the request if a handshake negotiated tasks or asynchronous calls, and it asks for one.
pub(crate) fn call_of(
    shared: &Shared,
    request: &Incoming<'_>,
    (tool, policy): (&str, &TaskPolicy),
    (arguments, brought): (Arguments<'_>, Brought),
    requested: RequestedTerms,
) -> Result<Call, ErrorData> {
    let mut meta = request.whole_meta();
    let idempotency = caller::idempotency_of(request.http.headers(), &meta, tool, arguments.read.as_ref())?;
    let idempotency = request.scope.bind(idempotency)?;
    let progress_token = match request.client.generation() {
        Generation::PerRequest => None,
        Generation::Handshake => {
            meta.set_client_capabilities(request.capabilities());
            let outlives = request.method == "tools/async/call" || request.members.get("task").is_some();
            meta.get_progress_token().filter(|_| outlives)
        }
    };
    let arguments = Some(arguments).filter(|arguments| arguments.read.is_some());
    let Brought { given, answers: input_responses, state: request_state } = brought;
    let stored = StoredCall::new(arguments, meta).with_meta_text(request.meta.text());
    let stored = StoredCall { given, input_responses, request_state, progress_token, ..stored };
    let terms = Terms::negotiate(&policy.terms, requested);
    call(shared, request.caller, (tool.to_owned(), stored), terms, idempotency)
}

/// The call of a tool as the engine takes it. Its caller checks before that the tool exists. `_meta` says what the
/// client can be asked.
pub(crate) fn call<A: Serialize>(
    shared: &Shared,
    caller: &Principal,
    (tool, mut call): (String, StoredCall<A>),
    terms: Terms,
    idempotency: Option<Idempotency>,
) -> Result<Call, ErrorData> {
    let is_cleaned = shared.policies.cleans_up(&tool);
    let trace = trace_of(&mut call);
    let arguments = || serde_json::to_value(&call.arguments);
    let (flow, labels) = match shared.policies.get(&tool) {
        Some(policy) => (policy.flow_of(&tool, arguments)?, policy.labels_of(&tool, arguments)?),
        None => (None, Labels::default()),
    };
    let not_before = take_later_start(&mut call.meta)?;
    call.caller = known(caller)?;
    let unwritten = |error| errors::internal("the call could not be written", &error);
    let mut request = serde_json::to_string(&call).map_err(unwritten)?;
    if let Some(text) = &call.meta_text {
        let meta = changed(text, &call.meta.0.0).map_err(unwritten)?;
        request = Object::read(&request).map_err(unwritten)?.with("_meta", &meta);
    }
    let cleanup = if is_cleaned { Cleanup::ARMED } else { Cleanup::None };
    Ok(Call { owner: caller.owner, tool, request, terms, idempotency, trace, cleanup, not_before, flow, labels })
}

/// What is stored about the caller. Fails with `-32600` if it is too long.
fn known(caller: &Principal) -> Result<Option<VerifiedCaller>, ErrorData> {
    let Some(known) = VerifiedCaller::known(caller) else { return Ok(None) };
    let bytes = serde_json::to_vec(&known)
        .map_err(|error| errors::internal("what is known about the caller could not be written", &error))?
        .len();
    if bytes > limits::CALLER_BYTES_MAX {
        let message = format!(
            "what is known about the caller has {bytes} bytes, and at most {} are stored with a task: use a token with \
             fewer claims and scopes",
            limits::CALLER_BYTES_MAX
        );
        return Err(ErrorData::invalid_request(message, None));
    }
    Ok(Some(known))
}

/// Names the trace that a call belongs to, if it belongs to one.
fn set_trace(meta: &mut RequestMetaObject, trace: Option<&TraceParent>) {
    if let Some(trace) = trace {
        meta.0.0.insert(TRACEPARENT.to_owned(), trace.as_str().into());
    }
}

/// The trace that the call belongs to. What is not a `traceparent` is dropped, from what is stored too.
fn trace_of<A>(call: &mut StoredCall<A>) -> Option<TraceParent> {
    let trace = call.meta.0.get_traceparent().and_then(TraceParent::parse);
    if trace.is_none() {
        call.meta.0.0.shift_remove(TRACEPARENT);
    }
    trace
}

/// The key in the `_meta` of a call for the earliest moment at which its tool may run, as RFC 3339.
const START_KEY: &str = "dev.longhaul/notBefore";

/// The moment that a call asks for. Fails with `-32602` if it is not a moment.
pub(crate) fn later_start(meta: &RequestMetaObject) -> Result<Option<Timestamp>, ErrorData> {
    let Some(value) = meta.0.0.get(START_KEY) else { return Ok(None) };
    let moment = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()).ok_or_else(|| {
        let message =
            format!("`{START_KEY}` in `_meta` must be a moment as in RFC 3339, such as \"2026-12-01T09:00:00Z\"");
        ErrorData::invalid_params(message, None)
    })?;
    // What is before 1970 is past, as 1970 is.
    Ok(Some(Timestamp::from_ms(u64::try_from(moment.as_millisecond()).unwrap_or(0))))
}

/// The same, and takes it out of what is stored: a tool that passes its `_meta` on asks nobody else to start later.
/// Fails with `-32602` if it is not a moment.
fn take_later_start(meta: &mut RequestMetaObject) -> Result<Option<Timestamp>, ErrorData> {
    let start = later_start(meta)?;
    meta.0.0.shift_remove(START_KEY);
    Ok(start)
}

/// The error for a call that asks to start later, of a tool whose calls do not become tasks.
pub(crate) fn never_a_task(tool: &str) -> ErrorData {
    let message = format!("calls of `{tool}` do not become tasks, and so cannot start later: leave `{START_KEY}` out");
    ErrorData::invalid_params(message, None)
}

/// A tool call, with everything that the tool may want to know about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredCall<A = JsonObject> {
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<A>,
    /// What the request said about its client: version, name, capabilities.
    #[serde(default, rename = "_meta")]
    pub(crate) meta: RequestMetaObject,
    /// Its text, as the caller wrote it, if that would be lost otherwise.
    #[serde(skip)]
    meta_text: Option<String>,
    /// The answers and the state that came with the call that became the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_responses: Option<InputResponses>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
    /// The token for progress notifications, if it is valid for as long as the task lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) progress_token: Option<ProgressToken>,
    /// All answers that the client gave before the call became a task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) given: BTreeMap<String, Value>,
    /// Who called. Records of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<VerifiedCaller>,
}

impl<A> StoredCall<A> {
    /// The call to be stored. Its progress token is valid only for the request that brought it.
    pub(crate) fn new(arguments: Option<A>, mut meta: RequestMetaObject) -> Self {
        meta.0.0.shift_remove("progressToken");
        Self {
            arguments,
            meta,
            meta_text: None,
            input_responses: None,
            request_state: None,
            progress_token: None,
            given: BTreeMap::new(),
            caller: None,
        }
    }

    /// The same call, whose caller wrote its `_meta` so.
    pub(crate) fn with_meta_text(self, text: Option<&str>) -> Self {
        let text = text.filter(|text| has_other_forms(text));
        Self { meta_text: text.map(|text| in_one_line(text).into_owned()), ..self }
    }
}

impl StoredCall {
    /// The token for progress notifications to the client of `task`. If the call cannot be read, no progress is
    /// reported; the rest of an answer does not depend on it.
    pub(crate) async fn progress_token_of(engine: &Engine, task: &Task) -> Option<ProgressToken> {
        let call = match engine.load(&task.key(), &task.request).await {
            Ok(call) => strict_json::from_str::<Self>(&call).map_err(|error| Box::new(error) as Box<dyn Error>),
            Err(error) => Err(error.into()),
        };
        match call {
            Ok(call) => call.progress_token,
            Err(error) => {
                tracing::warn!(task_id = %task.id, error = &*error, "the call of a task cannot be read");
                None
            }
        }
    }

    /// What the tool is called with in an attempt: what came with the call, or with the latest round of answers.
    pub(crate) fn into_params(
        self,
        tool: &str,
        round: Option<(Option<String>, InputResponses)>,
    ) -> CallToolRequestParams {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = self.arguments;
        (params.request_state, params.input_responses) = match round {
            Some((state, answers)) => (state, Some(answers)),
            None => (self.request_state, self.input_responses),
        };
        params
    }

    /// What the tool finds in the context of its request. A tool reports progress only if there is a token.
    pub(crate) fn meta_for(&self, token: ProgressToken, trace: Option<&TraceParent>) -> RequestMetaObject {
        let mut meta = self.meta.clone();
        meta.set_progress_token(token);
        set_trace(&mut meta, trace);
        meta
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestMetaObject;
    use serde_json::{Value, json};

    use super::*;

    fn asked_for(value: Value) -> Result<Option<Timestamp>, ErrorData> {
        let mut meta = RequestMetaObject::default();
        meta.0.0.insert(START_KEY.to_owned(), value);
        let start = later_start(&meta);
        assert_eq!(take_later_start(&mut meta).ok(), start.clone().ok());
        assert_eq!(meta.0.0.contains_key(START_KEY), start.is_err());
        start
    }

    #[test]
    fn a_moment_is_rfc_3339_with_or_without_seconds_and_in_any_zone() {
        let at = |text: &str| asked_for(json!(text)).unwrap().unwrap().as_ms();
        let moment = 1_796_115_600_000;
        for text in
            ["2026-12-01T09:00:00Z", "2026-12-01T09:00Z", "2026-12-01T10:00:00+01:00", "2026-12-01 09:00:00.000Z"]
        {
            assert_eq!(at(text), moment, "{text}");
        }
        assert_eq!(at("1969-12-31T23:59:59Z"), 0);
        assert_eq!(later_start(&RequestMetaObject::default()).unwrap(), None);
    }

    #[test]
    fn what_is_not_a_moment_is_refused() {
        let others =
            [json!("tomorrow"), json!(""), json!("2026-12-01"), json!("2026-12-01T09:00:00"), json!(5), json!(null)];
        for other in others {
            let refused = asked_for(other.clone()).unwrap_err();
            assert_eq!(refused.code.0, -32602, "{other}");
            assert!(refused.message.contains("RFC 3339"), "{}", refused.message);
        }
    }

    #[test]
    fn a_record_of_a_version_without_callers_is_read() {
        let call: StoredCall = serde_json::from_str(r#"{"arguments":{"a":1},"_meta":{}}"#).unwrap();
        assert!(call.caller.is_none());
        assert!(!serde_json::to_string(&call).unwrap().contains("caller"), "nothing is stored of nobody");
    }
}
