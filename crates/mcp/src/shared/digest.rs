//! What makes two calls the same call: a hash over the tool and its arguments.

use rmcp::model::JsonObject;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 over the tool's name and its arguments, with the keys of objects sorted: the order in which a client writes
/// its arguments, and spaces, make no difference.
pub(crate) fn of_call(tool: &str, arguments: Option<&JsonObject>) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((tool.len() as u64).to_be_bytes());
    hash.update(tool);
    if let Some(arguments) = arguments {
        object(&mut hash, arguments);
    }
    hash.finalize().into()
}

fn object(hash: &mut Sha256, fields: &JsonObject) {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    hash.update("{");
    for (name, field) in sorted {
        hash.update(Value::from(name.as_str()).to_string());
        hash.update(":");
        value(hash, field);
        hash.update(",");
    }
    hash.update("}");
}

fn value(hash: &mut Sha256, any: &Value) {
    match any {
        Value::Object(fields) => object(hash, fields),
        Value::Array(items) => {
            hash.update("[");
            for item in items {
                value(hash, item);
                hash.update(",");
            }
            hash.update("]");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => hash.update(any.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digest(tool: &str, arguments: Value) -> [u8; 32] {
        of_call(tool, arguments.as_object())
    }

    #[test]
    fn the_order_of_keys_makes_no_difference() {
        let text = r#"{"b":{"y":[1,{"q":2,"p":3}],"x":1},"a":"s"}"#;
        let sorted = r#"{"a":"s","b":{"x":1,"y":[1,{"p":3,"q":2}]}}"#;
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(digest("t", parse(text)), digest("t", parse(sorted)));
    }

    #[test]
    fn other_tools_and_other_arguments_are_other_calls() {
        let calls = [
            digest("t", json!({"a": 1})),
            digest("t", json!({"a": "1"})),
            digest("t", json!({"a": [1]})),
            digest("t", json!({"a": [[1]]})),
            digest("t", json!({})),
            of_call("t", None),
            of_call("u", None),
        ];
        for (index, call) in calls.iter().enumerate() {
            assert!(calls.iter().skip(index + 1).all(|other| other != call), "{index}");
        }
    }
}
