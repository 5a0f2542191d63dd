mod external;

use serde_json::{Value, json};

use super::Schema;

fn faults(schema: &Value, arguments: &Value) -> Vec<String> {
    Schema::compile(schema.clone()).unwrap().check(arguments).err().unwrap_or_default()
}

#[track_caller]
fn says(schema: &Value, arguments: &Value, expected: &[&str]) {
    assert_eq!(faults(schema, arguments), expected, "{schema} {arguments}");
}

fn countdown() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "CountdownArgs", "type": "object",
        "properties": {
            "seconds": {"type": "number", "format": "double", "minimum": 0, "maximum": 86400},
            "steps": {"type": "integer", "format": "uint32", "minimum": 1, "maximum": 4000, "default": 10},
        },
        "required": ["seconds"], "additionalProperties": false,
    })
}

#[test]
fn a_fault_names_the_argument_and_what_was_expected() {
    says(&countdown(), &json!({"seconds": 2.5}), &[]);
    says(&countdown(), &json!({"seconds": "many"}), &["`seconds` must be a number, not \"many\""]);
    says(&countdown(), &json!({}), &["`seconds` is missing; it must be a number"]);
    says(&countdown(), &json!({"seconds": -1}), &["`seconds` must be at least 0, not -1"]);
    says(&countdown(), &json!({"seconds": 1, "steps": 2.5}), &["`steps` must be an integer, not 2.5"]);
    says(
        &countdown(),
        &json!({"seconds": 1, "step": 2}),
        &["`step` is not a known argument; did you mean `steps`? Expected: `seconds` or `steps`"],
    );
    says(
        &countdown(),
        &json!({"seconds": 1, "data": []}),
        &["`data` is not a known argument; expected: `seconds` or `steps`"],
    );
}

#[test]
fn a_fault_inside_of_lists_and_objects_has_its_path() {
    let schema = json!({
        "properties": {"rows": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {"$ref": "#/$defs/row"}}},
        "$defs": {"row": {
            "type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}},
            "required": ["name"],
        }},
    });
    says(&schema, &json!({"rows": [{"name": "a"}, {"name": 3}]}), &["`rows[1].name` must be a string, not 3"]);
    says(&schema, &json!({"rows": [{}]}), &["`rows[0].name` is missing; it must be a string"]);
    says(&schema, &json!({"rows": []}), &["`rows` must have at least 1 items, not 0"]);
    says(
        &schema,
        &json!({"rows": [{"name": "ABCD"}]}),
        &[
            "`rows[0].name` must have at most 3 characters, not 4",
            "`rows[0].name` must match the pattern ^[a-z]+$, and \"ABCD\" does not",
        ],
    );
    let twice = json!({"rows": [{"name": "a", "n": 1}, {"n": 1.0, "name": "a"}]});
    says(&schema, &twice, &["`rows` must not have the same item twice"]);
}

#[test]
fn of_alternatives_the_one_that_was_meant_is_explained() {
    let optional = json!({"properties": {"a": {"anyOf": [
        {"type": "object", "properties": {"b": {"type": "integer"}}}, {"type": "null"},
    ]}}});
    says(&optional, &json!({"a": null}), &[]);
    says(&optional, &json!({"a": {"b": "x"}}), &["`a.b` must be an integer, not \"x\""]);
    says(&optional, &json!({"a": 7}), &["`a` must be an object or null, not 7"]);
    let tagged = json!({"properties": {"shape": {"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required":
            ["kind", "radius"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required":
            ["kind", "side"]},
    ]}}});
    says(
        &tagged,
        &json!({"shape": {"kind": "square", "side": "long"}}),
        &["`shape.side` must be a number, not \"long\""],
    );
    let one_of = json!({"properties": {"format": {"enum": ["csv", "json"]}}});
    says(&one_of, &json!({"format": "xml"}), &["`format` must be \"csv\" or \"json\", not \"xml\""]);
}

#[test]
fn what_a_client_sent_is_clipped() {
    let long = "x\u{7}".repeat(1_000_000);
    for arguments in [json!({"seconds": long}), json!({"seconds": 1, &long: 1}), json!({"seconds": {"a": long}})] {
        let faults = faults(&countdown(), &arguments).join("; ");
        assert!(faults.len() < 400 && !faults.contains('\u{7}'), "{faults}");
    }
    let many: serde_json::Map<_, _> = (0..1_000).map(|number| (format!("a{number}"), json!(1))).collect();
    assert_eq!(faults(&countdown(), &Value::Object(many)).len(), 5);
}

#[test]
fn a_schema_that_contains_itself_is_applied_as_deep_as_the_arguments() {
    let tree = json!({
        "type": "object", "properties": {"left": {"$ref": "#"}, "value": {"type": "integer"}}, "required": ["value"],
    });
    says(&tree, &json!({"value": 1, "left": {"value": 2, "left": {"value": 3}}}), &[]);
    let wrong = json!({"value": 1, "left": {"value": 2, "left": {"value": "x"}}});
    says(&tree, &wrong, &["`left.left.value` must be an integer, not \"x\""]);
}

#[test]
fn alternatives_inside_of_alternatives_are_refused_at_the_start() {
    assert!(Schema::compile(json!({"$ref": "#"})).is_err(), "without end");
    // Two to the power of thirty checks of one value.
    let mut definitions = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        definitions.insert(level.to_string(), json!({"anyOf": [next, next]}));
    }
    definitions.insert("30".to_owned(), json!({"required": ["x"]}));
    let refused = Schema::compile(json!({"$ref": "#/$defs/0", "$defs": definitions})).unwrap_err().to_string();
    assert!(refused.contains("more than 1000 alternatives"), "{refused}");
}

