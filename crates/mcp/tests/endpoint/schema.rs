//! The published schemas, and whether a message matches them.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

static SCHEMAS: LazyLock<HashMap<&str, Value>> = LazyLock::new(|| {
    let parse = |text| serde_json::from_str(text).unwrap();
    HashMap::from([
        ("tasks-extension", parse(include_str!("../schemas/tasks-extension.json"))),
        ("operations", parse(include_str!("../schemas/operations.json"))),
        ("async-calls", parse(include_str!("../schemas/async-calls.json"))),
        ("2025-11-25", parse(include_str!("../schemas/2025-11-25.json"))),
        ("2026-07-28", parse(include_str!("../schemas/2026-07-28.json"))),
    ])
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> = LazyLock::new(Mutex::default);

fn validator(schema: &str, definition: &str) -> &'static Validator {
    let mut validators = VALIDATORS.lock().unwrap();
    validators.entry(format!("{schema} {definition}")).or_insert_with(|| {
        let definitions = &SCHEMAS[schema]["$defs"];
        assert!(definitions.get(definition).is_some(), "{schema} has no {definition}");
        let root = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/$defs/{definition}"),
            "$defs": definitions,
        });
        Box::leak(Box::new(jsonschema::validator_for(&root).unwrap()))
    })
}

/// Panics if `message` does not match `definition` of `schema`.
#[track_caller]
pub(crate) fn is(schema: &str, definition: &str, message: &Value) {
    let errors: Vec<String> =
        validator(schema, definition).iter_errors(message).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "not a {definition} of {schema}: {errors:?}\n{message:#}");
}

#[test]
fn the_schemas_accept_a_task_and_refuse_what_is_not_one() {
    let task = json!({
        "resultType": "complete", "taskId": "a", "status": "working", "createdAt": "2026-01-01T00:00:00.000Z",
        "lastUpdatedAt": "2026-01-01T00:00:00.000Z", "ttlMs": 1, "pollIntervalMs": 1,
    });
    is("tasks-extension", "GetTaskResult", &task);
    let mut wrong = task;
    wrong["status"] = "submitted".into();
    assert!(!validator("tasks-extension", "GetTaskResult").is_valid(&wrong));
}
