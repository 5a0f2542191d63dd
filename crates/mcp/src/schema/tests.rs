use proptest::prelude::*;
use serde_json::{Value, json};

use super::Schema;

fn faults(schema: &Value, arguments: &Value) -> Vec<String> {
    Schema::compile(schema).unwrap().check(arguments).err().unwrap_or_default()
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
    let endless = json!({"$ref": "#"});
    says(&endless, &json!({}), &["they are nested too deeply, or too large, to be checked"]);
}

#[test]
fn alternatives_inside_of_alternatives_are_given_up_at_some_time() {
    // Two to the power of thirty checks, if nobody counted.
    let mut definitions = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        definitions.insert(level.to_string(), json!({"anyOf": [next, next]}));
    }
    definitions.insert("30".to_owned(), json!({"required": ["x"]}));
    let schema = json!({"$ref": "#/$defs/0", "$defs": definitions});
    says(&schema, &json!({}), &["they are nested too deeply, or too large, to be checked"]);
}

#[test]
fn what_cannot_be_checked_is_not_compiled() {
    for (schema, why) in [
        (
            json!({"properties": {"a": {"$ref": "https://example.com/a"}}}),
            "nothing else is looked up, at `#/properties/a`",
        ),
        (json!({"$ref": "#/$defs/none"}), "does not exist"),
        (json!({"$schema": "http://json-schema.org/draft-04/schema#"}), "the dialect must be"),
        (json!({"unevaluatedProperties": false}), "`unevaluatedProperties` is not supported"),
        (json!({"pattern": "(?=a)"}), "is not supported"),
        (json!({"type": "text"}), "`type` must be"),
        (json!({"required": "a"}), "`required` must be an array of strings"),
        (json!({"minLength": -1}), "`minLength` must be a whole number"),
        (json!({"items": [true]}), "a schema must be an object, true or false, at `#/items`"),
        (json!({"properties": 7}), "`properties` must be an object"),
        (json!({"multipleOf": 0}), "`multipleOf` must be greater than 0"),
    ] {
        let error = Schema::compile(&schema).unwrap_err().to_string();
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

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4_i64..8).prop_map(Value::from),
        (-4_i64..8).prop_map(|number| json!(number as f64 / 2.0)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn keyword() -> impl Strategy<Value = (&'static str, Value)> {
    let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let names = || proptest::collection::btree_set("[abc]", 1..3).prop_map(|names| json!(names));
    let count = |name: &'static str| (0_u64..4).prop_map(move |count| (name, json!(count)));
    let bound = |name: &'static str| (-3_i64..6).prop_map(move |bound| (name, json!(bound as f64 / 2.0)));
    prop_oneof![
        4 => proptest::sample::select(types.to_vec()).prop_map(|name| ("type", json!(name))),
        2 => proptest::sample::subsequence(types.to_vec(), 1..4).prop_map(|names| ("type", json!(names))),
        1 => proptest::collection::vec(value(), 1..4).prop_map(|values| ("enum", json!(values))),
        1 => value().prop_map(|value| ("const", value)),
        1 => bound("minimum"),
        1 => bound("maximum"),
        1 => bound("exclusiveMinimum"),
        1 => bound("exclusiveMaximum"),
        1 => (1_u64..4).prop_map(|step| ("multipleOf", json!(step))),
        1 => count("minLength"),
        1 => count("maxLength"),
        1 => Just(("pattern", json!("^a"))),
        1 => count("minItems"),
        1 => count("maxItems"),
        1 => any::<bool>().prop_map(|unique| ("uniqueItems", json!(unique))),
        1 => count("minContains"),
        1 => count("maxContains"),
        1 => count("minProperties"),
        1 => count("maxProperties"),
        2 => names().prop_map(|names| ("required", names)),
        1 => ("[abc]", names()).prop_map(|(name, names)| ("dependentRequired", json!({name: names}))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let object = |keywords: Vec<(&'static str, Value)>| {
        Value::Object(keywords.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    let leaf = prop_oneof![
        8 => proptest::collection::vec(keyword(), 0..3).prop_map(object),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!({"$ref": "#/$defs/shared"})),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let named = proptest::collection::btree_map("[abc]", inner.clone(), 0..3).prop_map(|named| json!(named));
        let list = proptest::collection::vec(inner.clone(), 1..3).prop_map(|list| json!(list));
        let one = |name: &'static str| inner.clone().prop_map(move |schema| (name, schema));
        let holder = prop_oneof![
            3 => named.clone().prop_map(|named| ("properties", named)),
            1 => inner.clone().prop_map(|schema| ("patternProperties", json!({"^[ab]": schema}))),
            1 => named.prop_map(|named| ("dependentSchemas", named)),
            2 => one("additionalProperties"),
            1 => one("propertyNames"),
            2 => one("items"),
            1 => list.clone().prop_map(|list| ("prefixItems", list)),
            1 => one("contains"),
            1 => list.clone().prop_map(|list| ("allOf", list)),
            2 => list.clone().prop_map(|list| ("anyOf", list)),
            2 => list.prop_map(|list| ("oneOf", list)),
            1 => one("not"),
            1 => one("if"),
            1 => one("then"),
            1 => one("else"),
        ];
        let holders = proptest::collection::vec(holder, 1..4);
        (holders, proptest::collection::vec(keyword(), 0..2))
            .prop_map(move |(holders, keywords)| object(holders.into_iter().chain(keywords).collect()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    /// The same answer as the library that knows all of JSON Schema.
    #[test]
    fn arguments_are_valid_when_the_reference_says_so(
        mut schema in schema(), shared in schema(), arguments in proptest::collection::vec(value(), 1..8),
    ) {
        if let Some(keywords) = schema.as_object_mut() {
            // A definition that refers to itself without end is not a schema.
            let shared = if shared.to_string().contains("$ref") { json!({"type": "integer"}) } else { shared };
            keywords.insert("$defs".to_owned(), json!({"shared": shared}));
        } else {
            schema = json!({});
        }
        let reference = jsonschema::validator_for(&schema).unwrap();
        let own = Schema::compile(&schema).unwrap();
        for arguments in arguments {
            let faults = own.check(&arguments);
            prop_assert_eq!(faults.is_ok(), reference.is_valid(&arguments), "{} {} {:?}", schema, arguments, faults);
        }
    }
}
