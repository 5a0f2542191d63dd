//! Messages of MCP in the output of a server, read leniently. An answer that cannot be understood is an error for its
//! request, since no other answer comes.

use std::borrow::Cow;

use longhaul_client::{repaired, unreadable_answer};
use longhaul_core::strict_json;
use longhaul_core::verbatim::{Object, changed, elements};
use rmcp::ErrorData;
use rmcp::model::{JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{questions, results};

/// A request that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) id: RequestId,
    pub(super) method: String,
}

/// The content of a text.
#[derive(Debug)]
pub(super) enum Incoming {
    Messages(Vec<ServerJsonRpcMessage>),
    /// The beginning of a message, perhaps.
    Begun,
    /// Nothing for the gateway.
    Noise,
}

/// Reads the output of one server.
#[derive(Clone, Debug)]
pub(super) struct Reader(String);

/// A message may begin at one of so many braces after other bytes: a prompt, an escape sequence, a word of a logger.
const BEGINNINGS_MAX: usize = 8;

/// The log shows so many characters of an answer that cannot be read.
const LOGGED_CHARACTERS: usize = 256;

impl Reader {
    pub(super) fn of(server: &str) -> Self {
        Self(server.to_owned())
    }

    /// The messages in a text, while these requests are open.
    pub(super) fn read(&self, text: &[u8], open: &[Open]) -> Incoming {
        if !text.contains(&b'{') {
            return Incoming::Noise;
        }
        if let Some(message) = plain(text, open) {
            return Incoming::Messages(vec![message]);
        }
        match (self.understand(text, open, Addressed::ById), message(text)) {
            // An answer to no request is noted by the code that counts such answers.
            (Incoming::Begun | Incoming::Noise, Some(message)) => Incoming::Messages(vec![message]),
            (understood, _) => understood,
        }
    }

    /// Whether a text is one message that `rmcp` can read, and loses nothing of.
    pub(super) fn is_plain(text: &[u8]) -> bool {
        matches!(message(text), Some(JsonRpcMessage::Notification(_)))
    }

    /// The messages in the body of the response to a request, which are all meant for it.
    pub(super) fn read_body(&self, text: &[u8], request: &Open) -> Vec<ServerJsonRpcMessage> {
        let open = std::slice::from_ref(request);
        if let Some(message) = plain(text, open) {
            return vec![message];
        }
        match self.understand(text, open, Addressed::ToRequest) {
            Incoming::Messages(messages) => messages,
            Incoming::Begun | Incoming::Noise => {
                vec![self.unreadable(text, request, &format!("it is not a message of MCP, but {}", beginning(text)))]
            }
        }
    }

    /// The end of a request whose answer has begun and does not become complete.
    pub(super) fn give_up(&self, text: &[u8], open: &[Open]) -> Option<ServerJsonRpcMessage> {
        let request = unreadable_answer(text).and_then(|id| find(Some(&id), open))?;
        Some(self.unreadable(text, request, "it is not complete"))
    }

    fn understand(&self, text: &[u8], open: &[Open], addressed: Addressed) -> Incoming {
        let repaired = repaired(text);
        let text = repaired.trim_start_matches('\u{feff}').trim();
        let is_whole = text.starts_with(['{', '[']);
        let beginnings = text.match_indices('{').map(|(at, _)| at).take(BEGINNINGS_MAX);
        for at in is_whole.then_some(0).into_iter().chain(beginnings) {
            let Some(rest) = text.get(at..) else { continue };
            let (values, error) = values(rest);
            let messages: Vec<_> =
                values.into_iter().filter_map(|text| self.understood(text, open, addressed)).collect();
            if !messages.is_empty() {
                return Incoming::Messages(messages);
            }
            let Some(error) = error else { continue };
            let answered = unreadable_answer(rest.as_bytes()).and_then(|id| find(Some(&id), open));
            match answered {
                _ if is_whole && error.is_eof() && addressed == Addressed::ById => return Incoming::Begun,
                Some(request) => {
                    let why = format!("it is not JSON: {error}");
                    return Incoming::Messages(vec![self.unreadable(rest.as_bytes(), request, &why)]);
                }
                None => {}
            }
        }
        Incoming::Noise
    }

