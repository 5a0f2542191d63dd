//! The parameters of requests: which members each method has, and reading them.
//!
//! Clients write an absent member in several ways: some languages write an empty list for an empty map, others `null`.
//! Both are read as absent. Capabilities of an unknown shape are also read as absent. A member that a method needs is
//! never guessed, and the refusal names it.

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use longhaul_core::{limits, strict_json};
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, Icon};
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use crate::request::meta::{Meta, capabilities};
use crate::revision::{Generation, NEXT};

/// The members of an object, in their order. No name is there twice: readers differ in which of the two counts.
pub(crate) struct Members<'a>(IndexMap<Cow<'a, str>, &'a RawValue>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EachOnce)
    }
}

struct EachOnce;

impl<'de> Visitor<'de> for EachOnce {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = IndexMap::new();
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format!("`{}` is there twice", limits::cut(&name, SHOWN_BYTES_MAX))));
            }
            members.insert(name, map.next_value()?);
        }
        Ok(Members(members))
    }
}

/// Bytes of a name that a refusal repeats.
const SHOWN_BYTES_MAX: usize = 64;

/// A name, which is borrowed if nothing in it is escaped.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The type that a member must have.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Object,
    /// An object with these members.
    Of(&'static [Member]),
    /// A client's capabilities. Those of an unknown shape are left out.
    Capabilities,
    Icons,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    /// It may be left out.
    Optional,
    /// It is left out if it does not fit.
    IfItFits,
    /// The reader of a draft checks it.
    CheckedElsewhere,
}

use Kind::{Capabilities, Icons, Object, Of, Text};
use Need::{CheckedElsewhere, IfItFits, Optional, Required};

struct Member(&'static str, Kind, Need);

const IMPLEMENTATION: &[Member] = &[
    Member("name", Text, Required),
    Member("version", Text, Required),
    Member("title", Text, IfItFits),
    Member("description", Text, IfItFits),
    Member("websiteUrl", Text, IfItFits),
    Member("icons", Icons, IfItFits),
];

const PAGE: &[Member] = &[Member("cursor", Text, IfItFits)];

/// The answers that a later round of a request brings.
const ANSWERS: Member = Member("inputResponses", Object, Optional);
const STATE: Member = Member("requestState", Text, Optional);

/// The members of a method's parameters, without `_meta`.
fn members_of(method: &str, revision: &str) -> &'static [Member] {
    match method {
        "initialize" => &[
            Member("protocolVersion", Text, Required),
            Member("capabilities", Capabilities, Required),
            Member("clientInfo", Of(IMPLEMENTATION), Required),
        ],
        // The draft's own example has name and arguments elsewhere.
        "tools/call" if revision == NEXT => &[
            Member("name", Text, Optional),
            Member("arguments", Object, Optional),
            Member("operation", Object, CheckedElsewhere),
            ANSWERS,
            STATE,
        ],
        "tools/call" => &[
            Member("name", Text, Required),
            Member("arguments", Object, Optional),
            Member("task", Object, Optional),
            ANSWERS,
            STATE,
        ],
        "tools/async/call" if !is_per_request(revision) => {
            &[Member("name", Text, Required), Member("arguments", Object, CheckedElsewhere)]
        }
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" | "skills/list" => PAGE,
        "prompts/get" => &[Member("name", Text, Required), Member("arguments", Object, Optional), ANSWERS, STATE],
        "resources/read" => &[Member("uri", Text, Required), ANSWERS, STATE],
        "resources/subscribe" | "resources/unsubscribe" | "skills/get" | "resources/directory/read" => {
            &[Member("uri", Text, Required)]
        }
        "completion/complete" => &[
            Member("ref", Of(&[Member("type", Text, Required)]), Required),
            Member("argument", Of(&[Member("name", Text, Required), Member("value", Text, Required)]), Required),
            Member("context", Of(&[Member("arguments", Object, IfItFits)]), IfItFits),
        ],
        "logging/setLevel" => &[Member("level", Text, Required)],
        "tasks/get" | "tasks/cancel" if has_tasks(revision) => &[Member("taskId", Text, Required)],
        "tasks/result" if revision == "2025-11-25" => &[Member("taskId", Text, Required)],
        "tasks/update" if is_per_request(revision) => {
            &[Member("taskId", Text, Required), Member("inputResponses", Object, Required)]
        }
        "subscriptions/listen" if is_per_request(revision) => &[Member("notifications", Object, Required)],
        _ => &[],
    }
}

fn is_per_request(revision: &str) -> bool {
    Generation::of_version(Some(revision)) == Generation::PerRequest
}

fn has_tasks(revision: &str) -> bool {
    revision == "2025-11-25" || is_per_request(revision)
}

/// How a member is read.
enum Fit {
    AsItIs,
    LeftOut,
    As(Box<RawValue>),
}

impl<'a> Members<'a> {
    /// The members of an object, empty if it is absent. Fails with `-32602` if a member is there twice.
    pub(crate) fn read(params: Option<&'a RawValue>) -> Result<Self, ErrorData> {
        let Some(params) = params else { return Ok(Self(IndexMap::new())) };
        strict_json::from_str(params.get())
            .map_err(|error| ErrorData::invalid_params(format!("the parameters are not valid: {error}"), None))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// The text of a member; `None` if there is none, or it is not a text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        strict_json::from_str(self.get(name)?.get()).ok()
    }

