//! The JSON Schemas of tools' arguments: compiled once, and checked against the arguments of a call.
//!
//! This is the validation vocabulary of draft 2020-12, and of draft-07 for schemas that name it, without what needs
//! other documents or annotations. Whatever a schema says that is not checked here makes compiling fail, so that no
//! rule is silently ignored; `docs/adr/0012-own-checks-of-arguments.md` says why this is not a library. Keywords that
//! only describe, such as `title`, `format` and unknown ones, mean nothing here, as in the specification.

mod check;
mod compile;
mod fault;
mod number;

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_json::{Number, Value};

pub use compile::SchemaError;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    /// All schemas inside of it. They refer to each other by index, because a schema may contain itself.
    nodes: Vec<Node>,
    root: Index,
}

/// The place of a node in its schema.
type Index = usize;

/// A schema inside a schema.
#[derive(Debug)]
enum Node {
    /// `true`
    Anything,
    /// `false`
    Nothing,
    Rules(Box<Rules>),
}

/// The rules of one schema. What is not given allows everything.
#[derive(Debug, Default)]
struct Rules {
    reference: Option<Index>,
    types: Option<Vec<Type>>,
    /// `enum`, or the only value of `const`.
    allowed: Option<Vec<Value>>,
    number: NumberRules,
    text: TextRules,
    list: ListRules,
    object: ObjectRules,
    all_of: Vec<Index>,
    any_of: Vec<Index>,
    one_of: Vec<Index>,
    not: Option<Index>,
    condition: Option<Condition>,
}

/// The types of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

#[derive(Debug, Default)]
struct NumberRules {
    minimum: Option<Number>,
    maximum: Option<Number>,
    exclusive_minimum: Option<Number>,
    exclusive_maximum: Option<Number>,
    multiple_of: Option<Number>,
}

#[derive(Debug, Default)]
struct TextRules {
    characters: Range,
    pattern: Option<Regex>,
}

#[derive(Debug, Default)]
struct ListRules {
    prefix: Vec<Index>,
    rest: Option<Index>,
    count: Range,
    unique: bool,
    contains: Option<Contains>,
}

/// How many items must match a schema.
#[derive(Debug)]
struct Contains {
    schema: Index,
    count: Range,
}

#[derive(Debug, Default)]
struct ObjectRules {
    properties: BTreeMap<String, Index>,
    patterns: Vec<(Regex, Index)>,
    others: Option<Index>,
    names: Option<Index>,
    required: Vec<String>,
    count: Range,
    /// What must be there too, by the name that requires it.
    required_with: BTreeMap<String, Vec<String>>,
    schema_with: BTreeMap<String, Index>,
}

/// `if`, `then` and `else`.
#[derive(Debug)]
struct Condition {
    when: Index,
    then: Option<Index>,
    otherwise: Option<Index>,
}

/// A number of things: at least, and at most.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    min: Option<u64>,
    max: Option<u64>,
}

impl Type {
    const ALL: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(own, _)| *own == name).map(|(_, kind)| kind)
    }

    fn matches(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Integer, Value::Number(number)) => number::is_whole(number),
            (Self::Null, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Number, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Array, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            (_, _) => false,
        }
    }

    /// As part of a sentence.
    const fn words(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

#[cfg(test)]
mod tests;
