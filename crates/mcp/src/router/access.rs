//! The scopes that a message needs, by its method and the tools that it names, in all protocol versions. Only this
//! module decides it, before any protocol version or tool sees the message, and without reading the task.

use std::collections::BTreeSet;

use http::{Response, StatusCode};
use longhaul_core::{MissingScopes, Principal, Scopes};
use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde_json::value::RawValue;

use crate::Body;
use crate::protocol_version::Endpoint;
use crate::reply::{self, json};
use crate::request::incoming::Message;
use crate::request::params::Members;
use crate::settings::NeededScopes;
use crate::views::job::JobTool;

/// How the URIs of resources begin that show tasks.
const TASK_RESOURCES: &str = "longhaul://tasks/";

/// A refusal: what the request needs, and what its caller lacks.
pub(super) struct Denied {
    needed: BTreeSet<String>,
    missing: MissingScopes,
}

pub(super) struct Gate<'a>(pub(super) &'a Endpoint);

impl Gate<'_> {
    fn scopes(&self) -> &NeededScopes {
        &self.0.shared().settings.scopes
    }

    /// Whether the caller lacks scopes for one of these messages, which were sent together.
    pub(super) fn denies<'m>(
        &self,
        caller: &Principal,
        messages: impl IntoIterator<Item = &'m Message<'m>>,
    ) -> Option<Denied> {
        if caller.scopes == Scopes::Unrestricted || self.0.shared().needs_no_scopes() {
            return None;
        }
        self.unless_granted(caller, messages.into_iter().flat_map(|message| self.needed(message)).collect())
    }

    /// Whether the caller lacks scopes to resume a stream.
    pub(super) fn denies_reading(&self, caller: &Principal) -> Option<Denied> {
        self.unless_granted(caller, self.scopes().read.clone())
    }

    fn unless_granted(&self, caller: &Principal, needed: BTreeSet<String>) -> Option<Denied> {
        let missing = missing(self.scopes(), caller, &needed)?;
        Some(Denied { needed, missing })
    }

    fn needed(&self, message: &Message<'_>) -> BTreeSet<String> {
        match message {
            Message::Request { method, params, .. } | Message::Notification { method, params } => {
                self.needed_by_method(method, *params)
            }
            // The answer to a question.
            Message::Reply { .. } => self.scopes().call.clone(),
        }
    }

    fn needed_by_method(&self, method: &str, params: Option<&RawValue>) -> BTreeSet<String> {
        let NeededScopes { call, read, cancel, .. } = self.scopes();
        match method {
            "tools/call" | "tools/async/call" => self.needed_by_call(&NamedThings::by(params)),
            "tasks/update" | "dev.longhaul/tasks/resume" => call.clone(),
            "tasks/get"
            | "tasks/list"
            | "tasks/result"
            | "dev.longhaul/tasks/inspect"
            | "dev.longhaul/tasks/list"
            | "subscriptions/listen"
            | "tools/async/get"
            | "tools/async/join"
            | "tools/async/result"
            | "tools/async/status" => read.clone(),
            "resources/read" if NamedThings::by(params).texts.iter().any(|uri| uri.starts_with(TASK_RESOURCES)) => {
                read.clone()
            }
            "tasks/cancel" | "tools/async/cancel" | "notifications/cancelled" => cancel.clone(),
            _ => BTreeSet::new(),
        }
    }

    /// A job tool needs the scopes of its method. A call that names several tools, in any places, needs the scopes of
    /// all.
    fn needed_by_call(&self, said: &NamedThings) -> BTreeSet<String> {
        let scopes = self.scopes();
        let mut needed = if said.is_unreadable { scopes.all() } else { BTreeSet::new() };
        let mut is_about_jobs = false;
        for name in &said.texts {
            match JobTool::named(name).filter(|_| !self.0.backend().has_tool(name)) {
                Some(tool) => {
                    is_about_jobs = true;
                    needed.extend(tool.scopes(self.0.shared()).iter().cloned());
                }
                None => needed.extend(self.0.shared().scopes_of_call(name)),
            }
        }
        if !is_about_jobs || said.has_answers {
            needed.extend(scopes.call.iter().cloned());
        }
        needed
    }
}

impl Denied {
    /// The answer to the message with this id, the same in every protocol version.
    pub(super) fn answer(self, id: Option<&RequestId>) -> Response<Body> {
        let error = self.error();
        self.refusing(reply::error_with(StatusCode::FORBIDDEN, id, &error))
    }

    /// The answer to a batch, of which nothing is done: an error for each of its requests.
    pub(super) fn answer_to_batch(self, messages: &[Message<'_>]) -> Response<Body> {
        let error = self.error();
        let ids = messages.iter().filter_map(Message::id);
        let errors: Vec<String> = ids.map(|id| reply::error_text(Some(id), &error)).collect();
        if errors.is_empty() {
            return self.answer(None);
        }
        self.refusing(json(StatusCode::FORBIDDEN, format!("[{}]", errors.join(","))))
    }

    fn error(&self) -> ErrorData {
        let needed = self.needed.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let message = format!("insufficient scope: this request needs a token with the scopes `{needed}`");
        ErrorData::invalid_request(message, Some(serde_json::json!({"error": "insufficient_scope", "scope": needed})))
    }

    fn refusing(self, mut answer: Response<Body>) -> Response<Body> {
        answer.extensions_mut().insert(self.missing);
        answer
    }
}

/// The names in the parameters that scopes depend on. Readers of parameters differ in whether a name may be inside of
/// `request`. All values that one of them could read as the name of a tool, or a URI, are collected.
#[derive(Default)]
struct NamedThings {
    texts: BTreeSet<String>,
    has_answers: bool,
    is_unreadable: bool,
}

impl NamedThings {
    fn by(params: Option<&RawValue>) -> Self {
        let mut said = Self::default();
        if let Some(nested) = params.and_then(|params| said.read(params)) {
            said.read(nested);
        }
        said
    }

    /// Reads one object; returns what may be the parameters inside of it.
    fn read<'a>(&mut self, value: &'a RawValue) -> Option<&'a RawValue> {
        if !value.get().starts_with('{') {
            return None;
        }
        let Ok(members) = Members::read(Some(value)) else {
            self.is_unreadable = true;
            return None;
        };
        self.texts.extend(["name", "uri"].into_iter().filter_map(|member| members.text(member)));
        self.has_answers |= members.get("inputResponses").is_some();
        members.get("request")
    }
}

/// The `needed` scopes that the caller lacks; `None` if it has all.
fn missing(scopes: &NeededScopes, caller: &Principal, needed: &BTreeSet<String>) -> Option<MissingScopes> {
    let has = |scope: &String| caller.scopes.contain(scope);
    let missing: BTreeSet<String> = needed.iter().filter(|scope| !has(scope)).cloned().collect();
    let wanted = || scopes.all().into_iter().filter(has).chain(needed.iter().cloned()).collect();
    if missing.is_empty() { None } else { Some(MissingScopes { missing, wanted: wanted() }) }
}
