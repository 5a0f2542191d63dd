//! JSON text that passes unchanged. A value that is read and written again has other digits, escapes and spaces. So a
//! value that is only passed on is kept as text, and only the members that have to change are changed in it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::strict_json;

/// A key in the `_meta` of a result, or of one element of a list. Its value is the text that is sent instead. The key
/// never leaves the program.
pub const KEY: &str = "dev.longhaul/verbatim";

/// A value that is written as `text`. It is the value itself if that is written so anyway.
///
/// # Errors
/// If the text is not JSON.
pub fn written_as(text: &str) -> Result<Value, serde_json::Error> {
    let value: Value = strict_json::from_str(text)?;
    let written = value.to_string();
    let is_plain = written == text && !text.contains(KEY);
    let marked = || Value::Object(Map::from_iter([(KEY.to_owned(), in_one_line(text).into())]));
    Ok(if is_plain { value } else { marked() })
}

/// The text of a value that may be [written as](written_as) another one.
#[must_use]
pub fn text_of(value: &Value) -> Cow<'_, str> {
    let own = value.as_object().filter(|members| members.len() == 1).and_then(|members| members.get(KEY)?.as_str());
    // Any other text could change what is around it.
    let own = own.filter(|own| strict_json::from_str::<IgnoredAny>(own).is_ok());
    own.map_or_else(|| value.to_string().into(), in_one_line)
}

/// The members of an object, where its text has them.
#[derive(Debug)]
pub struct Object<'t> {
    text: &'t str,
    members: Vec<(Cow<'t, str>, &'t str)>,
}

impl<'t> Object<'t> {
    /// Finds the members of an object.
    ///
    /// # Errors
    /// If the text is not a JSON object.
    pub fn read(text: &'t str) -> Result<Self, serde_json::Error> {
        let Found(members) = strict_json::from_str(text)?;
        Ok(Self { text, members })
    }

    /// The text of a member. The last of several with one name counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'t str> {
        self.members.iter().rev().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// All members, in their order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &'t str)> {
        self.members.iter().map(|(name, value)| (&**name, *value))
    }

    /// The text of the object, in which a member has another value. A new member is the last one.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> String {
        let mut text = String::with_capacity(self.text.len() + name.len() + value.len() + 4);
        if let Some(old) = self.get(name) {
            let (from, to) = self.span(old);
            text.push_str(self.text.get(..from).unwrap_or_default());
            text.push_str(value);
            text.push_str(self.text.get(to..).unwrap_or_default());
            return text;
        }
        let end = self.text.rfind('}').unwrap_or(self.text.len());
        text.push_str(self.text.get(..end).unwrap_or_default());
        if !self.members.is_empty() {
            text.push(',');
        }
        text.push_str(&Value::from(name).to_string());
        text.push(':');
        text.push_str(value);
        text.push_str(self.text.get(end..).unwrap_or_default());
        text
    }

    /// The text of the object without a member, if it has it.
    #[must_use]
    pub fn without(&self, name: &str) -> String {
        let mut kept = String::with_capacity(self.text.len());
        let space = |text: &str| text.len() - text.trim_ascii_start().len();
        let begin = self.text.find('{').map_or(0, |at| at + 1);
        // From the end of the value before a member to the end of its own.
        let (mut from, mut is_first) = (begin + self.text.get(begin..).map_or(0, space), true);
        kept.push_str(self.text.get(..from).unwrap_or_default());
        for (other, value) in &self.members {
            let (_, to) = self.span(value);
            let mut member = self.text.get(from..to).unwrap_or_default();
            from = to;
            if other == name {
                continue;
            }
            if is_first {
                member = member.trim_ascii_start();
                member = member.strip_prefix(',').unwrap_or(member).trim_ascii_start();
            }
            kept.push_str(member);
            is_first = false;
        }
        kept.push_str(self.text.get(from..).unwrap_or_default());
        kept
    }

    /// Where a value is in the text.
    fn span(&self, value: &str) -> (usize, usize) {
        let from = value.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        (from, from + value.len())
    }
}

/// The members of an object, with those that have one name.
struct Found<'t>(Vec<(Cow<'t, str>, &'t str)>);

impl<'de> Deserialize<'de> for Found<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfMembers)
    }
}

struct OfMembers;

impl<'de> Visitor<'de> for OfMembers {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found<'de>, A::Error> {
        let mut found = Vec::new();
        while let Some(Name(name)) = members.next_key()? {
            let value: &RawValue = members.next_value()?;
            found.push((name, value.get()));
        }
        Ok(Found(found))
    }
}

/// A name, borrowed unless something in it is escaped.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'t>(#[serde(borrow)] Cow<'t, str>);

