//! The text of a result, or of one thing in a list, as its server wrote it. It is in `_meta` until clients get it.

use longhaul_core::strict_json;
use longhaul_core::verbatim::{KEY, Layout, Object, laid_out};
use rmcp::model::{MetaObject, Prompt, Resource, ResourceTemplate, Tool};
use serde::de::{DeserializeOwned, Error};
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

/// A message in whose arguments the text counts that is in its `_meta`.
pub(crate) fn with_arguments(message: String) -> String {
    if !message.contains(KEY) {
        return message;
    }
    let moved = || {
        let whole = Object::read(&message).ok()?;
        let params = Object::read(whole.get("params")?).ok()?;
        let meta = Object::read(params.get("_meta")?).ok()?;
        let arguments: String = strict_json::from_str(meta.get(KEY)?).ok()?;
        let params = params.with("_meta", &meta.without(KEY));
        let params = Object::read(&params).ok()?.with("arguments", &arguments);
        Some(whole.with("params", &params))
    };
    moved().unwrap_or(message)
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
