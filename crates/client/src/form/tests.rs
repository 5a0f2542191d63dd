//! Fields of forms, arguments of tools, and what does not fit.

use serde_json::json;

use super::*;

fn checked(property: Value, value: Value) -> Result<(), String> {
    let schema = json!({"properties": {"a": property}, "required": ["a"]});
    check(&Map::from_iter([("a".to_owned(), value)]), &schema)
}

#[test]
fn what_does_not_fit_is_named() {
    for (property, value, expected) in [
        (json!({"type": "string", "minLength": 2}), json!("x"), "`a`: it must be at least 2 characters"),
        (json!({"type": "integer", "maximum": 3}), json!(4), "`a`: it must be at most 3"),
        (json!({"type": "integer"}), json!(1.5), "`a`: it must be of the type integer"),
        (json!({"type": "boolean"}), json!("x"), "`a`: it must be true or false"),
        (json!({"type": "string", "enum": ["p", "q"]}), json!("r"), "`a`: it must be one of \"p\", \"q\""),
        (json!({"oneOf": [{"const": "p", "title": "P"}]}), json!("r"), "`a`: it must be one of \"p\""),
        (json!({"type": "array", "items": {"enum": ["p"]}}), json!(["q"]), "`a`: it must be one of \"p\""),
    ] {
        assert_eq!(checked(property, value), Err(expected.to_owned()));
    }
    assert_eq!(checked(json!({"type": "string"}), json!("x")), Ok(()));
    assert_eq!(checked(json!({"type": ["string", "null"]}), Value::Null), Ok(()));
    assert_eq!(checked(json!({"anyOf": [{"enum": ["p"]}, {"type": "null"}]}), Value::Null), Ok(()));
    assert_eq!(check(&Map::new(), &json!({"properties": {"a": {}}, "required": ["a"]})), Err("`a` is missing".into()));
}

#[test]
fn fields_have_titles_and_choices() {
    let schema = json!({"properties": {
        "x": {"type": "string", "enum": ["p", "q"], "enumNames": ["P", "Q"]}, "y": {"type": "boolean", "title":
            "Y?"}
    }});
    let all = fields(&schema);
    assert_eq!((all[0].title.as_str(), all[1].title.as_str(), &all[1].kind), ("x", "Y?", &Kind::Switch));
    let Kind::One(choices) = &all[0].kind else { panic!("{all:?}") };
    assert_eq!(choices[1], Choice { value: json!("q"), title: "Q".to_owned() });
}

#[test]
fn required_fields_come_first_in_the_order_of_their_names_in_the_schema() {
    let schema = json!({"properties": {"a": {}, "b": {}, "y": {}, "z": {}}, "required": ["z", "b"]});
    let names: Vec<String> = fields(&schema).into_iter().map(|field| field.name).collect();
    assert_eq!(names, ["z", "b", "a", "y"]);
}

#[test]
fn references_are_followed_to_types_values_and_lists() {
    let schema = json!({"properties": {
        "how": {"$ref": "#/$defs/How"}, "tables": {"type": "array", "items": {"type": "string"}},
        "days": {"type": "array", "items": {"$ref": "#/$defs/Day"}}, "any": {"type": "array"},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "n": {"allOf": [{"$ref": "#/$defs/N"}]}
    }, "$defs": {
        "How": {"oneOf": [{"type": "string", "enum": ["p", "q"]}, {"type": "string", "const": "r"}]},
        "Day": {"type": "string", "enum": ["mo", "tu"]}, "N": {"type": ["integer", "null"], "minimum": 0}
    }});
    let types = ["how", "tables", "days", "any", "either", "n"];
    let types = types.map(|name| type_in_words(&schema["properties"][name], &schema));
    assert_eq!(types, ["string", "string[]", "string[]", "array", "any", "integer"]);
    for (arguments, expected) in [
        (json!({"how": "q"}), Ok(())),
        (json!({"how": "r", "days": ["tu"], "n": -3.0}), Ok(())),
        (json!({"either": 5}), Ok(())),
        (json!({"either": "x", "any": [1, "a"], "more": {}}), Ok(())),
        (json!({"how": "x"}), Err("`how`: it must be one of \"p\", \"q\", \"r\"".to_owned())),
        (json!({"days": ["we"]}), Err("`days`: it must be one of \"mo\", \"tu\"".to_owned())),
        (json!({"n": 3.5}), Err("`n`: it must be of the type integer".to_owned())),
    ] {
        assert_eq!(check_arguments(arguments.as_object().unwrap(), &schema), expected, "{arguments}");
    }
}

#[test]
fn a_choice_of_many_names_some() {
    let all: Vec<String> = (0..10_000).map(|number| format!("v{number}")).collect();
    let why = checked(json!({"enum": all}), json!("x")).unwrap_err();
    assert!(why.ends_with("\"v9\" and 9990 more"), "{why}");
}

#[test]
fn what_stands_beside_a_reference_belongs_to_the_field() {
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/a", "description": "What for.", "default": 2}},
        "$defs": {"a": {"type": "integer", "title": "A"}}});
    let all = fields(&schema);
    assert_eq!((all[0].title.as_str(), all[0].description.as_deref()), ("A", Some("What for.")));
    assert_eq!((&all[0].default, type_of(&all[0].schema)), (&Some(json!(2)), Some("integer")));
}

#[test]
fn a_question_is_a_form_an_address_or_something_else() {
    let about = |method: &str, params: Value| Question { key: "k".to_owned(), method: method.to_owned(), params };
    let form = about("elicitation/create", json!({"requestedSchema": {"type": "object"}}));
    assert!(matches!(form.about(), About::Form(schema) if schema["type"] == "object"));
    let address = about("elicitation/create", json!({"mode": "url", "url": "https://example.com"}));
    assert!(matches!(address.about(), About::Address("https://example.com")));
    assert!(matches!(about("sampling/createMessage", json!({})).about(), About::Other));
}

#[test]
fn formats_are_checked() {
    for (format, good, bad) in [
        ("email", &["ada@example.com", "a@b@c"][..], &["", "ada", "@", "a@", "@b", "a b@c"][..]),
        ("uri", &["https://example.com/?a=b#c", "urn:isbn:1"], &["", "example.com", "/a", "https://"]),
        ("date", &["2026-11-23", "2024-02-29"], &["", "2026-02-29", "2026-13-01", "23.11.2026", "2026-11-23T01:02:03"]),
        (
            "date-time",
            &["2026-11-23T08:00:00Z", "2026-11-23T08:00:00.5+01:00"],
            &["", "2026-11-23", "2026-11-23T08:00:00", "2026-11-23T25:00:00Z"],
        ),
        ("unknown", &["", "x"], &[]),
    ] {
        let fits = |text: &str| check_limits(&json!({"type": "string", "format": format}), &json!(text)).is_ok();
        for text in good {
            assert!(fits(text), "{format} {text:?}");
        }
        for text in bad {
            assert!(!fits(text), "{format} {text:?}");
        }
    }
}

#[test]
fn arrays_have_their_number_of_values() {
    let schema = json!({"type": "array", "minItems": 1, "maxItems": 2});
    assert_eq!(check_limits(&schema, &json!([])), Err("it must be at least 1 value".to_owned()));
    assert_eq!(check_limits(&schema, &json!([1, 2])), Ok(()));
    assert_eq!(check_limits(&schema, &json!([1, 2, 3])), Err("it must be at most 2 values".to_owned()));
    assert_eq!(check_limits(&schema, &json!({})), Err("it must be of the type array".to_owned()));
}