/// The text of an object that has these members now. Unchanged members stay as they were written.
///
/// # Errors
/// If the text is not a JSON object.
pub fn changed(text: &str, members: &Map<String, Value>) -> Result<String, serde_json::Error> {
    let own: Map<String, Value> = strict_json::from_str(text)?;
    let mut text = text.to_owned();
    for name in own.keys().filter(|name| !members.contains_key(*name)) {
        text = Object::read(&text)?.without(name);
    }
    for (name, value) in members.iter().filter(|(name, value)| own.get(*name) != Some(*value)) {
        text = Object::read(&text)?.with(name, &value.to_string());
    }
    Ok(text)
}

/// Whether a JSON text has escapes or exponents. These may have another form after it was read and written again.
#[must_use]
pub fn has_other_forms(text: &str) -> bool {
    let is_exponent = |two: &[u8]| matches!(two, [digit, b'e' | b'E'] if digit.is_ascii_digit());
    // Without escapes, each quotation mark begins or ends a string.
    text.contains('\\') || text.split('"').step_by(2).any(|outside| outside.as_bytes().windows(2).any(is_exponent))
}

/// The text of a request, in whose parameters [`KEY`] is the text of the parameters. `None` if it has none.
#[must_use]
pub fn carrying(request: &str) -> Option<String> {
    let whole = Object::read(request).ok()?;
    let text = whole.get("params")?;
    let params = Object::read(text).ok()?;
    let meta = Object::read(params.get("_meta").filter(|meta| meta.starts_with('{')).unwrap_or("{}")).ok()?;
    let meta = meta.with(KEY, &Value::from(in_one_line(text)).to_string());
    Some(whole.with("params", &params.with("_meta", &meta)))
}

/// The same for a question whose parameters cannot be read: they say only what kind of question it is.
#[must_use]
pub fn carrying_alone(request: &str) -> Option<String> {
    let whole = Object::read(request).ok()?;
    let text = whole.get("params").unwrap_or("{}");
    let params = Object::read(text).ok();
    let is_url = params.as_ref().is_some_and(|params| params.get("mode") == Some("\"url\""));
    let kind = match whole.get("method")? {
        r#""elicitation/create""# if is_url => r#"{"mode":"url","message":"","url":"","elicitationId":""}"#,
        r#""elicitation/create""# => r#"{"message":"","requestedSchema":{"type":"object","properties":{}}}"#,
        r#""sampling/createMessage""# => r#"{"messages":[],"maxTokens":1}"#,
        _ => "{}",
    };
    let meta = format!(r#"{{"{KEY}":{}}}"#, Value::from(in_one_line(text)));
    Some(whole.with("params", &Object::read(kind).ok()?.with("_meta", &meta)))
}

/// Takes the text out of the parameters of a request that [carries](carrying) it.
pub fn take_params(request: &mut Value) -> Option<String> {
    let text = request.get_mut("params")?.get_mut("_meta")?.as_object_mut()?.shift_remove(KEY)?;
    text.as_str().map(str::to_owned)
}

/// The text of a request. Its parameters are the text that it [carries](carrying), if it carries one.
#[must_use]
pub fn request_text(mut request: Value) -> String {
    let text = take_params(&mut request);
    let written = request.to_string();
    let with = text.and_then(|text| Some(Object::read(&written).ok()?.with("params", &text)));
    with.unwrap_or(written)
}

/// A message with these parameters. Unchanged members of the parameters stay as `text` has them.
#[must_use]
pub fn with_params(message: String, text: Option<&str>, params: &Map<String, Value>) -> String {
    let text = text.and_then(|text| changed(text, params).ok());
    let written = text.and_then(|text| Some(Object::read(&message).ok()?.with("params", &text)));
    written.unwrap_or(message)
}

/// The elements of a list.
///
/// # Errors
/// If the text is not a JSON list.
pub fn elements(text: &str) -> Result<Vec<&str>, serde_json::Error> {
    let elements: Vec<&RawValue> = strict_json::from_str(text)?;
    Ok(elements.into_iter().map(RawValue::get).collect())
}

/// A JSON text in one line: a line break in JSON is never inside a string.
#[must_use]
pub fn in_one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) { Cow::Owned(text.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(text) }
}

/// A JSON text without the spaces between its parts, or with one part in each line. All parts stay as they are.
#[must_use]
pub fn laid_out(text: &str, layout: Layout) -> String {
    let (mut out, mut depth) = (String::with_capacity(text.len()), 0_usize);
    let mut rest = text.trim_ascii_start();
    let new_line = |out: &mut String, depth: usize| {
        if layout == Layout::Lines {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str("  "));
        }
    };
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_bytes(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            _ => rest.find(|next: char| next.is_ascii_whitespace() || "{[}],:\"".contains(next)).unwrap_or(rest.len()),
        };
        let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after.trim_ascii_start();
        match first {
            '{' | '[' => {
                out.push(first);
                if !rest.starts_with(['}', ']']) {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    new_line(&mut out, depth);
                }
                out.push(first);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' if layout == Layout::Lines => out.push_str(": "),
            _ => out.push_str(part),
        }
    }
    out
}

