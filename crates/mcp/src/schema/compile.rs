//! Compiling a schema. It fails for whatever could not be checked, and says where that is.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_json::{Map, Number, Value};

use super::{
    Condition, Contains, Index, ListRules, Node, NumberRules, ObjectRules, Range, Rules, Schema, TextRules, Type,
};

/// Schemas inside a schema, at most.
const NODES_MAX: usize = 10_000;

/// How deep they may be inside each other.
const DEPTH_MAX: usize = 64;

/// The dialects. `docs/writing-tools.md` names them.
const LATEST: &str = "https://json-schema.org/draft/2020-12/schema";
const DRAFT_07: [&str; 2] = ["http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema"];

/// What the keywords of a schema mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Latest,
    /// `$ref` stands alone, `items` may be an array, `dependencies` are one keyword, and what is newer has no meaning.
    Draft07,
}

impl Dialect {
    fn of(source: &Value) -> Result<Self, SchemaError> {
        let Some(named) = source.get("$schema") else { return Ok(Self::Latest) };
        match named.as_str().unwrap_or_default().trim_end_matches('#') {
            LATEST => Ok(Self::Latest),
            older if DRAFT_07.contains(&older) => Ok(Self::Draft07),
            other => Err(error("#", format!("the dialect must be {LATEST} or draft-07, not {other:?}"))),
        }
    }
}

/// Keywords that have a meaning and are not checked.
const NOT_SUPPORTED: [&str; 4] = ["unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"];

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
    ///
    /// # Errors
    /// [`SchemaError`] if it is not a schema, or says something that cannot be checked.
    pub(crate) fn compile(source: &Value) -> Result<Self, SchemaError> {
        let dialect = Dialect::of(source)?;
        let mut compiler = Compiler { source, dialect, nodes: Vec::new(), known: BTreeMap::new() };
        let root = compiler.schema(source, "#", 0)?;
        Ok(Self { nodes: compiler.nodes, root })
    }
}

fn error(at: &str, why: impl Into<String>) -> SchemaError {
    SchemaError { at: at.to_owned(), why: why.into() }
}

struct Compiler<'a> {
    source: &'a Value,
    dialect: Dialect,
    nodes: Vec<Node>,
    /// By their place in the source.
    known: BTreeMap<String, Index>,
}

impl<'a> Compiler<'a> {
    fn schema(&mut self, source: &'a Value, at: &str, depth: usize) -> Result<Index, SchemaError> {
        if let Some(index) = self.known.get(at) {
            return Ok(*index);
        }
        if depth > DEPTH_MAX || self.nodes.len() >= NODES_MAX {
            return Err(error(at, format!("there are more than {NODES_MAX} schemas, or more than {DEPTH_MAX} levels")));
        }
        let index = self.nodes.len();
        self.known.insert(at.to_owned(), index);
        // Its place is taken first: it may refer to itself.
        self.nodes.push(Node::Anything);
        let node = match source {
            Value::Bool(true) => Node::Anything,
            Value::Bool(false) => Node::Nothing,
            Value::Object(keywords) => Node::Rules(Box::new(Reader { keywords, at, depth, compiler: self }.rules()?)),
            _ => return Err(error(at, "a schema must be an object, true or false")),
        };
        if let Some(place) = self.nodes.get_mut(index) {
            *place = node;
        }
        Ok(index)
    }

    /// The schema that `$ref` names: a place in the same document. Nothing is ever fetched.
    fn reference(&mut self, reference: &str, at: &str, depth: usize) -> Result<Index, SchemaError> {
        let pointer = reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        let Some(pointer) = pointer else {
            let why =
                format!("`$ref` {reference:?} is not a place in this schema (`#/…`), and nothing else is looked up");
            return Err(error(at, why));
        };
        let source = self.source;
        match source.pointer(pointer) {
            Some(target) => self.schema(target, reference, depth),
            None => Err(error(at, format!("`$ref` {reference:?} does not exist"))),
        }
    }
}

type Dependencies = (BTreeMap<String, Vec<String>>, BTreeMap<String, Index>);

/// Reads the keywords of one schema.
struct Reader<'a, 'c> {
    keywords: &'a Map<String, Value>,
    at: &'c str,
    depth: usize,
    compiler: &'c mut Compiler<'a>,
}