    /// A message in the text of a value.
    fn understood(&self, text: &str, open: &[Open], addressed: Addressed) -> Option<ServerJsonRpcMessage> {
        let mut value: Value = strict_json::from_str(text).ok()?;
        let members = value.as_object_mut()?;
        for member in ["error", "params"] {
            if members.get(member).is_some_and(Value::is_null) {
                members.remove(member);
            }
        }
        if members.get("method").is_some_and(Value::is_string) {
            members.remove("result");
            members.insert("jsonrpc".to_owned(), json!("2.0"));
            let text = changed(text, members).ok()?;
            let is_question = Object::read(&text).is_ok_and(|text| questions::is_question(text.get("method")));
            let carried = is_question.then(|| questions::readable(&text)).flatten();
            return message(carried.unwrap_or(text).as_bytes());
        }
        let (id, is_rpc) = (members.get("id").filter(|id| !id.is_null()), members.contains_key("jsonrpc"));
        let request = match addressed {
            Addressed::ToRequest if is_rpc || id.is_some() => open.first(),
            // A line of a log may have an error too.
            _ if id.is_none() && !is_rpc => None,
            _ => find(id, open),
        }?;
        let (error, result) = (members.remove("error"), members.remove("result"));
        let written = |name| Object::read(text).ok().and_then(|text| text.get(name));
        match (error, result.and_then(|_read| written("result"))) {
            // Some programs write it next to a result.
            (Some(Value::Bool(false)), Some(result)) | (None, Some(result)) => Some(self.answer(request, result)),
            (Some(error), _) => {
                let error = results::error_data(error, written("error"));
                Some(ServerJsonRpcMessage::error(error, Some(request.id.clone())))
            }
            (None, None) if is_rpc => {
                let text = value.to_string();
                Some(self.unreadable(text.as_bytes(), request, "it has neither a result nor an error"))
            }
            (None, None) => None,
        }
    }

    /// The only open request and its end, if `answer` in `text` has an id that was never sent. No other answer may
    /// come.
    pub(super) fn misaddressed(
        &self,
        text: &[u8],
        answer: &ServerJsonRpcMessage,
        open: &[Open],
    ) -> Option<(RequestId, ServerJsonRpcMessage)> {
        let id = match answer {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => error.id.as_ref()?,
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return None,
        };
        if open.iter().any(|open| open.id == *id) {
            return None;
        }
        let shown: String = id.to_string().chars().take(LOGGED_CHARACTERS).collect();
        match open {
            [only] if !was_sent_before(id, &only.id) => {
                let why = format!("it has the id {shown}, and the request has the id {}", only.id);
                Some((only.id.clone(), self.unreadable(text, only, &why)))
            }
            [] | [_] => None,
            several => {
                let open = several.len();
                tracing::warn!(server = self.0, id = shown, open, "a server answers a request that was not sent");
                None
            }
        }
    }

    fn answer(&self, request: &Open, result: &str) -> ServerJsonRpcMessage {
        match results::read(&self.0, &request.method, result) {
            Ok(result) => ServerJsonRpcMessage::response(result, request.id.clone()),
            Err(why) => {
                tracing::warn!(server = self.0, method = request.method, why, "a server's answer cannot be read");
                let error = internal(format!("the answer of `{}` cannot be read: {why}", self.0));
                ServerJsonRpcMessage::error(error, Some(request.id.clone()))
            }
        }
    }

    /// The end of a request whose answer cannot be read.
    fn unreadable(&self, text: &[u8], request: &Open, why: &str) -> ServerJsonRpcMessage {
        let begins = beginning(text);
        tracing::warn!(server = self.0, method = request.method, why, begins, "a server's answer cannot be read");
        let error = internal(format!("the answer of `{}` cannot be read: {why}", self.0));
        ServerJsonRpcMessage::error(error, Some(request.id.clone()))
    }
}

/// The request that an answer is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Addressed {
    /// The answer has its id.
    ById,
    /// The request is the only one.
    ToRequest,
}

/// A message as it should be. A list would be read by position.
fn message(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    text.trim_ascii_start().starts_with(b"{").then(|| strict_json::from_slice(text).ok())?
}

/// A message in which nothing has to be repaired. A result has its text with it.
fn plain(text: &[u8], open: &[Open]) -> Option<ServerJsonRpcMessage> {
    let text = std::str::from_utf8(text).ok().filter(|text| !has_halves(text))?;
    let object = Object::read(text).ok()?;
    let asked = |id: &str| {
        let id: RequestId = strict_json::from_str(id).ok()?;
        open.iter().find(|open| open.id == id)
    };
    let answered = match (object.get("id"), object.get("result")) {
        (Some(id), Some(result)) if object.get("method").is_none() => asked(id).map(|request| (request, result)),
        _ => None,
    };
    if let Some((request, result)) = answered
        && object.get("error").is_none()
        && object.get("jsonrpc") == Some("\"2.0\"")
        && let Some(result) = results::unread(&request.method, result)
    {
        return result.ok().map(|result| ServerJsonRpcMessage::response(result, request.id.clone()));
    }
    let carried = questions::is_question(object.get("method")).then(|| questions::readable(text)).flatten();
    let text = carried.as_deref().unwrap_or(text);
    let mut message = message(text.as_bytes()).filter(|message| is_as_expected(message, open))?;
    match (&mut message, answered) {
        (JsonRpcMessage::Response(response), Some((_, text))) => results::add_text(&mut response.result, text),
        (JsonRpcMessage::Error(error), _) => results::add_data(&mut error.error, object.get("error")),
        _ => {}
    }
    Some(message)
}

