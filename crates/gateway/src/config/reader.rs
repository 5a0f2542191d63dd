//! Reading values out of JSON, and noting every mistake with its place.

use std::time::Duration;

use longhaul::settings::EnvSource;
use serde_json::{Map, Value};

use super::error::{ConfigError, Fault};

/// Reads values, and collects mistakes.
pub(super) struct Reader<'e> {
    env: &'e dyn EnvSource,
    not_set: NotSet,
    /// The latest variable that is not set, until `take_unset`.
    unset: Option<String>,
    faults: Vec<Fault>,
}

/// The treatment of a variable that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotSet {
    /// A mistake.
    Mistake,
    /// Another process has its value.
    Elsewhere,
}

/// A value, and where it is.
#[derive(Clone)]
pub(super) struct Node<'v> {
    pub(super) value: &'v Value,
    pub(super) pointer: String,
}

impl<'v> Node<'v> {
    pub(super) fn child(&self, key: &str, value: &'v Value) -> Self {
        Node { value, pointer: format!("{}/{}", self.pointer, key.replace('~', "~0").replace('/', "~1")) }
    }
}

/// The members of an object that were not read yet.
pub(super) struct Members<'v> {
    object: &'v Map<String, Value>,
    pub(super) node: Node<'v>,
    known: Vec<&'static str>,
}

impl<'v> Members<'v> {
    /// A member, if it is there and not null.
    pub(super) fn find(&mut self, key: &'static str) -> Option<Node<'v>> {
        self.known.push(key);
        self.object.get(key).filter(|value| !value.is_null()).map(|value| self.node.child(key, value))
    }

    /// A member, read if it is there.
    pub(super) fn optional<'e, T>(
        &mut self,
        reader: &mut Reader<'e>,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'e>, &Node<'v>) -> Option<T>,
    ) -> Option<T> {
        self.find(key).and_then(|node| read(reader, &node))
    }

    /// A member that has to be there.
    pub(super) fn required<'e, T>(
        &mut self,
        reader: &mut Reader<'e>,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'e>, &Node<'v>) -> Option<T>,
    ) -> Option<T> {
        let node = self.find(key);
        if node.is_none() {
            reader.fault(&self.node.pointer, format!("it has no `{key}`"));
        }
        node.and_then(|node| read(reader, &node))
    }

    /// The place of a member.
    pub(super) fn pointer(&self, key: &str) -> String {
        self.node.child(key, self.node.value).pointer
    }

    /// All of them, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'v String, Node<'v>)> + use<'v> {
        let node = self.node.clone();
        self.object.iter().map(move |(key, value)| (key, node.child(key, value)))
    }

    /// The members that no reader has asked for.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &'v String> {
        self.object.keys().filter(|key| !self.known.contains(&key.as_str()))
    }
}

impl<'e> Reader<'e> {
    pub(super) const fn new(env: &'e dyn EnvSource, not_set: NotSet) -> Self {
        Self { env, not_set, unset: None, faults: Vec::new() }
    }

    /// A variable that is set elsewhere and that left strings without a value since the last call.
    pub(super) const fn take_unset(&mut self) -> Option<String> {
        self.unset.take()
    }

    pub(super) fn fault(&mut self, pointer: &str, what: impl Into<String>) {
        self.faults.push(Fault { pointer: pointer.to_owned(), what: what.into() });
    }

    /// Whether there is no mistake so far.
    pub(super) const fn has_found_nothing(&self) -> bool {
        self.faults.is_empty()
    }

    /// `read`, unless there were mistakes.
    pub(super) fn end<T>(self, read: T) -> Result<T, ConfigError> {
        if self.faults.is_empty() { Ok(read) } else { Err(self.into_error()) }
    }

    pub(super) fn into_error(self) -> ConfigError {
        ConfigError { faults: self.faults }
    }

