//! The text of a result, or of one thing in a list, as its server wrote it. It is in `_meta` until clients get it.

use longhaul_core::strict_json;
use longhaul_core::verbatim::{KEY, Layout, Object, in_one_line, laid_out};
use rmcp::model::{MetaObject, Prompt, Resource, ResourceTemplate, Tool};
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The text, if there is one.
pub(crate) fn text(meta: Option<&MetaObject>) -> Option<&str> {
    meta?.0.get(KEY)?.as_str()
}

pub(crate) fn set(meta: &mut Option<MetaObject>, text: String) {
    *meta = Some(MetaObject(Map::from_iter([(KEY.to_owned(), text.into())])));
}

/// Changes a member in the text, if there is one.
pub(crate) fn set_member(meta: &mut Option<MetaObject>, name: &str, value: &str) {
    change(meta, |object| object.with(name, value));
}

/// Leaves a member out of the text, if there is one.
pub(crate) fn remove_member(meta: &mut Option<MetaObject>, name: &str) {
    change(meta, |object| object.without(name));
}

fn change(meta: &mut Option<MetaObject>, changed: impl FnOnce(&Object<'_>) -> String) {
    let Some(Value::String(text)) = meta.as_mut().and_then(|meta| meta.0.get_mut(KEY)) else { return };
    if let Ok(object) = Object::read(text) {
        *text = changed(&object);
    }
}

/// A message in which each text stands where its mark was: the arguments, whose text is in `_meta`, and other values.
pub(crate) fn with_texts(message: String) -> String {
    if !message.contains(KEY) {
        return message;
    }
    let params_of = |message: &str| Some(Object::read(message).ok()?.get("params")?.to_owned());
    let arguments = || {
        let params = params_of(&message)?;
        let params = Object::read(&params).ok()?;
        let meta = Object::read(params.get("_meta")?).ok()?;
        let arguments: String = strict_json::from_str(meta.get(KEY)?).ok()?;
        let without = params.with("_meta", &meta.without(KEY));
        Some((Object::read(&message).ok()?.with("params", &without), arguments))
    };
    let Some((message, arguments)) = arguments() else { return unmarked(&message) };
    let message = unmarked(&message);
    let moved = || {
        let params = params_of(&message)?;
        Some(Object::read(&message).ok()?.with("params", &Object::read(&params).ok()?.with("arguments", &arguments)))
    };
    moved().unwrap_or(message)
}

/// The JSON text in which each marked value has its own text. Inside a string, the quotation marks of a mark would be
/// escaped.
fn unmarked(mut rest: &str) -> String {
    let (mark, mut text) = (format!("{{\"{KEY}\":"), String::with_capacity(rest.len()));
    while let Some((before, after)) = rest.split_once(&mark) {
        text.push_str(before);
        let own = string(after).and_then(|(own, after)| Some((own, after.strip_prefix('}')?)));
        // Any other text could change what is around it.
        match own.filter(|(own, _)| strict_json::from_str::<IgnoredAny>(own).is_ok()) {
            Some((own, after)) => {
                text.push_str(&in_one_line(&own));
                rest = after;
            }
            None => {
                text.push_str(&mark);
                rest = after;
            }
        }
    }
    text + rest
}

/// The JSON string at the beginning, and what follows it.
fn string(text: &str) -> Option<(String, &str)> {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    let (string, after) = text.split_at_checked(end + 2)?;
    Some((strict_json::from_str(string).ok()?, after))
}

/// An element of a list of a server.
pub(crate) trait Item: Serialize + DeserializeOwned {
    fn meta(&self) -> Option<&MetaObject>;
    fn meta_mut(&mut self) -> &mut Option<MetaObject>;

    /// The text of one, as its server wrote it.
    fn json(&self) -> Result<Box<RawValue>, serde_json::Error> {
        match text(self.meta()) {
            Some(text) => RawValue::from_string(text.to_owned()),
            None => serde_json::value::to_raw_value(self),
        }
    }
}

macro_rules! items {
    ($($item:ty)*) => {
        $(impl Item for $item {
            fn meta(&self) -> Option<&MetaObject> {
                self.meta.as_ref()
            }

            fn meta_mut(&mut self) -> &mut Option<MetaObject> {
                &mut self.meta
            }
        })*
    };
}

items! { Tool Prompt Resource ResourceTemplate }

/// Writes a list as its server wrote it.
pub(crate) fn serialize<T: Item, S: Serializer>(items: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().filter_map(|item| item.json().ok()))
}

/// Reads what [`serialize`] has written.
pub(crate) fn deserialize<'de, T: Item, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<Box<RawValue>>::deserialize(deserializer)?;
    let item = |text: Box<RawValue>| {
        let mut item: T = strict_json::from_str(text.get()).map_err(D::Error::custom)?;
        set(item.meta_mut(), laid_out(text.get(), Layout::Compact));
        Ok(item)
    };
    texts.into_iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use longhaul_core::verbatim::written_as;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_has_the_texts_that_it_was_given() {
        let meta = json!({KEY: "{\"a\":1E5}", "x/y": written_as("[1.0,  2]").unwrap(), "z": 1});
        let params = json!({"arguments": {"a": 1}, "_meta": meta, "s": format!("{{\"{KEY}\":\"7\"}}")});
        let text = with_texts(json!({"params": params}).to_string());
        assert!(
            text.starts_with(r#"{"params":{"arguments":{"a":1E5},"_meta":{"x/y":[1.0,  2],"z":1},"s":"{\""#),
            "{text}"
        );
        assert_eq!(with_texts("{\"a\":1E5}".to_owned()), "{\"a\":1E5}");
        let answer = json!({"result": {KEY: "1}\n{"}}).to_string();
        assert_eq!(with_texts(answer.clone()), answer);
    }

    #[test]
    fn a_callers_value_is_never_taken_for_a_mark() {
        let odd = format!("{{\"{KEY}\":\"}},\"}}");
        let meta = json!({KEY: &odd, "x": written_as(&odd).unwrap()});
        let text = with_texts(json!({"params": {"arguments": {}, "_meta": meta}}).to_string());
        assert_eq!(text, format!(r#"{{"params":{{"arguments":{odd},"_meta":{{"x":{odd}}}}}}}"#));
    }
}
