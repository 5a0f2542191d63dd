//! The declaration of a setting, and of a kind of values.

use std::ffi::{OsStr, OsString};

/// The programs that read settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The local server.
    Local,
    /// The Lambda function that answers requests.
    Api,
    /// The Lambda functions that run tools and take dead letters.
    Worker,
}

/// The value of a setting that is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The setting is not read there.
    Absent,
    /// A value has to be given.
    Required,
    /// No value; the text says what that means.
    Unset(&'static str),
    /// This value, as it would be written.
    Value(&'static str),
}

/// The kind of values that a setting takes.
pub trait Kind: Sync + 'static {
    /// A value.
    type Value;

    /// The value that `text` stands for; `None` if `text` is not allowed.
    fn parse(&self, text: &OsStr) -> Option<Self::Value>;

    /// `value` as text, which [`Kind::parse`] reads.
    fn text(&self, value: &Self::Value) -> OsString;

    /// The allowed values: the end of a sentence that begins with "it must be".
    fn expected(&self) -> String;

    /// The allowed values, in a few words for a table.
    fn allowed(&self) -> String {
        self.expected()
    }

    /// How a flag takes the value.
    fn shape(&self) -> Shape;

    /// Whether a value may be shown, in errors and by `Debug`.
    fn shows(&self) -> bool {
        true
    }

    /// The setting whose value, a number, limits the values of this kind.
    fn third_of(&self) -> Option<Third> {
        None
    }
}

/// A bound: at most a third of the value of another setting.
#[derive(Clone, Copy)]
pub struct Third {
    /// The other setting. Its values are numbers.
    pub of: &'static dyn Declared,
    /// The thing that both count.
    pub unit: &'static str,
}

/// How a flag takes a value. The text is the placeholder for the value in a help page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The flag alone means `true`.
    Switch,
    /// One value.
    One(&'static str),
    /// Values separated by commas, or the flag several times.
    Several(&'static str),
}

/// One setting. [`Setting::new`] declares it; the other methods say who reads it.
pub struct Setting<K> {
    name: &'static str,
    variable: &'static str,
    kind: K,
    about: &'static str,
    local: Preset,
    api: Preset,
    worker: Preset,
    parameter: Option<&'static str>,
}

impl<K> Setting<K> {
    /// A setting with the flag `--name` and the environment variable `variable`. `about` describes it in a help
    /// page, the documentation and the template's parameter.
    #[must_use]
    pub const fn new(name: &'static str, variable: &'static str, kind: K, about: &'static str) -> Self {
        let (local, api, worker) = (Preset::Absent, Preset::Absent, Preset::Absent);
        Self { name, variable, kind, about, local, api, worker, parameter: None }
    }

    /// The local server reads it.
    #[must_use]
    pub const fn local(mut self, preset: Preset) -> Self {
        self.local = preset;
        self
    }

    /// Both kinds of Lambda functions read it.
    #[must_use]
    pub const fn lambda(self, preset: Preset) -> Self {
        self.api(preset).worker(preset)
    }

    /// The Lambda function that answers requests reads it.
    #[must_use]
    pub const fn api(mut self, preset: Preset) -> Self {
        self.api = preset;
        self
    }

    /// The Lambda functions that run tools and take dead letters read it.
    #[must_use]
    pub const fn worker(mut self, preset: Preset) -> Self {
        self.worker = preset;
        self
    }

    /// The parameter of `template.yaml` that sets it.
    #[must_use]
    pub const fn parameter(mut self, name: &'static str) -> Self {
        self.parameter = Some(name);
        self
    }

    /// The same setting with another environment variable.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_variable(mut self, variable: &'static str) -> Self {
        self.variable = variable;
        self
    }

    /// Its name, which is the flag without the two hyphens.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its environment variable.
    #[must_use]
    pub const fn variable(&self) -> &'static str {
        self.variable
    }

    /// The kind of values that it takes.
    #[doc(hidden)]
    #[must_use]
    pub const fn kind(&self) -> &K {
        &self.kind
    }
}

/// A setting with any kind of values.
pub trait Declared: Sync {
    /// Its name, which is the flag without the two hyphens.
    fn name(&self) -> &'static str;
    /// Its environment variable.
    fn variable(&self) -> &'static str;
    /// Its purpose.
    fn about(&self) -> &'static str;
    /// The parameter of `template.yaml` that sets it.
    fn parameter(&self) -> Option<&'static str>;
    /// Its value at `place` if none is given.
    fn preset(&self, place: Place) -> Preset;
    /// The allowed values, in a few words.
    fn allowed(&self) -> String;
    /// How a flag takes the value.
    fn shape(&self) -> Shape;
    /// Whether its value may be shown, in errors and by `Debug`.
    fn shows(&self) -> bool;
    /// The setting whose value, a number, limits the values of this one.
    fn third_of(&self) -> Option<Third>;
    /// `None` if `text` is allowed on its own, otherwise a sentence with the allowed values.
    fn refusal(&self, text: &OsStr) -> Option<String>;
}

impl<K: Kind> Declared for Setting<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variable(&self) -> &'static str {
        self.variable
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn parameter(&self) -> Option<&'static str> {
        self.parameter
    }

    fn preset(&self, place: Place) -> Preset {
        match place {
            Place::Local => self.local,
            Place::Api => self.api,
            Place::Worker => self.worker,
        }
    }

    fn allowed(&self) -> String {
        self.kind.allowed()
    }

    fn shape(&self) -> Shape {
        self.kind.shape()
    }

    fn shows(&self) -> bool {
        self.kind.shows()
    }

    fn third_of(&self) -> Option<Third> {
        self.kind.third_of()
    }

    fn refusal(&self, text: &OsStr) -> Option<String> {
        let refused = || format!("it must be {}", self.kind.expected());
        self.kind.parse(text).is_none().then(refused)
    }
}