#[test]
fn alternatives_that_contain_each_other_do_not_multiply_the_work() {
    let kind = |name: &str| {
        let left = json!({"kind": {"const": name}, "left": {"$ref": "#/$defs/node"}});
        json!({"type": "object", "properties": left, "required": ["kind"]})
    };
    let node = json!({"anyOf": [kind("a"), kind("b"), kind("c"), {"type": "integer"}]});
    let schema = json!({"properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}});
    let tree = |depth: usize, leaf: Value| {
        json!({"tree": (0..depth).fold(leaf, |below, _|
        json!({"kind": "b", "left": below}))})
    };
    says(&schema, &tree(100, json!(1)), &[]);
    says(&schema, &tree(2, json!("x")), &["`tree.left.left` must be an object or an integer, not \"x\""]);
    // Each level would multiply the errors by the number of alternatives.
    says(&schema, &tree(100, json!("x")), &["they do not match the tool's input schema"]);
}

#[test]
fn what_cannot_be_checked_is_not_compiled() {
    for (schema, why) in [
        (json!({"properties": {"a": {"$ref": "https://example.com/a"}}}), "https://example.com/a"),
        (json!({"$ref": "#/$defs/none"}), "/$defs/none"),
        (json!({"$schema": "http://json-schema.org/draft-03/schema#"}), "draft-03/schema#\" is not known"),
        (json!({"properties": {"a": {"pattern": "(?=a)"}}}), "\"(?=a)\" is not supported"),
        (json!({"properties": {"a": {"pattern": "(?=a)"}}}), "at `#/properties/a/pattern`"),
        (json!({"patternProperties": {"(a)\\1": {}}}), "is not supported"),
        (json!({"pattern": "("}), "\"(\" is not supported"),
        (json!({"type": "text"}), "at `#/type`"),
        (json!({"required": "a"}), "at `#/required`"),
        (json!({"minLength": -1}), "at `#/minLength`"),
        (json!({"items": [true]}), "at `#/items`"),
        (json!({"properties": 7}), "at `#/properties`"),
        (json!({"multipleOf": 0}), "at `#/multipleOf`"),
    ] {
        let error = Schema::compile(schema).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// Most servers in TypeScript say so.
fn of_draft_07(mut schema: Value) -> Value {
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema
}

#[test]
fn an_older_dialect_means_what_it_says() {
    let schema = of_draft_07(json!({
        "type": "object", "properties": {"name": {"$ref": "#/definitions/name"}}, "required": ["name"],
        "additionalProperties": false, "definitions": {"name": {"type": "string", "minLength": 2}},
    }));
    says(&schema, &json!({"name": "Ann"}), &[]);
    says(&schema, &json!({"name": 5}), &["`name` must be a string, not 5"]);
    assert_eq!(faults(&schema, &json!({"name": "Ann", "nam": 1})).len(), 1);
    // What stands beside `$ref` has no meaning.
    let alone =
        of_draft_07(json!({"properties": {"a": {"$ref": "#/definitions/b", "minimum": 5}}, "definitions": {"b": {}}}));
    says(&alone, &json!({"a": 1}), &[]);
    let pair = of_draft_07(json!({"properties": {"at": {"items": [{"type": "number"}], "additionalItems": false}}}));
    says(&pair, &json!({"at": [1]}), &[]);
    assert_eq!(faults(&pair, &json!({"at": ["x"]})).len(), 1);
    assert_eq!(faults(&pair, &json!({"at": [1, 2]})).len(), 1);
    let needs = json!({"a": ["b"], "c": {"required": ["d"]}});
    let needs = of_draft_07(json!({"dependencies": needs, "dependentRequired": {"a": ["z"]}, "prefixItems": [false]}));
    says(&needs, &json!({"a": 1, "b": 2}), &[]);
    assert_eq!(faults(&needs, &json!({"a": 1})).len(), 1);
    assert_eq!(faults(&needs, &json!({"c": 1})).len(), 1);
}

#[test]
fn a_multiple_of_a_decimal_fraction_is_exact() {
    for (number, step, is_multiple) in [
        (json!(0.3), json!(0.1), true),
        (json!(19.99), json!(0.01), true),
        (json!(1_000_000.000_000_1), json!(0.01), false),
        (json!(0.35), json!(0.1), false),
        (json!(9_007_199_254_740_993_u64), json!(2), false),
        (json!(1e300), json!(0.5), true),
    ] {
        let valid = faults(&json!({"multipleOf": step}), &number).is_empty();
        assert_eq!(valid, is_multiple, "{number} of {step}");
    }
}

#[test]
fn a_refused_null_counts_as_the_absence_of_an_optional_member() {
    let schema = json!({
        "type": "object", "required": ["name"], "additionalProperties": false,
        "properties": {
            "name": {"type": "string"}, "a/b": {"type": "integer"}, "kind": {"enum": ["x", "y"]},
            "maybe": {"type": ["string", "null"]}, "place": {"$ref": "#/$defs/place"},
            "rows": {"type": "array", "items": {"type": "integer"}},
        },
        "$defs": {"place": {"type": "object", "properties": {"zone": {"type": "string"}}}},
    });
    let schema = Schema::compile(schema).unwrap();
    let sent = json!({"name": "n", "a/b": null, "kind": null, "maybe": null, "place": {"zone": null}});
    assert_eq!(schema.without_refused_nulls(&sent), Some(json!({"name": "n", "maybe": null, "place": {}})));
    for refused in [
        json!({"name": null}),
        json!({"name": "n", "kind": null, "a/b": "one"}),
        json!({"name": "n", "rows": [null]}),
        json!({"name": "n", "other": null}),
    ] {
        assert_eq!(schema.without_refused_nulls(&refused), None, "{refused}");
    }
}
