use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A form as a browser sends it: line breaks become those of the network.
fn posted(pairs: &[(&str, &str)]) -> Posted {
    let pairs = pairs.iter().map(|(name, text)| (*name, text.replace('\n', "\r\n")));
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    Posted::read(body.as_bytes()).unwrap()
}

fn html(schema: &Value) -> String {
    Form::of(schema).show("f", Prefill::Defaults).into_string()
}

/// The value that is read from one field `a` with these strings.
fn read_one(property: Value, texts: &[&str]) -> Result<Map<String, Value>, Vec<FieldError>> {
    let schema = json!({"type": "object", "properties": {"a": property}, "required": ["a"]});
    let pairs: Vec<_> = texts.iter().map(|text| ("field.a", *text)).collect();
    Form::of(&schema).read(&posted(&pairs))
}

#[test]
fn every_shape_that_a_question_may_have_is_read_back() {
    let titled = json!([{"const": "p", "title": "P"}, {"const": "q", "title": "Q"}]);
    for (property, texts, expected) in [
        (json!({"type": "string"}), &["a\nb"][..], json!("a\nb")),
        (json!({"type": "string", "format": "email"}), &["ada@example.com"], json!("ada@example.com")),
        (json!({"type": "string", "format": "date"}), &["2026-11-23"], json!("2026-11-23")),
        (json!({"type": "string", "format": "uri"}), &["https://example.com"], json!("https://example.com")),
        (json!({"type": "string", "format": "date-time"}), &["2026-11-23T08:00:00Z"], json!("2026-11-23T08:00:00Z")),
        (json!({"type": "number"}), &[" 2.5 "], json!(2.5)),
        (json!({"type": "integer"}), &["-3"], json!(-3)),
        (json!({"type": "boolean"}), &["true"], json!(true)),
        (json!({"type": "boolean"}), &[], json!(false)),
        (json!({"type": "string", "enum": ["p", "q"]}), &["\"q\""], json!("q")),
        (json!({"type": "string", "enum": ["p", "q"], "enumNames": ["P", "Q"]}), &["\"q\""], json!("q")),
        (json!({"type": "string", "oneOf": titled}), &["\"p\""], json!("p")),
        (json!({"enum": [1, "1", null]}), &["1"], json!(1)),
        (json!({"enum": [1, "1", null]}), &["\"1\""], json!("1")),
        (
            json!({"type": "array", "items": {"type": "string", "enum": ["p", "q"]}}),
            &["\"p\"", "\"q\""],
            json!(["p", "q"]),
        ),
        (json!({"type": "array", "items": {"anyOf": titled}}), &["\"q\""], json!(["q"])),
        (json!({"type": "array", "items": {"anyOf": titled}}), &[], json!([])),
        (json!({"type": "array", "items": {"type": "integer"}}), &["[1,\n2]"], json!([1, 2])),
        (json!({"type": "object"}), &["{\"x\": 1}"], json!({"x": 1})),
        (json!({"type": ["integer", "null"]}), &[""], json!(null)),
        (json!({}), &["{\"x\": 1}"], json!({"x": 1})),
        (json!({}), &["x"], json!("x")),
    ] {
        let read = read_one(property.clone(), texts);
        assert_eq!(read.map(|content| content["a"].clone()), Ok(expected), "{property}");
    }
}

#[test]
fn what_does_not_fit_names_its_field() {
    for (property, text, expected) in [
        (json!({"type": "string"}), "", "it is missing"),
        (json!({"type": "string", "minLength": 3}), "ab", "it must be at least 3 characters"),
        (json!({"type": "string", "format": "email"}), "ada", "it must be an e-mail address, such as ada@example.com"),
        (json!({"type": "number"}), "many", "it must be a number"),
        (json!({"type": "integer"}), "1.5", "it must be a whole number"),
        (json!({"type": "integer", "minimum": 2}), "1", "it must be at least 2"),
        (json!({"enum": ["p"]}), "\"q\"", "it must be one of the values in the list"),
        (json!({"type": "array", "items": {"enum": ["p"]}}), "\"q\"", "it must be one of the values in the list"),
        (json!({"type": "object"}), "[]", "it must be a JSON object, such as '{\"a\": 1}'"),
    ] {
        let wrong = read_one(property.clone(), &[text]).unwrap_err();
        assert_eq!(wrong, [FieldError { field: Some("a".to_owned()), why: expected.to_owned() }], "{property}");
    }
}