    pub(super) fn members<'v>(&mut self, node: &Node<'v>) -> Option<Members<'v>> {
        let object = node.value.as_object();
        if object.is_none() {
            self.fault(&node.pointer, "must be an object");
        }
        object.map(|object| Members { object, node: node.clone(), known: Vec::new() })
    }

    /// A text, with the values of the variables in it.
    pub(super) fn text(&mut self, node: &Node<'_>) -> Option<String> {
        let Some(text) = node.value.as_str() else {
            self.fault(&node.pointer, "must be a string");
            return None;
        };
        match expand(text, self.env) {
            Ok(text) => return Some(text),
            Err(Unexpanded::NotSet(name)) if self.not_set == NotSet::Elsewhere => self.unset = Some(name),
            Err(Unexpanded::NotSet(name)) => self.fault(
                &node.pointer,
                format!("the environment variable `{name}` is not set; `${{{name}:-}}` would be empty then"),
            ),
            Err(Unexpanded::Wrong(what)) => self.fault(&node.pointer, what),
        }
        None
    }

    /// A text, number or boolean, as clients accept them in `env`.
    pub(super) fn scalar(&mut self, node: &Node<'_>) -> Option<String> {
        match node.value {
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(boolean) => Some(boolean.to_string()),
            _ => self.text(node),
        }
    }

    pub(super) fn texts(&mut self, node: &Node<'_>) -> Option<Vec<String>> {
        let Some(list) = node.value.as_array() else {
            self.fault(&node.pointer, "must be a list of strings");
            return None;
        };
        let nodes = list.iter().enumerate().map(|(index, value)| node.child(&index.to_string(), value));
        Some(nodes.filter_map(|item| self.text(&item)).collect())
    }

    pub(super) fn duration(&mut self, node: &Node<'_>) -> Option<Duration> {
        let read = match node.value {
            Value::String(text) => duration(text),
            _ => Err("must be a string with a time, such as \"90s\"".to_owned()),
        };
        self.read(node, read)
    }

    /// A time above 0. For 0, the mistake is `wrong`.
    pub(super) fn positive(&mut self, node: &Node<'_>, wrong: &str) -> Option<Duration> {
        let time = self.duration(node)?;
        self.read(node, if time.is_zero() { Err(wrong.to_owned()) } else { Ok(time) })
    }

    /// A whole number in the range.
    pub(super) fn count(&mut self, node: &Node<'_>, range: std::ops::RangeInclusive<usize>) -> Option<usize> {
        let number = node.value.as_u64().and_then(|number| usize::try_from(number).ok());
        let (least, most) = (range.start(), range.end());
        let read = number.filter(|number| range.contains(number));
        self.read(node, read.ok_or_else(|| format!("must be a whole number from {least} to {most}")))
    }

    pub(super) fn one_of<T: Copy>(&mut self, node: &Node<'_>, words: &[(&str, T)]) -> Option<T> {
        let text = node.value.as_str();
        let read = words.iter().find(|(word, _)| Some(*word) == text).map(|(_, value)| *value);
        let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.read(node, read.ok_or_else(|| format!("must be one of {}", all.join(", "))))
    }

    /// `true`, and nothing else.
    pub(super) fn only_true(&mut self, node: &Node<'_>) -> Option<()> {
        let is_true = node.value == &Value::Bool(true);
        self.read(node, if is_true { Ok(()) } else { Err("must be `true`, or left out".to_owned()) })
    }

    pub(super) fn read<T>(&mut self, node: &Node<'_>, read: Result<T, String>) -> Option<T> {
        read.map_err(|what| self.fault(&node.pointer, what)).ok()
    }

    /// Notes every member that no reader has asked for as a mistake.
    pub(super) fn refuse_unknown(&mut self, members: &Members<'_>) {
        for key in members.unknown() {
            self.fault(&members.pointer(key), unknown(key, members.known.iter().copied()));
        }
    }
}

/// Members that had another name, and their name now.
const RENAMED: [(&str, &str); 2] = [("era", "protocol"), ("lookEvery", "pollEvery")];

/// The sentence about a name that is not known, with the one that was probably meant.
pub(crate) fn unknown<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    if let Some((_, now)) = RENAMED.iter().find(|(before, now)| *before == name && known.clone().any(|at| at == *now)) {
        return format!("is called `{now}` now");
    }
    format!("is not known; {}", nearest(name, known))
}

/// The name that was probably meant, otherwise those that there are.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    let near = known
        .clone()
        .max_by(|one, other| strsim::jaro_winkler(name, one).total_cmp(&strsim::jaro_winkler(name, other)));
    match near.filter(|near| strsim::jaro_winkler(name, near) > 0.8) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// Why a text has no value.
enum Unexpanded {
    /// This variable is not set.
    NotSet(String),
    /// The mistake, and what to write.
    Wrong(String),
}

/// The text with the values of the variables that it names.
fn expand(text: &str, env: &dyn EnvSource) -> Result<String, Unexpanded> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, after)) = after.split_once('}') else {
            return Err(Unexpanded::Wrong("a `${` has no `}`".to_owned()));
        };
        out.push_str(before);
        out.push_str(&value(inside, env)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn value(inside: &str, env: &dyn EnvSource) -> Result<String, Unexpanded> {
    let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_');
    if !is_name {
        return Err(Unexpanded::Wrong(format!(
            "`${{{inside}}}` is known to an editor only: write `${{NAME}}` for the environment variable NAME, or the \
             value"
        )));
    }
    match env.get(name).map(std::ffi::OsString::into_string) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(Unexpanded::Wrong(format!("the environment variable `{name}` is not UTF-8"))),
        None => default.map(str::to_owned).ok_or_else(|| Unexpanded::NotSet(name.to_owned())),
    }
}

/// Characters that clients accept in names of tools.
pub(crate) fn is_of_names(character: char) -> bool {
    character.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&character)
}

/// A time with its unit, such as `90s`.
fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let digits = text.trim_end_matches(|next: char| !next.is_ascii_digit());
    let unit = text.strip_prefix(digits).and_then(|unit| UNITS.iter().find(|(name, _)| *name == unit));
    let ms = unit.and_then(|(_, ms)| digits.parse::<u64>().ok()?.checked_mul(*ms));
    ms.map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is not a time: write a number and ms, s, m, h or d, such as \"90s\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        let ms = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(
            ["5ms", "0s", "2m", "3h", "1d"].map(|text| ms(text).unwrap()),
            [5, 0, 120_000, 10_800_000, 86_400_000]
        );
        for wrong in ["", "5", "s", "-1s", "1.5h", "5 s", "5S", "99999999999999999999ms", "18446744073709551615d"] {
            assert!(ms(wrong).is_err(), "{wrong}");
        }
    }
}
