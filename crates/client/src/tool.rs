//! A tool as its server lists it, and names and arguments in headers, as revision `2026-07-28` has them. The headers
//! are `Mcp-Name`, and `Mcp-Param-*` for arguments whose schema has `x-mcp-header`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::form::type_in_words;

/// Whether a tool may be called as a task, in revision `2025-11-25`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSupport {
    /// Only without one.
    Forbidden,
    /// With one or without.
    Optional,
    /// Only with one.
    Required,
}

/// A tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// All that the server says about it.
    pub raw: Value,
}

impl Tool {
    /// A tool as a list has it; `None` if it has no name.
    #[must_use]
    pub fn read(raw: &Value) -> Option<Self> {
        Some(Self { name: raw["name"].as_str()?.to_owned(), raw: raw.clone() })
    }

    /// Its description, in the server's words.
    #[must_use]
    pub fn description(&self) -> &str {
        self.raw["description"].as_str().unwrap_or_default()
    }

    /// The schema of its arguments.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.raw["inputSchema"]
    }

    /// Its arguments with their types, such as `seconds: number, steps?: integer`.
    #[must_use]
    pub fn arguments(&self) -> String {
        let schema = self.schema();
        let required = schema["required"].as_array();
        let argument = |(name, property): (&String, &Value)| {
            let mark = if required.is_some_and(|all| all.iter().any(|one| one == name)) { "" } else { "?" };
            format!("{name}{mark}: {}", type_in_words(property, schema))
        };
        let all: Vec<String> = schema["properties"].as_object().into_iter().flatten().map(argument).collect();
        all.join(", ")
    }

    /// Whether it may be called as a task, in revision `2025-11-25`.
    #[must_use]
    pub fn task_support(&self) -> TaskSupport {
        match self.raw.pointer("/execution/taskSupport").and_then(Value::as_str) {
            Some("required") => TaskSupport::Required,
            Some("optional") => TaskSupport::Optional,
            _ => TaskSupport::Forbidden,
        }
    }

    /// Whether a second call does no harm, as the server says.
    #[must_use]
    pub fn may_be_repeated(&self) -> bool {
        let hints = &self.raw["annotations"];
        ["readOnlyHint", "idempotentHint"].iter().any(|hint| hints[hint] == Value::Bool(true))
    }
}

/// The arguments of one tool that its server wants in headers too: `Mcp-Param-*` (revision `2026-07-28`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolHeaders(Vec<Param>);

/// One argument that goes into a header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Param {
    /// The names of properties that lead to it.
    path: Vec<String>,
    header: HeaderName,
}

impl ToolHeaders {
    /// The rules of a tool's schema: only about properties that are reached through `properties` alone.
    #[must_use]
    pub fn of(schema: &Map<String, Value>) -> Self {
        let mut params = Vec::new();
        // Those that are left to look at. A schema is a tree, so that this ends.
        let mut open = vec![(Vec::new(), schema)];
        while let Some((path, schema)) = open.pop() {
            let properties = schema.get("properties").and_then(Value::as_object);
            let properties = properties.into_iter().flatten();
            for (name, schema) in properties.filter_map(|(name, schema)| Some((name, schema.as_object()?))) {
                let path: Vec<String> = path.iter().chain([name]).cloned().collect();
                let header = schema.get("x-mcp-header").and_then(Value::as_str);
                let header = header.and_then(|name| format!("mcp-param-{name}").parse().ok());
                params.extend(header.map(|header| Param { path: path.clone(), header }));
                open.push((path, schema));
            }
        }
        Self(params)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers of a call: of those arguments that are given.
    pub fn of_call(&self, arguments: &Map<String, Value>) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.0.iter().filter_map(|param| param.of(arguments))
    }
}

impl Param {
    /// The header; none if the argument does not exist.
    fn of(&self, arguments: &Map<String, Value>) -> Option<(HeaderName, HeaderValue)> {
        let (first, rest) = self.path.split_first()?;
        let value = rest.iter().try_fold(arguments.get(first)?, |value, name| value.get(name))?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((self.header.clone(), encoded(&text)))
    }
}

/// The value as a header carries it: in base64 if it could not be read back otherwise.
#[must_use]
pub fn encoded(text: &str) -> HeaderValue {
    let blank = |character| [' ', '\t'].contains(&character);
    let is_plain = text.chars().all(|character| matches!(character, ' '..='~'));
    let is_marked = text.starts_with("=?base64?") && text.ends_with("?=");
    let plain = Some(text).filter(|_| is_plain && !is_marked && !text.starts_with(blank) && !text.ends_with(blank));
    let plain = plain.and_then(|text| HeaderValue::from_str(text).ok());
    let marked = || HeaderValue::from_str(&format!("=?base64?{}?=", BASE64_STANDARD.encode(text)));
    // Base64 is ASCII, which is always a header.
    plain.or_else(|| marked().ok()).unwrap_or_else(|| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_sent_as_headers_where_the_schema_says_so() {
        let schema = serde_json::json!({"properties": {
            "region": {"x-mcp-header": "Region"}, "plain": {}, "absent": {"x-mcp-header": "Absent"},
            "inner": {"properties": {"city": {"x-mcp-header": "City"}}}
        }});
        let arguments = serde_json::json!({"region": "eu", "plain": "x", "inner": {"city": "Zürich"}});
        let headers = ToolHeaders::of(schema.as_object().unwrap());
        let mut seen: Vec<_> = headers
            .of_call(arguments.as_object().unwrap())
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        seen.sort();
        assert_eq!(seen, ["mcp-param-city: =?base64?WsO8cmljaA==?=", "mcp-param-region: eu"]);
    }
}
