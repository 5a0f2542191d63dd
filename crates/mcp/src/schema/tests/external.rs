//! The official test suite of JSON Schema, which `scripts/setup-tools.sh schemas` installs.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::super::Schema;

/// The drafts, and how a schema names them.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];

/// The cases that do not compile. All of them refer to another document, or to a dialect that is in one.
const REFUSED: &[&str] = &[
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $defs first",
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $ref first",
    "dynamicRef: $ref to $dynamicRef finds detached $dynamicAnchor",
    "dynamicRef: strict-tree schema, guards against misspelled properties",
    "dynamicRef: tests for implementation dynamic anchor and reference link",
    "optional/cross-draft: refs to future drafts are processed as future drafts",
    "optional/cross-draft: refs to historic drafts are processed as historic drafts",
    "optional/format-assertion: schema that uses custom metaschema with format-assertion: false",
    "optional/format-assertion: schema that uses custom metaschema with format-assertion: true",
    "refRemote: $ref to $ref finds detached $anchor",
    "refRemote: $ref to $ref finds location-independent $id",
    "refRemote: Location-independent identifier in remote ref",
    "refRemote: anchor within remote ref",
    "refRemote: base URI change",
    "refRemote: base URI change - change folder",
    "refRemote: base URI change - change folder in subschema",
    "refRemote: fragment within remote ref",
    "refRemote: ref within remote ref",
    "refRemote: remote HTTP ref with different $id",
    "refRemote: remote HTTP ref with different URN $id",
    "refRemote: remote HTTP ref with nested absolute ref",
    "refRemote: remote ref",
    "refRemote: remote ref with ref to definitions",
    "refRemote: remote ref with ref to defs",
    "refRemote: retrieved nested refs resolve relative to their URI not $id",
    "refRemote: root ref in remote ref",
    "vocabulary: ignore unrecognized optional vocabulary",
    "vocabulary: schema that uses custom metaschema with with no validation vocabulary",
];

/// The tests with another answer: contents of texts are not looked into.
const DIFFERENT: &[&str] = &[
    "optional/content: validation of binary string-encoding: an invalid base64 string (% is not a valid character)",
    "optional/content: validation of binary-encoded media type documents: a validly-encoded invalid JSON document",
    "optional/content: validation of binary-encoded media type documents: an invalid base64 string that is valid JSON",
    "optional/content: validation of string-encoded content based on media type: an invalid JSON document",
];

/// What the tests of all drafts say.
#[derive(Default)]
struct Answers {
    tests: usize,
    refused: BTreeSet<String>,
    different: BTreeSet<String>,
}

impl Answers {
    fn add(&mut self, name: &str, schema: Value, tests: &Value) {
        let Ok(schema) = Schema::compile(schema) else {
            self.refused.insert(name.to_owned());
            return;
        };
        for test in tests.as_array().unwrap() {
            self.tests += 1;
            if schema.check(&test["data"]).is_ok() != test["valid"].as_bool().unwrap() {
                self.different.insert(format!("{name}: {}", test["description"].as_str().unwrap()));
            }
        }
    }

    fn add_file(&mut self, name: &str, text: &[u8], dialect: &str) {
        let cases: Vec<Value> = serde_json::from_slice(text).unwrap();
        for case in cases {
            let mut schema = case["schema"].clone();
            if let Some(keywords) = schema.as_object_mut() {
                keywords.entry("$schema").or_insert_with(|| dialect.into());
            }
            self.add(&format!("{name}: {}", case["description"].as_str().unwrap()), schema, &case["tests"]);
        }
    }
}

#[test]
fn every_draft_is_checked_as_its_official_tests_say() {
    let suite = harness::root().join(".cache/tools/schemas/tests");
    let mut answers = Answers::default();
    for (draft, dialect) in DRAFTS {
        let (folder, optional) = (suite.join(draft), suite.join(draft).join("optional"));
        let entries = [&folder, &optional].into_iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let name = path.strip_prefix(&folder).unwrap().with_extension("");
            answers.add_file(&name.display().to_string(), &fs::read(&path).unwrap(), dialect);
        }
    }
    let Answers { tests, refused, different } = answers;
    assert!(tests > 5_000, "{tests} tests");
    assert_eq!(refused.iter().map(String::as_str).collect::<Vec<_>>(), REFUSED);
    assert_eq!(different.iter().map(String::as_str).collect::<Vec<_>>(), DIFFERENT);
}
