//! The JSON Schemas of tools' arguments: compiled once by `jsonschema`, and checked against the arguments of a call.
//!
//! All drafts from 4 on are known; a schema without `$schema` is of draft 2020-12. These are refused when a server
//! starts, so that no rule is silently ignored:
//!
//! - schemas that their draft's own schema refuses, and those of other drafts;
//! - references to other documents, since nothing is fetched;
//! - patterns that need backtracking (look-around, back references), since their time is not linear;
//! - schemas that are too large, too deep, or have too many alternatives for one value: see the limits below.
//!
//! Keywords that only describe mean nothing here: `format`, `contentEncoding`, `contentMediaType` and unknown ones.

mod explain;
mod words;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

use self::explain::Explainer;

/// Values in a schema, at most.
const VALUES_MAX: usize = 50_000;

/// The deepest nesting of a schema, in values.
const DEPTH_MAX: usize = 128;

/// Schemas that may apply to one value, at most: alternatives inside alternatives multiply.
const ALTERNATIVES_MAX: u64 = 1_000;

/// The assumption about a reference that is not a JSON pointer.
const ALTERNATIVES_OF_A_NAME: u64 = 50;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    source: Value,
    validator: Validator,
    /// The most alternatives that one value has.
    alternatives: u64,
}

/// Why a schema cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}, at `{at}`")]
pub struct SchemaError {
    /// Where, as a JSON pointer in a URI fragment.
    at: String,
    why: String,
}

impl Schema {
    /// Compiles a schema.
    pub(crate) fn compile(source: Value) -> Result<Self, SchemaError> {
        let root = |why: String| SchemaError { at: "#".to_owned(), why };
        let draft = Draft::default().detect(&source);
        if draft == Draft::Unknown {
            let named = source.get("$schema").map(words::shown).unwrap_or_default();
            return Err(root(format!(
                "the dialect {named} is not known: use draft 2020-12, or an older one from 4 on"
            )));
        }
        let mut size = Size { root: &source, values: 0, alternatives: 1 };
        if !size.is_within_limits(&source, 0) {
            return Err(root(format!("there are more than {VALUES_MAX} values, or more than {DEPTH_MAX} levels")));
        }
        let alternatives = size.alternatives;
        if alternatives >= ALTERNATIVES_MAX {
            return Err(root(format!("one value may have more than {ALTERNATIVES_MAX} alternatives")));
        }
        let options = jsonschema::options()
            .with_draft(draft)
            .with_pattern_options(PatternOptions::regex())
            .should_validate_formats(false)
            .without_content_encoding_support("base64")
            .without_content_media_type_support("application/json")
            .offline();
        match options.build(&source) {
            Ok(validator) => Ok(Self { source, validator, alternatives }),
            Err(error) => {
                let (at, why) = explain::refused(&error, &source);
                Err(SchemaError { at, why })
            }
        }
    }

    /// Checks the arguments of a call.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), Vec<String>> {
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        Err(self.explainer().explain(arguments))
    }

    /// The arguments without the members whose value is a refused `null`, if they match then. Many clients send `null`
    /// for an optional member that has no value.
    pub(crate) fn without_refused_nulls(&self, arguments: &Value) -> Option<Value> {
        let mut without = arguments.clone();
        for at in self.explainer().refused_nulls(arguments) {
            let (parent, name) = at.rsplit_once('/')?;
            let name = name.replace("~1", "/").replace("~0", "~");
            without.pointer_mut(parent)?.as_object_mut()?.remove(&name);
        }
        self.validator.is_valid(&without).then_some(without)
    }

    const fn explainer(&self) -> Explainer<'_> {
        let Self { source: schema, validator, alternatives } = self;
        Explainer { schema, validator, alternatives: *alternatives }
    }
}

/// The counts of a schema before it is compiled.
struct Size<'a> {
    root: &'a Value,
    values: usize,
    /// The most schemas that apply to any one value, which is `ALTERNATIVES_MAX` if it would be more.
    alternatives: u64,
}

impl Size<'_> {
    fn is_within_limits(&mut self, value: &Value, depth: usize) -> bool {
        self.values += 1;
        if depth > DEPTH_MAX || self.values > VALUES_MAX {
            return false;
        }
        match value {
            Value::Object(members) => {
                self.count_alternatives(value, members);
                members.values().all(|member| self.is_within_limits(member, depth + 1))
            }
            Value::Array(items) => items.iter().all(|item| self.is_within_limits(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    fn count_alternatives(&mut self, schema: &Value, keywords: &Map<String, Value>) {
        if keywords.keys().any(|keyword| is_in_place(keyword)) {
            let mut left = ALTERNATIVES_MAX;
            let here = self.alternatives_of(schema, &mut left);
            self.alternatives = self.alternatives.max(if left == 0 { ALTERNATIVES_MAX } else { here });
        }
    }

    /// The schemas without further alternatives that apply to the same value as `schema`, while there are some `left`.
    fn alternatives_of(&self, schema: &Value, left: &mut u64) -> u64 {
        *left = left.saturating_sub(1);
        let Some(keywords) = schema.as_object().filter(|_| *left > 0) else { return 1 };
        let in_place = keywords.iter().filter(|(keyword, _)| is_in_place(keyword));
        in_place.map(|(_, value)| self.alternatives_in(value, left)).sum::<u64>().max(1)
    }

    /// The same of all schemas that the value of a keyword has, or refers to.
    fn alternatives_in(&self, value: &Value, left: &mut u64) -> u64 {
        let target = |name: &str| self.root.pointer(name.strip_prefix('#')?);
        match value {
            Value::Array(all) => all.iter().map(|one| self.alternatives_of(one, left)).sum(),
            Value::String(name) => match target(name) {
                Some(target) => self.alternatives_of(target, left),
                None => {
                    *left = left.saturating_sub(ALTERNATIVES_OF_A_NAME);
                    ALTERNATIVES_OF_A_NAME
                }
            },
            one => self.alternatives_of(one, left),
        }
    }
}

/// Whether the schemas of a keyword apply to the same value as the schema that it is in.
fn is_in_place(keyword: &str) -> bool {
    matches!(
        keyword,
        "$dynamicRef" | "$recursiveRef" | "$ref" | "allOf" | "anyOf" | "else" | "if" | "not" | "oneOf" | "then"
    )
}

#[cfg(test)]
mod tests;
