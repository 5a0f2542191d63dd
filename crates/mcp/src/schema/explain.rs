//! The errors of `jsonschema` as sentences that name the argument, and what was expected instead.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::Location;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::words::{children, clipped, known, of_type, one_of, path, shown};

/// Faults that are listed, at most.
const FAULTS_MAX: usize = 5;

/// Alternatives that are explained, at most. The library collects the errors of each, in about 13 us.
const EXPLAINED_MAX: u64 = 5_000;

/// References that are followed, one after the other.
const REFERENCES_MAX: usize = 16;

/// Characters of the library's message about a schema.
const CAUSE_MAX: usize = 300;

const SOMETHING: &str = "something else";

type Errors = [ValidationError<'static>];

/// Where and why the library refuses a schema: a JSON pointer in a URI fragment, and a clause.
pub(super) fn refused(error: &ValidationError<'_>, schema: &Value) -> (String, String) {
    if let (Kind::Referencing(_), Some((at, name))) = (error.kind(), outside(schema, "#".to_owned())) {
        let name = clipped(name, CAUSE_MAX);
        return (clipped(&at, CAUSE_MAX), format!("`$ref` names another document, {name:?}, which is not fetched"));
    }
    let why = match (error.kind(), error.instance().as_ref()) {
        (Kind::Format { format }, Value::String(pattern)) if format == "regex" => {
            let pattern = clipped(pattern, CAUSE_MAX);
            format!("the pattern {pattern:?} is not supported: it is wrong, or needs look-around or back references")
        }
        _ => clipped(&error.to_string(), CAUSE_MAX),
    };
    (clipped(&format!("#{}", error.instance_path()), CAUSE_MAX), why)
}

/// The first reference in a schema that does not begin with `#`, and the place of the schema that it is in.
fn outside(schema: &Value, at: String) -> Option<(String, &str)> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).filter(|name| !name.starts_with('#')) {
        return Some((at, name));
    }
    match schema {
        Value::Object(members) => members
            .iter()
            .find_map(|(name, member)| outside(member, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")))),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| outside(item, format!("{at}/{index}")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Explains why arguments do not match a schema.
pub(super) struct Explainer<'s> {
    pub(super) schema: &'s Value,
    pub(super) validator: &'s Validator,
    /// The most alternatives that one value has.
    pub(super) alternatives: u64,
}

impl Explainer<'_> {
    /// The faults of arguments that are not valid, as sentences.
    pub(super) fn explain(&self, arguments: &Value) -> Vec<String> {
        if self.takes_too_long(arguments) {
            return vec!["they do not match the tool's input schema".to_owned()];
        }
        let errors: Vec<_> = self.validator.iter_errors(arguments).collect();
        let mut faults = Vec::new();
        self.add_all(errors.iter(), &mut faults);
        faults
    }

    /// Where a `null` is refused, as JSON pointers.
    pub(super) fn refused_nulls(&self, arguments: &Value) -> Vec<String> {
        if self.takes_too_long(arguments) {
            return Vec::new();
        }
        let errors = self.validator.iter_errors(arguments).filter(|error| error.instance().is_null());
        errors.map(|error| error.instance_path().to_string()).collect()
    }

    fn takes_too_long(&self, arguments: &Value) -> bool {
        let depth = u32::try_from(depth(arguments)).unwrap_or(u32::MAX);
        self.alternatives.saturating_pow(depth) > EXPLAINED_MAX
    }

    /// Adds the meaning of `errors`. If the whole value has another type, only that is added.
    fn add_all<'e>(&self, errors: impl Iterator<Item = &'e ValidationError<'e>> + Clone, faults: &mut Vec<String>) {
        let mismatches: Vec<_> =
            errors.clone().filter(|error| is_mismatch(error)).map(ValidationError::instance_path).collect();
        let mut said: Vec<&Location> = Vec::new();
        for error in errors {
            let at = error.instance_path();
            if faults.len() >= FAULTS_MAX {
                return;
            }
            if !mismatches.contains(&at) {
                self.add(error, faults);
            } else if is_mismatch(error) && !said.contains(&at) {
                said.push(at);
                self.add(error, faults);
            }
        }
    }

    fn add(&self, error: &ValidationError<'_>, faults: &mut Vec<String>) {
        let (schema, at) = (self.schema_of(error), error.instance_path());
        let unknown = |name: &String| {
            let names =
                schema.and_then(|schema| schema.get("properties")?.as_object()).into_iter().flat_map(|all| all.keys());
            format!("{} is not a known argument; {}", path(&at.join(name.as_str()), ""), known(name, names))
        };
        match error.kind() {
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                faults.extend(unexpected.iter().take(FAULTS_MAX - faults.len()).map(unknown));
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => self.add_alternatives(error, context, faults),
            _ => faults.push(self.sentence(error, schema)),
        }
    }

    /// Why no alternative matches: the faults of the only one that was meant, if that can be seen; otherwise all of
    /// them.
    fn add_alternatives(
        &self,
        error: &ValidationError<'_>,
        refused: &[Vec<ValidationError<'static>>],
        faults: &mut Vec<String>,
    ) {
        let at = error.instance_path();
        let depth = at.segments().count();
        // An alternative of another type was not meant, and neither was one with another tag in a field.
        let is_other = |errors: &&Errors| {
            let is_other = |error: &ValidationError<'_>| {
                let below = error.instance_path().segments().count().saturating_sub(depth);
                match error.kind() {
                    Kind::Enum { .. } | Kind::Constant { .. } => below <= 1,
                    _ => is_mismatch(error) && below == 0,
                }
            };
            !errors.iter().any(is_other)
        };
        let mut meant = refused.iter().map(Vec::as_slice).filter(is_other);
        if let (Some(only), None) = (meant.next(), meant.next()) {
            return self.add_all(only.iter(), faults);
        }
        let choices = self.schema.pointer(error.schema_path().as_str()).and_then(Value::as_array);
        let mut expected: Vec<String> = Vec::new();
        for choice in choices.into_iter().flatten().map(|choice| self.expected(choice)) {
            if !expected.contains(&choice) {
                expected.push(choice);
            }
        }
        faults.push(format!(
            "{} must be {}, not {}",
            path(at, "the value"),
            one_of(&expected),
            shown(error.instance())
        ));
    }

    fn sentence(&self, error: &ValidationError<'_>, schema: Option<&Value>) -> String {
        let (at, value) = (path(error.instance_path(), "the value"), error.instance().as_ref());
        let bound =
            |words: &str, limit: &dyn std::fmt::Display| format!("{at} must be {words} {limit}, not {}", shown(value));
        let count = |words: &str, limit: &u64, of: &str, count: usize| {
            format!("{at} must have {words} {limit} {of}, not {count}")
        };
        let items = children(value).count();
        let characters = value.as_str().map_or(0, |text| text.chars().count());
        match error.kind() {
            Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. } => {
                let expected = schema.map_or(SOMETHING.to_owned(), |schema| self.expected(schema));
                format!("{at} must be {expected}, not {}", shown(value))
            }
            Kind::Required { property } => self.missing(error, property.as_str().unwrap_or_default(), schema),
            Kind::FalseSchema => format!("{} must not be given", path(error.instance_path(), "this")),
            Kind::Minimum { limit } => bound("at least", limit),
            Kind::ExclusiveMinimum { limit } => bound("greater than", limit),
            Kind::Maximum { limit } => bound("at most", limit),
            Kind::ExclusiveMaximum { limit } => bound("less than", limit),
            Kind::MultipleOf { multiple_of } => bound("a multiple of", multiple_of),
            Kind::MinLength { limit } => count("at least", limit, "characters", characters),
            Kind::MaxLength { limit } => count("at most", limit, "characters", characters),
            Kind::MinItems { limit } => count("at least", limit, "items", items),
            Kind::MaxItems { limit } => count("at most", limit, "items", items),
            Kind::MinProperties { limit } => count("at least", limit, "fields", items),
            Kind::MaxProperties { limit } => count("at most", limit, "fields", items),
            Kind::Pattern { pattern } => {
                format!("{at} must match the pattern {pattern}, and {} does not", shown(value))
            }
            Kind::UniqueItems => format!("{at} must not have the same item twice"),
            Kind::OneOfMultipleValid { .. } => {
                format!("{at} matches more than one of the forms of which it may have one")
            }
            Kind::Not { .. } => format!("{at} has a value that is not allowed"),
            Kind::PropertyNames { error } => {
                let name = error.instance().as_str().unwrap_or_default();
                format!("{} is not an allowed name", path(&error.instance_path().join(name), ""))
            }
            Kind::Contains => {
                let of = schema.and_then(|schema| Some(self.expected(schema.get("contains")?)));
                format!("{at} has too few or too many items that are {}", of.as_deref().unwrap_or(SOMETHING))
            }
            other => format!("{at} does not match what the schema says by `{}`", other.keyword()),
        }
    }

    fn missing(&self, error: &ValidationError<'_>, name: &str, schema: Option<&Value>) -> String {
        let at = |name: &str| path(&error.instance_path().join(name), "");
        let mut keywords = error.schema_path().as_str().rsplit('/');
        if let (Some(with), Some("dependentRequired" | "dependencies")) = (keywords.next(), keywords.next()) {
            return format!("{} is missing; {} needs it", at(name), at(with));
        }
        let expected = schema.and_then(|schema| Some(self.expected(schema.get("properties")?.get(name)?)));
        let expected = expected.filter(|words| words != SOMETHING).map(|words| format!("; it must be {words}"));
        format!("{} is missing{}", at(name), expected.unwrap_or_default())
    }

    /// The schema whose keyword was not met.
    fn schema_of(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (schema, _keyword) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(schema)
    }

    /// The values that a schema allows, as part of a sentence.
    fn expected(&self, schema: &Value) -> String {
        let mut schema = schema;
        for _ in 0..REFERENCES_MAX {
            if let Some(words) = direct(schema) {
                return words;
            }
            let reference = schema.get("$ref").and_then(Value::as_str);
            match reference.and_then(|name| self.schema.pointer(name.strip_prefix('#')?)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        let choices = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
        let choices: Vec<String> = choices.into_iter().flatten().filter_map(direct).collect();
        if choices.is_empty() { SOMETHING.to_owned() } else { one_of(&choices) }
    }
}

/// The values or types that a schema lists itself.
fn direct(schema: &Value) -> Option<String> {
    if let Some(only) = schema.get("const") {
        return Some(shown(only));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(one_of(&values.iter().map(shown).collect::<Vec<_>>()));
    }
    match schema.get("type")? {
        Value::String(name) => Some(of_type(name).to_owned()),
        Value::Array(names) => {
            Some(one_of(&names.iter().filter_map(|name| Some(of_type(name.as_str()?).to_owned())).collect::<Vec<_>>()))
        }
        _ => None,
    }
}

/// Whether a value is another one altogether.
fn is_mismatch(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. })
}

fn depth(value: &Value) -> usize {
    children(value).map(depth).max().map_or(0, |depth| depth + 1)
}