#[test]
fn what_is_optional_may_be_left_out() {
    let schema = json!({"properties": {"t": {"type": "string"}, "n": {"type": "number"}, "b": {"type": "boolean"},
        "o": {"enum": ["p"]}, "s": {"type": "array", "items": {"enum": ["p"]}}, "j": {"type": "object"}}});
    let empty = [("field.t", ""), ("field.n", " "), ("field.b", ""), ("field.o", ""), ("field.j", "\n")];
    assert_eq!(Form::of(&schema).read(&posted(&empty)), Ok(Map::new()));
    assert_eq!(Form::of(&schema).read(&posted(&[])), Ok(Map::new()));
}

#[test]
fn all_that_is_wrong_is_said_and_what_was_typed_is_kept() {
    let schema = json!({"properties": {"n": {"type": "integer", "title": "How many"}, "m": {"enum": ["p", "q"]},
        "t": {"type": "string"}}, "required": ["n", "m", "t"]});
    let typed = posted(&[("field.n", "many"), ("field.m", "\"q\""), ("field.t", "<b>kept</b>")]);
    let form = Form::of(&schema);
    let mut wrong = form.read(&typed).unwrap_err();
    assert_eq!(wrong.len(), 1);
    wrong.push(FieldError { field: None, why: "the server refuses it".to_owned() });
    let shown = form.show("f", Prefill::Typed(&typed, &wrong)).into_string();
    for part in [
        "<a href=\"#f-0\">How many (n)</a>: it must be a whole number",
        "<li>the server refuses it</li>",
        "value=\"many\"",
        "aria-describedby=\"f-0-hint f-0-error\" aria-invalid=\"true\"",
        "id=\"f-0-error\">How many: it must be a whole number",
        "<option value=\"&quot;q&quot;\" selected>q</option>",
        "value=\"&lt;b&gt;kept&lt;/b&gt;\"",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn a_field_without_a_title_is_called_by_its_name_in_words() {
    for (name, expected) in [
        ("in_seconds", "In seconds"),
        ("maxRows", "Max rows"),
        ("dry-run", "Dry run"),
        ("URL", "URL"),
        ("name", "Name"),
        ("_", "_"),
        ("größe", "Größe"),
    ] {
        let shown = html(&json!({"properties": {name: {"type": "string"}}, "required": [name]}));
        assert!(shown.contains(&format!(">{expected}</label>")), "{name}: {shown}");
    }
    let titled = html(&json!({"properties": {"n": {"type": "string", "title": "how many"}}, "required": ["n"]}));
    assert!(titled.contains(">how many</label>"), "{titled}");
}

#[test]
fn a_schema_that_no_fields_show_is_written_as_json() {
    let many: Map<String, Value> = (0..5_000).map(|number| (format!("p{number}"), json!({}))).collect();
    for schema in [
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
        json!({"type": "object", "oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}),
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "properties": many}),
        json!(true),
        json!(null),
    ] {
        let form = Form::of(&schema);
        assert!(form.is_json(), "{}", schema.to_string().chars().take(80).collect::<String>());
        assert_eq!(form.read(&posted(&[("json", "{\"a\": [1]}")])), Ok(json!({"a": [1]}).as_object().unwrap().clone()));
        let shown = form.show("f", Prefill::Defaults).into_string();
        assert!(shown.contains("<textarea id=\"f-json\" name=\"json\"") && shown.len() < 100_000, "{}", shown.len());
    }
    assert!(!Form::of(&json!({"type": "object"})).is_json());
}

#[test]
fn json_that_is_none_is_refused_where_it_breaks() {
    let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let form = Form::written_as(&schema, Some("json"));
    for (text, expected) in [
        ("{\n\"a\": }", "it is not JSON: expected value at line 2 column 6"),
        ("[1]", "it must be a JSON object, such as {\"a\": 1}"),
        ("{}", "`n` is missing"),
        ("{\"n\": \"x\"}", "`n`: it must be of the type integer"),
    ] {
        let wrong = form.read(&posted(&[("json", text)])).unwrap_err();
        assert_eq!(wrong, [FieldError { field: None, why: expected.to_owned() }]);
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(form.read(&posted(&[("json", &deep)])).is_err());
}

#[test]
fn a_hostile_schema_is_inert_and_its_names_come_back() {
    let name = "a\"><script>alert(1)</script>\n'\u{202e}";
    let schema = json!({"properties": {name: {"type": "string", "title": "<img src=x onerror=alert(1)>",
        "description": "\u{202e}</div><script>", "default": "\"><script>"},
        "b": {"type": "array", "items": {"enum": ["</option><script>"]}}, "c": {"enum": ["'\"<script>"]}}});
    let shown = html(&schema);
    assert!(!shown.contains("<script") && !shown.contains("<img"), "{shown}");
    assert_eq!(shown.matches('\u{202e}').count(), 1, "only in the attribute that the field is found by: {shown}");
    let sent = format!("field.{}", name.replace('\n', "\\n"));
    let read = Form::of(&schema).read(&posted(&[(&sent, "x")])).unwrap();
    assert_eq!(read.get(name), Some(&json!("x")));
}

#[test]
fn many_values_are_typed_and_not_listed() {
    let all: Vec<String> = (0..10_000).map(|number| format!("value {number}")).collect();
    let one = json!({"properties": {"a": {"enum": all}}, "required": ["a"]});
    let shown = html(&one);
    assert!(shown.len() < 4_000 && shown.contains("One of 10000 values, such as value 0, value 1"), "{shown}");
    assert_eq!(read_one(json!({"enum": all}), &["value 9999"]).unwrap()["a"], "value 9999");
    assert!(read_one(json!({"enum": all}), &["value 10000"]).is_err());
    let some = json!({"type": "array", "items": {"enum": all}});
    assert_eq!(read_one(some.clone(), &["[\"value 1\", \"value 2\"]"]).unwrap()["a"], json!(["value 1", "value 2"]));
    assert!(read_one(some, &["[\"value 1\", \"x\"]"]).is_err());
}

#[test]
fn huge_texts_of_a_schema_are_cut() {
    let huge = "x".repeat(1 << 20);
    let schema = json!({"properties": {&huge: {"type": "string", "title": huge, "description": huge},
        "c": {"enum": [1, 2], "enumNames": [huge, huge]}}});
    // Its name is in it once, since the field is found by it.
    assert!(html(&schema).len() < (1 << 20) + 10_000);
}

fn property() -> impl Strategy<Value = Value> {
    let text = "[^\r\0]{1,20}";
    let with = |schema: Value, default: Value| {
        let mut schema = schema;
        schema["default"] = default;
        schema
    };
    prop_oneof![
        text.prop_map(move |text| with(json!({"type": "string"}), text.into())),
        any::<i64>().prop_map(move |number| with(json!({"type": "integer"}), number.into())),
        any::<i32>().prop_map(move |number| with(json!({"type": "number"}), (f64::from(number) / 4.0).into())),
        any::<bool>().prop_map(move |is| with(json!({"type": "boolean"}), is.into())),
        (proptest::collection::btree_set(text, 1..20), any::<prop::sample::Index>()).prop_map(move |(all, index)| {
            let all: Vec<String> = all.into_iter().collect();
            with(json!({"type": "string", "enum": all}), json!(all[index.index(all.len())]))
        }),
        proptest::collection::btree_set(text, 1..20).prop_map(move |all| {
            let all: Vec<String> = all.into_iter().collect();
            let some: Vec<&String> = all.iter().step_by(2).collect();
            with(json!({"type": "array", "items": {"enum": all}}), json!(some))
        }),
        proptest::collection::vec(any::<u8>(), 0..4)
            .prop_map(move |all| with(json!({"type": "array", "items": {"type": "integer"}}), all.into())),
    ]
}

proptest! {
    /// An untouched form that is sent as it is has the schema's defaults.
    #[test]
    fn a_form_that_is_sent_as_it_is_has_the_defaults(properties in
        proptest::collection::btree_map("[^\r]{1,12}", property(), 0..6)) {
        let schema = json!({"properties": properties, "required": properties.keys().collect::<Vec<_>>()});
        let form = Form::of(&schema);
        let mut sent = Vec::new();
        for field in form.fields.iter().flatten() {
            let texts = show::default_texts(field);
            let is_unticked = matches!(Entry::of(field), Entry::Tick) && texts != ["true"];
            sent.extend(texts.into_iter().filter(|_| !is_unticked).map(|text| (post_name(&field.name), text)));
        }
        let pairs: Vec<(&str, &str)> = sent.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let defaults: Map<String, Value> =
            properties.iter().map(|(name, property)| (name.clone(), property["default"].clone())).collect();
        prop_assert_eq!(form.read(&posted(&pairs)), Ok(defaults));
    }
}
