//! Strings with placeholders for values that are known only when a job is started or polled.

use serde_json::Value;

use crate::jobs::job::JobError;

/// A text with placeholders: `{id}`, `{key}`, `{input}`, and `{input/name}` for one of the arguments. `{{` and `}}` are
/// braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place(Place),
}

/// The value that a placeholder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The system's name for the job.
    Id,
    /// Our name for it.
    Key,
    /// The arguments, or what a JSON pointer leads to in them.
    Input(String),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'v> {
    pub(crate) id: Option<&'v str>,
    pub(crate) key: Option<&'v str>,
    pub(crate) input: Option<&'v Value>,
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = from.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else if let Some((inside, after)) = from.strip_prefix('{').and_then(|from| from.split_once('}')) {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Place(place(inside)?));
                rest = after;
            } else {
                return Err("a `{` or `}` is alone: write `{{` or `}}` for the character itself".to_owned());
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self(pieces))
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Place(place) => Some(place),
            Piece::Text(_) => None,
        })
    }

    /// The text before the first placeholder.
    pub(crate) fn beginning(&self) -> &str {
        match self.0.first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// The text, with `write` applied to the values of the placeholders.
    pub(crate) fn text(&self, known: Known<'_>, write: fn(&str) -> Result<String, String>) -> Result<String, JobError> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Place(place) => {
                    let value = match known.find(place)? {
                        Value::String(value) => value,
                        other => other.to_string(),
                    };
                    text.push_str(&write(&value).map_err(JobError::Refused)?);
                }
            }
        }
        Ok(text)
    }

    /// The same as a JSON value. A placeholder that is the whole text keeps the type of its value.
    pub(crate) fn value(&self, known: Known<'_>) -> Result<Value, JobError> {
        match self.0.as_slice() {
            [Piece::Place(place)] => known.find(place),
            _ => self.text(known, |value| Ok(value.to_owned())).map(Value::String),
        }
    }
}

impl Known<'_> {
    fn find(self, place: &Place) -> Result<Value, JobError> {
        let unknown = |what: &str| JobError::Refused(format!("{what} is not known here"));
        match place {
            Place::Id => self.id.map(Value::from).ok_or_else(|| unknown("the id of the job")),
            Place::Key => self.key.map(Value::from).ok_or_else(|| unknown("the key of the job")),
            Place::Input(pointer) => {
                let input = self.input.ok_or_else(|| unknown("the input of the job"))?;
                let found = input.pointer(pointer).cloned();
                found.ok_or_else(|| JobError::Refused(format!("the arguments have nothing at {pointer}")))
            }
        }
    }
}

fn place(inside: &str) -> Result<Place, String> {
    match inside {
        "id" => Ok(Place::Id),
        "key" => Ok(Place::Key),
        "input" => Ok(Place::Input(String::new())),
        _ => match inside.strip_prefix("input") {
            Some(pointer) if pointer.starts_with('/') => Ok(Place::Input(pointer.to_owned())),
            _ => Err(format!(
                "`{{{inside}}}` is not known: there are {{id}}, {{key}}, {{input}}, and {{input/name}} for one of the \
                 arguments"
            )),
        },
    }
}

/// A value as part of a path or a query, where it cannot lead elsewhere.
pub(crate) fn in_url(value: &str) -> Result<String, String> {
    if ["", ".", ".."].contains(&value) {
        return Err(format!("`{value}` cannot be a part of a URL"));
    }
    let mut escaped = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_filled_with_what_is_known() {
        let input = json!({"name": "a b/c", "list": [1], "deep": {"x": 7}});
        let known = Known { id: Some("7/8"), key: Some("k"), input: Some(&input) };
        let text = |text: &str| Template::parse(text).unwrap().text(known, in_url).unwrap();
        assert_eq!(text("https://h/jobs/{id}?k={key}&n={input/name}"), "https://h/jobs/7%2F8?k=k&n=a%20b%2Fc");
        assert_eq!(text("{{{input/deep/x}}}"), "{7}");
        let value = |text: &str| Template::parse(text).unwrap().value(known).unwrap();
        assert_eq!(
            [value("{input}"), value("{input/list}"), value("n={input/deep/x}")],
            [input.clone(), json!([1]), json!("n=7")]
        );
    }

    #[test]
    fn what_cannot_be_filled_is_named() {
        for wrong in ["{ids}", "{inputs}", "{", "a}b", "{id"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
        let missing =
            Template::parse("{input/name}").unwrap().value(Known { input: Some(&json!({})), ..Known::default() });
        assert_eq!(missing, Err(JobError::Refused("the arguments have nothing at /name".to_owned())));
        for nowhere in ["", ".", ".."] {
            assert!(in_url(nowhere).is_err());
        }
    }
}