    pub(crate) fn meta(&self) -> Meta<'a> {
        Meta::read(self.get("_meta"))
    }

    /// All but `_meta` as a type. Fails with `-32602`.
    pub(crate) fn read_as<T: DeserializeOwned>(&self, method: &str) -> Result<T, ErrorData> {
        let members = self.0.iter().filter(|(name, _)| *name != "_meta").map(|(name, member)| (&**name, *member));
        T::deserialize(MapDeserializer::<_, serde_json::Error>::new(members)).map_err(|error| malformed(method, &error))
    }

    /// The parameters of a request, without the members that are read as absent; `None` if that changes nothing. Fails
    /// with `-32602` and the name of the member if one is missing, or has another type.
    pub(crate) fn tidied(&self, method: &str, revision: &str) -> Result<Option<Box<RawValue>>, ErrorData> {
        self.fitted(&Place { method, path: "" }, members_of(method, revision), true)
    }

    fn fitted(
        &self,
        place: &Place<'_>,
        expected: &[Member],
        may_have_meta: bool,
    ) -> Result<Option<Box<RawValue>>, ErrorData> {
        let meta = Member("_meta", Object, IfItFits);
        let expected = expected.iter().chain(may_have_meta.then_some(&meta));
        let mut changed: Vec<(&str, Option<Box<RawValue>>)> = Vec::new();
        for member in expected {
            match member.fit(place, self.get(member.0))? {
                Fit::AsItIs => {}
                Fit::LeftOut => changed.push((member.0, None)),
                Fit::As(other) => changed.push((member.0, Some(other))),
            }
        }
        if changed.is_empty() { Ok(None) } else { self.with(&changed).map(Some) }
    }

    /// The object with these members changed.
    fn with(&self, changed: &[(&str, Option<Box<RawValue>>)]) -> Result<Box<RawValue>, ErrorData> {
        let mut members: IndexMap<&str, &RawValue> = self.0.iter().map(|(name, member)| (&**name, *member)).collect();
        for (name, other) in changed {
            match other {
                Some(other) => drop(members.insert(name, other)),
                None => drop(members.shift_remove(name)),
            }
        }
        serde_json::value::to_raw_value(&members)
            .map_err(|error| ErrorData::internal_error(format!("the parameters could not be written: {error}"), None))
    }
}

/// Where a member is.
struct Place<'a> {
    method: &'a str,
    /// The names of the members around it, each with a point.
    path: &'a str,
}

impl Member {
    fn fit(&self, place: &Place<'_>, given: Option<&RawValue>) -> Result<Fit, ErrorData> {
        let Self(name, kind, need) = *self;
        let Some(given) = given.filter(|given| given.get() != "null") else {
            return match (need, given) {
                (Required, _) => Err(self.missing(place)),
                (CheckedElsewhere, Some(_)) | (_, None) => Ok(Fit::AsItIs),
                (Optional | IfItFits, Some(_)) => Ok(Fit::LeftOut),
            };
        };
        let text = given.get();
        let fits = match kind {
            Text => text.starts_with('"'),
            Icons => strict_json::from_str::<Vec<Icon>>(text).is_ok(),
            Object | Capabilities | Of(_) if is_empty_list(text) => {
                let empty = RawValue::from_string("{}".to_owned()).map_err(|error| malformed(place.method, &error))?;
                return match self.inside(place, &empty)? {
                    Fit::AsItIs => Ok(Fit::As(empty)),
                    other @ (Fit::LeftOut | Fit::As(_)) => Ok(other),
                };
            }
            Object | Capabilities | Of(_) => text.starts_with('{'),
        };
        match need {
            _ if fits => self.inside(place, given),
            CheckedElsewhere => Ok(Fit::AsItIs),
            IfItFits => Ok(Fit::LeftOut),
            Required | Optional => {
                let (path, method) = (place.path, place.method);
                let message = format!("`{path}{name}` in the params of {method} must be {}", kind.in_words());
                Err(ErrorData::invalid_params(message, None))
            }
        }
    }

    /// Checks the members inside of an object.
    fn inside(&self, place: &Place<'_>, object: &RawValue) -> Result<Fit, ErrorData> {
        match self.1 {
            Text | Object | Icons => Ok(Fit::AsItIs),
            Of(members) => {
                let path = format!("{}{}.", place.path, self.0);
                let fitted = Members::read(Some(object))?.fitted(&Place { path: &path, ..*place }, members, false)?;
                Ok(fitted.map_or(Fit::AsItIs, Fit::As))
            }
            Capabilities if strict_json::from_str::<ClientCapabilities>(object.get()).is_ok() => Ok(Fit::AsItIs),
            Capabilities => {
                let fitting = strict_json::from_str(object.get()).ok().and_then(capabilities);
                serde_json::value::to_raw_value(&fitting.unwrap_or_else(|| json!({})))
                    .map(Fit::As)
                    .map_err(|error| malformed(place.method, &error))
            }
        }
    }

    fn missing(&self, Place { method, path }: &Place<'_>) -> ErrorData {
        let message =
            format!("`{path}{}` is missing in the params of {method}: it must be {}", self.0, self.1.in_words());
        ErrorData::invalid_params(message, None)
    }
}

impl Kind {
    const fn in_words(self) -> &'static str {
        match self {
            Text => "a string",
            Icons => "a list of icons",
            Object | Of(_) | Capabilities => "an object",
        }
    }
}

/// Whether this is a list without elements.
pub(crate) fn is_empty_list(text: &str) -> bool {
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|inside| inside.trim_ascii().is_empty())
}

fn malformed(method: &str, error: &serde_json::Error) -> ErrorData {
    ErrorData::invalid_params(format!("the params of {method} are malformed: {error}"), None)
}

#[cfg(test)]
mod tests;
