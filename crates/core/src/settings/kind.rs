//! The kinds of values that settings take, and how they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::Scopes;

use crate::settings::{Kind, Setting, Shape, Third};

/// A number of something, within a range.
pub struct Number {
    /// The thing that it counts: in a sentence, in a table, and the placeholder in a help page.
    unit: [&'static str; 3],
    least: u64,
    most: u64,
    third_of: Option<&'static Setting<Self>>,
}

impl Number {
    /// Milliseconds from `least` to `most`.
    #[must_use]
    pub const fn ms(least: u64, most: u64) -> Self {
        Self { unit: ["milliseconds", "ms", "MS"], least, most, third_of: None }
    }

    /// Seconds from `least` to `most`.
    #[must_use]
    pub const fn seconds(least: u64, most: u64) -> Self {
        Self { unit: ["seconds", "s", "S"], least, most, third_of: None }
    }

    /// From `least` to `most` of the things that `plural` names.
    #[must_use]
    pub const fn count(plural: &'static str, least: u64, most: u64) -> Self {
        Self { unit: [plural, plural, "N"], least, most, third_of: None }
    }

    /// Allows at most a third of the value of `of`. A default that is longer is shortened; a given value is refused.
    #[doc(hidden)]
    #[must_use]
    pub const fn at_most_a_third(self, of: &'static Setting<Self>) -> Self {
        Self { third_of: Some(of), ..self }
    }

    /// The smallest value.
    #[doc(hidden)]
    #[must_use]
    pub const fn least(&self) -> u64 {
        self.least
    }

    /// The largest value.
    #[doc(hidden)]
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }
}

impl Kind for Number {
    type Value = u64;

    fn parse(&self, text: &OsStr) -> Option<u64> {
        let number = text.to_str()?.parse().ok()?;
        (self.least..=self.most).contains(&number).then_some(number)
    }

    fn text(&self, value: &u64) -> OsString {
        value.to_string().into()
    }

    fn expected(&self) -> String {
        let [plural, ..] = self.unit;
        format!("a number of {plural} from {} to {}", self.least, self.most)
    }

    fn allowed(&self) -> String {
        let [_, symbol, _] = self.unit;
        let bound = self.third_of.map(|of| format!(", at most a third of `{}`", of.name())).unwrap_or_default();
        format!("{} to {} {symbol}{bound}", self.least, self.most)
    }

    fn shape(&self) -> Shape {
        let [.., placeholder] = self.unit;
        Shape::One(placeholder)
    }

    fn third_of(&self) -> Option<Third> {
        let [unit, ..] = self.unit;
        Some(Third { of: self.third_of?, unit })
    }
}

/// One of several words, each with its meaning.
pub struct Words<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq + Sync + 'static> Kind for Words<T> {
    type Value = T;

    fn parse(&self, text: &OsStr) -> Option<T> {
        self.0.iter().find(|(word, _)| text == *word).map(|(_, value)| *value)
    }

    fn text(&self, value: &T) -> OsString {
        self.0.iter().find(|(_, of)| of == value).map_or_else(OsString::new, |(word, _)| word.into())
    }

    fn expected(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|(word, _)| format!("`{word}`")).collect();
        match words.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => words.join(""),
        }
    }

    fn shape(&self) -> Shape {
        Shape::One("WORD")
    }
}

/// Yes or no. As a flag it takes no value.
pub struct Switch;

impl Switch {
    const WORDS: Words<bool> = Words(&[("true", true), ("false", false)]);
}

impl Kind for Switch {
    type Value = bool;

    fn parse(&self, text: &OsStr) -> Option<bool> {
        Self::WORDS.parse(text)
    }

    fn text(&self, value: &bool) -> OsString {
        Self::WORDS.text(value)
    }

    fn expected(&self) -> String {
        Self::WORDS.expected()
    }

    fn shape(&self) -> Shape {
        Shape::Switch
    }
}

