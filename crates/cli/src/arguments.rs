//! Arguments as they are given at the command line: `key=value`, `key:=json`, `@FILE` and `-`.

use std::io::Read;

use longhaul_client::form::typed;
use longhaul_core::settings::text_in;
use longhaul_core::strict_json;
use serde_json::{Map, Value};

use crate::limits::GIVEN_BYTES_MAX;

/// The arguments for a schema. A later one replaces an earlier one of the same name.
pub(crate) fn read(given: &[String], schema: &Value) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for one in given {
        match one.as_str() {
            "-" => all.extend(object(std::io::stdin().lock(), "the standard input")?),
            file if file.starts_with('@') => {
                let name = file.trim_start_matches('@');
                let open = std::fs::File::open(name).map_err(|error| format!("`{name}` cannot be read: {error}"))?;
                all.extend(object(open, &format!("`{name}`"))?);
            }
            pair => {
                let (name, value) = self::pair(pair, schema)?;
                all.insert(name, value);
            }
        }
    }
    check_names(&all, schema)?;
    Ok(all)
}

fn object(from: impl Read, what: &str) -> Result<Map<String, Value>, String> {
    let text = text_in(from, GIVEN_BYTES_MAX).map_err(|error| format!("{what} cannot be read: {error}"))?;
    strict_json::from_str(&text).map_err(|error| format!("{what} is not a JSON object: {error}"))
}

fn pair(pair: &str, schema: &Value) -> Result<(String, Value), String> {
    let wrong = || format!("`{pair}` is none of key=value, key:=json, @FILE and -");
    let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
    if let Some(name) = name.strip_suffix(':') {
        let value = strict_json::from_str(value).map_err(|error| format!("`{name}` is not JSON: {error}"))?;
        return Ok((name.to_owned(), value));
    }
    if name.is_empty() {
        return Err(wrong());
    }
    let value =
        typed(value, &schema["properties"][name], schema).map_err(|expected| format!("`{name}` must be {expected}"))?;
    Ok((name.to_owned(), value))
}

fn check_names(all: &Map<String, Value>, schema: &Value) -> Result<(), String> {
    let no_names = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&no_names);
    if schema["additionalProperties"] == Value::Bool(false)
        && let Some(name) = all.keys().find(|name| !known.contains_key(*name))
    {
        return Err(format!("there is no argument `{name}`{}", meant(name, known.keys())));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match required.into_iter().find(|name| !all.contains_key(*name)) {
        Some(name) => Err(format!("`{name}` is missing")),
        None => Ok(()),
    }
}

/// The end of a sentence about an unknown name.
pub(crate) fn meant<'n, N: AsRef<str> + ?Sized + 'n>(name: &str, known: impl Iterator<Item = &'n N>) -> String {
    let known: Vec<&str> = known.map(AsRef::as_ref).collect();
    let near = |one: &&&str| strsim::jaro_winkler(name, one);
    match known.iter().max_by(|one, other| near(one).total_cmp(&near(other))).filter(|one| near(one) > 0.8) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; there are: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"properties": {"n": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": ["boolean", "null"]},
            "t": {"type": "string"}, "list": {"type": "array"}, "r": {"anyOf":
                [{"$ref": "#/$defs/r"}, {"type": "null"}]}},
            "$defs": {"r": {"type": "integer"}}, "required": ["n"], "additionalProperties": false})
    }

    fn said(given: &[&str]) -> Result<Value, String> {
        let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
        read(&given, &schema()).map(Value::Object)
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        let all = said(&["n=3", "x=-2.5", "b=true", "t=3", "list=[1]", "r=4"]);
        assert_eq!(all, Ok(json!({"n": 3, "x": -2.5, "b": true, "t": "3", "list": [1], "r": 4})));
        assert_eq!(said(&["n:=1", "t:=\"a=b\"", "n=2"]), Ok(json!({"n": 2, "t": "a=b"})));
        assert_eq!(said(&["n=1", "t=a=b"]), Ok(json!({"n": 1, "t": "a=b"})));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (given, expected) in [
            (&["n=x"][..], "`n` must be a whole number"),
            (&["n=1", "list=a"], "`list` must be a JSON array"),
            (&["t=a"], "`n` is missing"),
            (&["n=1", "tt=a"], "there is no argument `tt`"),
            (&["n"], "is none of"),
            (&["=1"], "is none of"),
            (&["n:=x"], "`n` is not JSON"),
            (&["@no/such/file"], "`no/such/file` cannot be read"),
        ] {
            let why = said(given).unwrap_err();
            assert!(why.starts_with(expected) || why.contains(expected), "{given:?}: {why}");
        }
    }
}