impl<'a> Reader<'a, '_> {
    fn rules(mut self) -> Result<Rules, SchemaError> {
        if let Some(keyword) = NOT_SUPPORTED.into_iter().find(|keyword| self.keywords.contains_key(*keyword)) {
            return Err(error(self.at, format!("`{keyword}` is not supported")));
        }
        if self.depth > 0 && self.keywords.contains_key("$id") {
            return Err(error(self.at, "`$id` inside a schema is not supported"));
        }
        let reference = self.referred()?;
        if reference.is_some() && self.compiler.dialect == Dialect::Draft07 {
            return Ok(Rules { reference, ..Rules::default() });
        }
        Ok(Rules {
            reference,
            types: self.types()?,
            allowed: self.allowed()?,
            number: self.number()?,
            text: self.text()?,
            list: self.list()?,
            object: self.object()?,
            all_of: self.schemas("allOf")?,
            any_of: self.schemas("anyOf")?,
            one_of: self.schemas("oneOf")?,
            not: self.sub("not")?,
            condition: self.condition()?,
        })
    }

    fn referred(&mut self) -> Result<Option<Index>, SchemaError> {
        let Some(reference) = self.keywords.get("$ref") else { return Ok(None) };
        let Some(reference) = reference.as_str() else { return Err(self.wrong("$ref", "a string")) };
        self.compiler.reference(reference, self.at, self.depth + 1).map(Some)
    }

    fn types(&self) -> Result<Option<Vec<Type>>, SchemaError> {
        let one = |name: &Value| name.as_str().and_then(Type::named);
        let types = match self.keywords.get("type") {
            None => return Ok(None),
            Some(Value::Array(names)) => names.iter().map(one).collect(),
            Some(name) => one(name).map(|kind| vec![kind]),
        };
        types.map(Some).ok_or_else(|| self.wrong("type", "the name of a type, or an array of them"))
    }

    fn allowed(&self) -> Result<Option<Vec<Value>>, SchemaError> {
        let only = self.keywords.get("const");
        match (self.keywords.get("enum"), only) {
            (None, None) => Ok(None),
            (None, Some(only)) => Ok(Some(vec![only.clone()])),
            (Some(Value::Array(values)), None) => Ok(Some(values.clone())),
            (Some(Value::Array(values)), Some(only)) => {
                Ok(Some(values.iter().filter(|value| super::number::same(value, only)).cloned().collect()))
            }
            (Some(_), _) => Err(self.wrong("enum", "an array")),
        }
    }

    fn number(&self) -> Result<NumberRules, SchemaError> {
        let multiple_of = self.bound("multipleOf")?;
        if multiple_of.as_ref().and_then(Number::as_f64).is_some_and(|step| step <= 0.0) {
            return Err(self.wrong("multipleOf", "greater than 0"));
        }
        Ok(NumberRules {
            minimum: self.bound("minimum")?,
            maximum: self.bound("maximum")?,
            exclusive_minimum: self.bound("exclusiveMinimum")?,
            exclusive_maximum: self.bound("exclusiveMaximum")?,
            multiple_of,
        })
    }

    fn text(&self) -> Result<TextRules, SchemaError> {
        let pattern = match self.keywords.get("pattern") {
            None => None,
            Some(Value::String(pattern)) => Some(self.pattern(pattern)?),
            Some(_) => return Err(self.wrong("pattern", "a string")),
        };
        Ok(TextRules { characters: self.range("minLength", "maxLength")?, pattern })
    }

    fn list(&mut self) -> Result<ListRules, SchemaError> {
        let contains = match self.sub("contains")? {
            None => None,
            Some(schema) => {
                let Range { min, max } = match self.compiler.dialect {
                    Dialect::Latest => self.range("minContains", "maxContains")?,
                    Dialect::Draft07 => Range::default(),
                };
                Some(Contains { schema, count: Range { min: min.or(Some(1)), max } })
            }
        };
        let unique = match self.keywords.get("uniqueItems") {
            None => false,
            Some(Value::Bool(unique)) => *unique,
            Some(_) => return Err(self.wrong("uniqueItems", "true or false")),
        };
        let (prefix, rest) = match self.compiler.dialect {
            Dialect::Latest => (self.schemas("prefixItems")?, self.sub("items")?),
            Dialect::Draft07 if self.keywords.get("items").is_some_and(Value::is_array) => {
                (self.schemas("items")?, self.sub("additionalItems")?)
            }
            Dialect::Draft07 => (Vec::new(), self.sub("items")?),
        };
        Ok(ListRules { prefix, rest, count: self.range("minItems", "maxItems")?, unique, contains })
    }

    fn object(&mut self) -> Result<ObjectRules, SchemaError> {
        let mut patterns = Vec::new();
        for (pattern, index) in self.named("patternProperties")? {
            patterns.push((self.pattern(&pattern)?, index));
        }
        let (required_with, schema_with) = self.dependencies()?;
        let required = match self.keywords.get("required") {
            None => Vec::new(),
            Some(names) => self.names("required", names)?,
        };
        Ok(ObjectRules {
            properties: self.named("properties")?,
            patterns,
            others: self.sub("additionalProperties")?,
            names: self.sub("propertyNames")?,
            required,
            count: self.range("minProperties", "maxProperties")?,
            required_with,
            schema_with,
        })
    }

    /// What else an object must have, and be, if it has a member of this name.
    fn dependencies(&mut self) -> Result<Dependencies, SchemaError> {
        let (mut required_with, mut schema_with) = (BTreeMap::new(), BTreeMap::new());
        if self.compiler.dialect == Dialect::Latest {
            for (name, names) in self.fields("dependentRequired")? {
                required_with.insert(name.clone(), self.names("dependentRequired", names)?);
            }
            return Ok((required_with, self.named("dependentSchemas")?));
        }
        for (name, needed) in self.fields("dependencies")? {
            if needed.is_array() {
                required_with.insert(name.clone(), self.names("dependencies", needed)?);
            } else {
                let at = format!("{}/dependencies/{}", self.at, escaped(name));
                schema_with.insert(name.clone(), self.compiler.schema(needed, &at, self.depth + 1)?);
            }
        }
        Ok((required_with, schema_with))
    }

    fn condition(&mut self) -> Result<Option<Condition>, SchemaError> {
        let Some(when) = self.sub("if")? else { return Ok(None) };
        Ok(Some(Condition { when, then: self.sub("then")?, otherwise: self.sub("else")? }))
    }

    fn wrong(&self, keyword: &str, expected: &str) -> SchemaError {
        error(self.at, format!("`{keyword}` must be {expected}"))
    }

    fn pattern(&self, pattern: &str) -> Result<Regex, SchemaError> {
        Regex::new(pattern)
            .map_err(|cause| error(self.at, format!("the pattern {pattern:?} is not supported: {cause}")))
    }

    fn bound(&self, keyword: &str) -> Result<Option<Number>, SchemaError> {
        match self.keywords.get(keyword) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number.clone())),
            Some(_) => Err(self.wrong(keyword, "a number")),
        }
    }

    fn range(&self, min: &str, max: &str) -> Result<Range, SchemaError> {
        let count = |keyword: &str| match self.keywords.get(keyword) {
            None => Ok(None),
            Some(count) => super::number::as_count(count)
                .map(Some)
                .ok_or_else(|| self.wrong(keyword, "a whole number, and not negative")),
        };
        Ok(Range { min: count(min)?, max: count(max)? })
    }

    fn names(&self, keyword: &str, names: &Value) -> Result<Vec<String>, SchemaError> {
        let names =
            names.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
        names.ok_or_else(|| self.wrong(keyword, "an array of strings"))
    }

    fn fields(&self, keyword: &str) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, SchemaError> {
        let fields = self.keywords.get(keyword);
        match fields.map(Value::as_object) {
            None => Ok(None.into_iter().flatten()),
            Some(Some(fields)) => Ok(Some(fields.iter()).into_iter().flatten()),
            Some(None) => Err(self.wrong(keyword, "an object")),
        }
    }

    /// The schemas of a keyword that has one for each name.
    fn named(&mut self, keyword: &str) -> Result<BTreeMap<String, Index>, SchemaError> {
        let mut named = BTreeMap::new();
        for (name, schema) in self.fields(keyword)? {
            let at = format!("{}/{keyword}/{}", self.at, escaped(name));
            named.insert(name.clone(), self.compiler.schema(schema, &at, self.depth + 1)?);
        }
        Ok(named)
    }

    /// The schemas of a keyword that has an array of them.
    fn schemas(&mut self, keyword: &str) -> Result<Vec<Index>, SchemaError> {
        let schemas = match self.keywords.get(keyword) {
            None => return Ok(Vec::new()),
            Some(Value::Array(schemas)) if !schemas.is_empty() => schemas,
            Some(_) => return Err(self.wrong(keyword, "an array of schemas")),
        };
        let (at, depth) = (self.at, self.depth + 1);
        let schemas = schemas.iter().enumerate();
        schemas
            .map(|(number, schema)| self.compiler.schema(schema, &format!("{at}/{keyword}/{number}"), depth))
            .collect()
    }

    fn sub(&mut self, keyword: &str) -> Result<Option<Index>, SchemaError> {
        let Some(schema) = self.keywords.get(keyword) else { return Ok(None) };
        self.compiler.schema(schema, &format!("{}/{keyword}", self.at), self.depth + 1).map(Some)
    }
}

/// A name as part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