/// Any text, with its placeholder in a help page.
pub struct Text(pub &'static str);

impl Kind for Text {
    type Value = String;

    fn parse(&self, text: &OsStr) -> Option<String> {
        text.to_str().map(str::to_owned)
    }

    fn text(&self, value: &String) -> OsString {
        value.into()
    }

    fn expected(&self) -> String {
        "text in UTF-8".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::One(self.0)
    }
}

/// Strings separated by commas, with the placeholder for one in a help page.
pub struct List(pub &'static str);

impl Kind for List {
    type Value = Vec<String>;

    fn parse(&self, text: &OsStr) -> Option<Vec<String>> {
        let parts = text.to_str()?.split(',').map(str::trim);
        Some(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    fn text(&self, value: &Vec<String>) -> OsString {
        value.join(",").into()
    }

    fn expected(&self) -> String {
        "strings in UTF-8, separated by commas".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::Several(self.0)
    }
}

/// Names with values, written `NAME=VALUE` and separated by commas. No name is there twice. Errors do not show the
/// values.
pub struct Pairs {
    placeholder: &'static str,
    rule: &'static str,
    is_name: fn(&str) -> bool,
}

impl Pairs {
    /// Pairs with this placeholder in a help page. `is_name` says what may be a name, and `rule` says it in words.
    #[must_use]
    pub const fn new(placeholder: &'static str, rule: &'static str, is_name: fn(&str) -> bool) -> Self {
        Self { placeholder, rule, is_name }
    }
}

impl Kind for Pairs {
    type Value = BTreeMap<String, String>;

    fn parse(&self, text: &OsStr) -> Option<BTreeMap<String, String>> {
        let mut pairs = BTreeMap::new();
        for pair in text.to_str()?.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let is_new = (self.is_name)(name) && pairs.insert(name.to_owned(), value.to_owned()).is_none();
            is_new.then_some(())?;
        }
        Some(pairs)
    }

    fn text(&self, value: &BTreeMap<String, String>) -> OsString {
        value.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",").into()
    }

    fn expected(&self) -> String {
        format!("`{}`, separated by commas, each name once; {}", self.placeholder, self.rule)
    }

    fn allowed(&self) -> String {
        format!("`{}`, separated by commas", self.placeholder)
    }

    fn shape(&self) -> Shape {
        Shape::Several(self.placeholder)
    }

    fn shows(&self) -> bool {
        false
    }
}

/// Scopes of OAuth (RFC 6749, section 3.3), separated by commas or spaces.
pub struct ScopeList;

impl Kind for ScopeList {
    type Value = BTreeSet<String>;

    fn parse(&self, text: &OsStr) -> Option<BTreeSet<String>> {
        let parts = text.to_str()?.split([',', ' ']).filter(|part| !part.is_empty());
        parts.map(|part| Scopes::is_scope(part).then(|| part.to_owned())).collect()
    }

    fn text(&self, value: &BTreeSet<String>) -> OsString {
        value.iter().map(String::as_str).collect::<Vec<_>>().join(",").into()
    }

    fn expected(&self) -> String {
        "scopes of 1 to 256 characters of ASCII, without quotes and backslashes, separated by commas or spaces"
            .to_owned()
    }

    fn allowed(&self) -> String {
        "scopes separated by commas".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::Several("SCOPE")
    }
}

/// A file or a folder, with its placeholder in a help page.
pub struct Path(pub &'static str);

impl Kind for Path {
    type Value = PathBuf;

    fn parse(&self, text: &OsStr) -> Option<PathBuf> {
        Some(text.into())
    }

    fn text(&self, value: &PathBuf) -> OsString {
        value.into()
    }

    fn expected(&self) -> String {
        "a path".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::One(self.0)
    }
}

/// An address and a port to listen on.
pub struct Address;

impl Kind for Address {
    type Value = SocketAddr;

    fn parse(&self, text: &OsStr) -> Option<SocketAddr> {
        text.to_str()?.parse().ok()
    }

    fn text(&self, value: &SocketAddr) -> OsString {
        value.to_string().into()
    }

    fn expected(&self) -> String {
        "an IP address and a port, such as 127.0.0.1:8080".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::One("ADDR")
    }
}

/// An HTTP URL.
pub struct Url;

impl Kind for Url {
    type Value = String;

    fn parse(&self, text: &OsStr) -> Option<String> {
        let text = text.to_str()?;
        (text.starts_with("https://") || text.starts_with("http://")).then(|| text.to_owned())
    }

    fn text(&self, value: &String) -> OsString {
        value.into()
    }

    fn expected(&self) -> String {
        "a URL that begins with https:// or http://".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::One("URL")
    }
}
