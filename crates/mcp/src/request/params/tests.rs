//! Members that are absent, null, of another type, empty lists; and what a client can do, in odd shapes.

use serde_json::Value;

use super::*;

fn tidied(method: &str, params: Value) -> Result<Value, String> {
    let raw = serde_json::value::to_raw_value(&params).unwrap();
    let tidied = Members::read(Some(&raw)).and_then(|members| members.tidied(method, "2025-11-25"));
    let tidied = tidied.map_err(|error| error.message.to_string())?;
    Ok(tidied.map_or(params, |tidied| serde_json::from_str(tidied.get()).unwrap()))
}

fn hello(capabilities: Value) -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "a", "version": "1"},
    })
}

#[test]
fn a_capability_of_an_unknown_shape_is_one_that_the_client_lacks() {
    for (odd, read) in [
        (json!([]), json!({})),
        (json!({"experimental": {"x": null, "y": {}}}), json!({"experimental": {"y": {}}})),
        (json!({"experimental": {"x": []}}), json!({"experimental": {"x": {}}})),
        (json!({"elicitation": ["x"], "roots": {}}), json!({"roots": {}})),
        (json!({"elicitation": {"form": 7, "url": {}}}), json!({"elicitation": {"url": {}}})),
        (json!({"sampling": "yes"}), json!({})),
    ] {
        assert_eq!(tidied("initialize", hello(odd.clone())), Ok(hello(read)), "{odd}");
    }
}

#[test]
fn an_empty_list_and_null_are_what_is_not_there() {
    let of = |arguments: Value| json!({"name": "add", "arguments": arguments});
    assert_eq!(tidied("tools/call", of(json!([]))), Ok(of(json!({}))));
    assert_eq!(tidied("tools/call", of(json!(null))), Ok(json!({"name": "add"})));
    assert_eq!(tidied("tools/list", json!({"cursor": null, "_meta": 7})), Ok(json!({})));
    assert_eq!(tidied("tools/list", json!({"cursor": 7})), Ok(json!({})));
}

#[test]
fn a_refusal_names_its_member() {
    let mut nameless = hello(json!({}));
    nameless["clientInfo"].as_object_mut().unwrap().remove("version");
    for (method, params, name) in [
        ("initialize", nameless, "`clientInfo.version` is missing"),
        ("tools/call", json!({}), "`name` is missing"),
        ("tools/call", json!({"name": null}), "`name` is missing"),
        ("tools/call", json!({"name": "a", "arguments": [1]}), "`arguments` in the params of tools/call must be"),
        ("tools/call", json!({"name": "a", "requestState": []}), "`requestState` in the params"),
        ("completion/complete", json!({"ref": {"type": "ref/prompt"}, "argument": []}), "`argument.name` is missing"),
    ] {
        let refused = tidied(method, params.clone()).unwrap_err();
        assert!(refused.contains(name), "{method} {params}: {refused}");
    }
}

#[test]
fn a_member_that_is_there_twice_is_refused() {
    let raw = RawValue::from_string(r#"{"name":"a","name":"b"}"#.to_owned()).unwrap();
    let refused = Members::read(Some(&raw)).err().unwrap();
    assert!(refused.message.contains("`name` is there twice"), "{}", refused.message);
}
