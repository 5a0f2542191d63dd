//! The `_meta` of a request. The revision and the capabilities that a request of `2026-07-28` declares are read at
//! once, and the rest on demand.

use longhaul_core::strict_json;
use longhaul_core::verbatim::Object;
use rmcp::model::{ClientCapabilities, JsonObject, ProtocolVersion, RequestMetaObject};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The member with the capabilities of a client, since `2026-07-28`.
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The member with its revision.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The levels of capabilities of which single members are left out: `experimental`, its members, and theirs.
const FITTING_DEPTH: u32 = 3;

/// The `_meta` of a request; empty if there is none, or one that is not an object.
#[derive(Default)]
pub(crate) struct Meta<'a> {
    given: Option<&'a RawValue>,
    revision: Option<ProtocolVersion>,
    declared: Option<ClientCapabilities>,
    /// The readable members of the declared capabilities, if others are not.
    fitting: Option<Value>,
}

impl<'a> Meta<'a> {
    pub(super) fn read(given: Option<&'a RawValue>) -> Self {
        let members = given.and_then(|given| Object::read(given.get()).ok());
        let Some(members) = members else { return Self::default() };
        let revision = members.get(PROTOCOL_VERSION).and_then(|revision| strict_json::from_str(revision).ok());
        let (declared, fitting) = members.get(CLIENT_CAPABILITIES).map_or((None, None), read_capabilities);
        Self { given, revision, declared, fitting }
    }

    /// The revision that the request names.
    pub(crate) const fn revision(&self) -> Option<&ProtocolVersion> {
        self.revision.as_ref()
    }

    /// The capabilities that the request declares.
    pub(crate) const fn declared(&self) -> Option<&ClientCapabilities> {
        self.declared.as_ref()
    }

    /// The text of all members.
    pub(crate) fn text(&self) -> Option<&'a str> {
        self.given.map(RawValue::get)
    }

    /// The text of a member, which is JSON. Each call reads it again.
    pub(crate) fn member(&self, name: &str) -> Option<&'a str> {
        Object::read(self.given?.get()).ok()?.get(name)
    }

    /// All members. Each call reads them again.
    pub(crate) fn whole(&self) -> RequestMetaObject {
        let read = self.given.and_then(|given| strict_json::from_str::<JsonObject>(given.get()).ok());
        let mut members = read.unwrap_or_default();
        if let (Some(fitting), Some(given)) = (&self.fitting, members.get_mut(CLIENT_CAPABILITIES)) {
            given.clone_from(fitting);
        }
        members.into()
    }
}

/// The capabilities, and their readable members if others are not.
fn read_capabilities(given: &str) -> (Option<ClientCapabilities>, Option<Value>) {
    let declared = if given.starts_with('{') { strict_json::from_str(given).ok() } else { None };
    if declared.is_some() {
        return (declared, None);
    }
    let fitting = strict_json::from_str(given).ok().and_then(capabilities);
    (fitting.as_ref().and_then(|fitting| ClientCapabilities::deserialize(fitting).ok()), fitting)
}

/// The readable members of `declared`; `None` if it is not an object.
pub(super) fn capabilities(declared: Value) -> Option<Value> {
    fitting(declared, FITTING_DEPTH, &|part| ClientCapabilities::deserialize(part).is_ok())
}

/// The largest part of `value` that fits when members are left out.
fn fitting(value: Value, depth: u32, fits: &dyn Fn(&Value) -> bool) -> Option<Value> {
    let is_list = value.as_array().is_some_and(Vec::is_empty);
    let value = if is_list { json!({}) } else { value };
    if value.is_object() && fits(&value) {
        return Some(value);
    }
    let Value::Object(members) = value else { return Some(value).filter(|value| fits(value)) };
    if depth == 0 {
        return None;
    }
    let mut kept = Map::new();
    for (name, member) in members {
        let alone = |member: &Value| fits(&Value::Object(Map::from_iter([(name.clone(), member.clone())])));
        if let Some(member) = fitting(member, depth - 1, &alone) {
            kept.insert(name, member);
        }
    }
    Some(Value::Object(kept)).filter(|kept| fits(kept))
}