/// The spaces of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// None.
    Compact,
    /// A line for each member and element, as [`serde_json::to_string_pretty`] has them.
    Lines,
}

/// How many bytes the string at the beginning has, its quotation marks included.
fn string_bytes(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#" { "a" : 1e3, "\u0062": { "c": "\u00e9}" } ,"a":[ 1.0 ] } "#;

    #[test]
    fn members_are_found_and_changed_where_they_are() {
        let object = Object::read(TEXT).unwrap();
        assert_eq!((object.get("a"), object.get("b")), (Some("[ 1.0 ]"), Some(r#"{ "c": "\u00e9}" }"#)));
        assert_eq!(object.get("c"), None);
        assert_eq!(object.with("b", "2"), r#" { "a" : 1e3, "\u0062": 2 ,"a":[ 1.0 ] } "#);
        assert_eq!(object.with("d", "2"), r#" { "a" : 1e3, "\u0062": { "c": "\u00e9}" } ,"a":[ 1.0 ] ,"d":2} "#);
        assert_eq!(object.without("a"), r#" { "\u0062": { "c": "\u00e9}" } } "#);
        assert_eq!(object.without("b"), r#" { "a" : 1e3 ,"a":[ 1.0 ] } "#);
        assert_eq!(object.without("c").replace(' ', ""), TEXT.replace(' ', ""));
    }

    #[test]
    fn an_object_without_members_is_changed_too() {
        for text in ["{}", "{ }", "{\n}"] {
            let object = Object::read(text).unwrap();
            let with: Value = serde_json::from_str(&object.with("a", "1")).unwrap();
            assert_eq!((with, object.without("a").as_str()), (json!({"a": 1}), text));
        }
        assert_eq!(Object::read(r#"{"a":1}"#).unwrap().without("a"), "{}");
        for text in ["[1]", "7", "{\"a\":}", ""] {
            assert!(Object::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn members_that_are_the_same_stay_as_they_were_written() {
        let Value::Object(members) = json!({"b": {"c": "é}"}, "d": 2}) else { return };
        assert_eq!(changed(TEXT, &members).unwrap(), r#" { "\u0062": { "c": "\u00e9}" } ,"d":2} "#);
    }

    #[test]
    fn parameters_carry_their_text() {
        let carried = carrying(r#"{"method":"m","params":{"a":1.0,"_meta":{"b":1}}}"#).unwrap();
        let read: Value = serde_json::from_str(&carried).unwrap();
        assert_eq!(read["params"]["_meta"], json!({"b": 1, KEY: r#"{"a":1.0,"_meta":{"b":1}}"#}));
        assert_eq!(request_text(read), r#"{"method":"m","params":{"a":1.0,"_meta":{"b":1}}}"#);
        assert_eq!(carrying(r#"{"method":"m"}"#), None);
        let odd = r#"{"method":"elicitation/create","params":{"mode":"url","url":7}}"#;
        let read: Value = serde_json::from_str(&carrying_alone(odd).unwrap()).unwrap();
        assert_eq!(read["params"]["url"], "");
        assert_eq!(request_text(read), odd);
    }

    #[test]
    fn a_value_is_written_as_its_text() {
        for text in [r#"{ "a":1E5,"b":"\u00e9"}"#, "1.0", r#"[1,"a"]"#, "null"] {
            assert_eq!(text_of(&written_as(text).unwrap()), text);
        }
        assert_eq!(written_as("[1]").unwrap(), json!([1]));
        assert!(written_as("NaN").is_err());
        let odd = json!({KEY: "1},"});
        assert_eq!(text_of(&odd), odd.to_string());
    }

    #[test]
    fn spaces_change_and_nothing_else_does() {
        let text = r#"{"z":[{},[],{"a":1e3,"b":["x: {,}\"\\",null]}],"\u00e9":-0.10,"e":""}"#;
        assert_eq!(laid_out(text, Layout::Compact), text);
        let lines = laid_out(text, Layout::Lines);
        assert_eq!(laid_out(&lines, Layout::Compact), text);
        let simple = json!({"z": [{}, [], {"a": 1, "b": ["x: {,}\"\\", null]}], "e": "", "f": {"g": true}});
        assert_eq!(laid_out(&simple.to_string(), Layout::Lines), serde_json::to_string_pretty(&simple).unwrap());
        assert_eq!(in_one_line("{\"a\":\r\n1}"), "{\"a\":  1}");
        assert_eq!(elements("[ 1.0 , {} ]").unwrap(), ["1.0", "{}"]);
    }
}