/// Whether there may be half of a surrogate pair in a text.
fn has_halves(text: &str) -> bool {
    (text.contains("\\ud") || text.contains("\\uD")) && matches!(repaired(text.as_bytes()), Cow::Owned(_))
}

/// Whether nothing has to be repaired in a message.
fn is_as_expected(message: &ServerJsonRpcMessage, open: &[Open]) -> bool {
    let asked = |id: &RequestId| open.iter().find(|open| open.id == *id);
    match message {
        JsonRpcMessage::Response(response) => {
            asked(&response.id).is_some_and(|request| is_result_of(&request.method, &response.result))
        }
        JsonRpcMessage::Error(error) => error.id.as_ref().is_some_and(|id| asked(id).is_some()),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => true,
    }
}

fn is_result_of(method: &str, result: &ServerResult) -> bool {
    match method {
        "tools/call" => matches!(
            result,
            ServerResult::CallToolResult(_) | ServerResult::InputRequiredResult(_) | ServerResult::CreateTaskResult(_)
        ),
        "initialize" => matches!(result, ServerResult::InitializeResult(result)
            if ProtocolVersion::KNOWN_VERSIONS.contains(&result.protocol_version)),
        "server/discover" => matches!(result, ServerResult::DiscoverResult(_)),
        "tools/list" => matches!(result, ServerResult::ListToolsResult(_)),
        "prompts/list" => matches!(result, ServerResult::ListPromptsResult(_)),
        "resources/list" => matches!(result, ServerResult::ListResourcesResult(_)),
        "resources/templates/list" => matches!(result, ServerResult::ListResourceTemplatesResult(_)),
        _ => true,
    }
}

/// So many messages may be in one line.
const VALUES_MAX: usize = 64;

/// The values at the beginning of a text, unread, those in a list one by one, and why there are no more.
fn values(mut text: &str) -> (Vec<&str>, Option<serde_json::Error>) {
    let mut values = Vec::new();
    for _ in 0..VALUES_MAX {
        let (value, rest) = match strict_json::from_str::<IgnoredAny>(text) {
            Ok(_) => (text, ""),
            Err(error) => match split_before(text, &error) {
                Some(parts) => parts,
                None => return (values, Some(error)),
            },
        };
        match elements(value) {
            Ok(batch) => values.extend(batch),
            Err(_no_list) => values.push(value),
        }
        if rest.is_empty() {
            break;
        }
        text = rest;
    }
    (values, None)
}

/// The value before the place where an error says that more follows it, and what follows.
fn split_before<'t>(text: &'t str, error: &serde_json::Error) -> Option<(&'t str, &'t str)> {
    let line: usize = text.split_inclusive('\n').take(error.line().checked_sub(1)?).map(str::len).sum();
    let (value, rest) = text.split_at_checked(line + error.column().checked_sub(1)?)?;
    strict_json::from_str::<IgnoredAny>(value).ok().map(|_value| (value, rest))
}

/// The request that an answer with this id is for: without one, the only one.
fn find<'o>(id: Option<&Value>, open: &'o [Open]) -> Option<&'o Open> {
    match (id, open) {
        (Some(id), open) => open.iter().find(|open| is_same(&open.id, id)),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// Whether an id is repeated: some programs make a text of a number, or the other way round.
fn is_same(id: &RequestId, repeated: &Value) -> bool {
    let text = match repeated {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64().filter(|number| number.fract() == 0.0) {
            Some(whole) => format!("{whole:.0}"),
            None => return false,
        },
        _ => return false,
    };
    id.to_string() == text
}

/// Whether an answer repeats the id of an earlier request. The ids of a connection are consecutive numbers.
fn was_sent_before(repeated: &RequestId, id: &RequestId) -> bool {
    let repeated = match repeated {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    };
    matches!((repeated, id), (Some(repeated), RequestId::Number(id)) if (0..*id).contains(&repeated))
}

fn internal(why: String) -> ErrorData {
    ErrorData::internal_error(why, None)
}

pub(super) fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..4 * LOGGED_CHARACTERS).unwrap_or(text)).into_owned();
    let shown: String = text.trim().chars().filter(|next| !next.is_control()).take(LOGGED_CHARACTERS).collect();
    if shown.is_empty() { "nothing".to_owned() } else { format!("`{shown}`") }
}
