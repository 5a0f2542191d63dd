//! JSON objects that have one meaning.

use std::fmt;

use longhaul_core::strict_json;
use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The JSON object in `text`, if no name in it is there twice: two readers could disagree about which of them holds.
pub(crate) fn parse(text: &[u8]) -> Option<Map<String, Value>> {
    strict_json::from_slice(text).ok().map(|Object(members)| members)
}

struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Object, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("a name is there twice"));
            }
        }
        Ok(Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_each_name_once() {
        assert!(parse(br#"{"a": 1, "b": {"a": 2}}"#).is_some());
        for text in
            [&br#"{"a": 1, "a": 1}"#[..], br#"{"a": 1, "\u0061": 2}"#, b"[]", b"1", b"{", b"{} {}", b"", b"\xff"]
        {
            assert_eq!(parse(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
