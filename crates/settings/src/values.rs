//! Reading settings: from flags, the environment and a program; all faults are reported at once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::bundles::{carried, entry};
use crate::{Declared, Kind, Place, Preset, Setting};

/// Where environment variables come from.
pub trait EnvSource {
    /// The value of `name`, if there is one.
    fn get(&self, name: &str) -> Option<OsString>;
}

impl EnvSource for BTreeMap<&str, &str> {
    fn get(&self, name: &str) -> Option<OsString> {
        Self::get(self, name).map(OsString::from)
    }
}

/// The flags that were given: names without hyphens, and values.
pub type Flags = BTreeMap<&'static str, OsString>;

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The setting, named as it was set: a flag or an environment variable.
    pub name: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.problem)
    }
}

/// Settings that cannot be used: all their faults, so that they can be corrected together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    faults: Vec<Fault>,
}

impl SettingsError {
    /// What is wrong, in the order in which the settings are declared.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    fn of(name: String, problem: impl Into<String>) -> Self {
        Self { faults: vec![Fault { name, problem: problem.into() }] }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used: ")?;
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

/// Where a setting's value was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Flag,
    Variable,
    /// In the bundle with this variable.
    Bundle(&'static str),
    Program,
}

#[derive(Clone)]
struct Given {
    text: OsString,
    origin: Origin,
}

impl fmt::Debug for Given {
    /// Without the value: it may be one that is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// The values that were given for settings at one place. All other settings have their defaults.
#[derive(Clone)]
pub struct Values {
    place: Place,
    declared: Vec<&'static dyn Declared>,
    given: BTreeMap<&'static str, Given>,
    /// Settings whose defaults are those of another place.
    elsewhere: BTreeMap<&'static str, Place>,
}

impl Values {
    /// The defaults of those of `declared` that are read at `place`.
    #[must_use]
    pub fn defaults(place: Place, declared: &[&[&'static dyn Declared]]) -> Self {
        Self { place, declared: declared.concat(), given: BTreeMap::new(), elsewhere: BTreeMap::new() }
    }

    /// The values in `flags` and `env`; a flag wins. An empty variable counts as absent, since a template cannot always
    /// leave one out. `LONGHAUL_SETTINGS` and `LONGHAUL_AUTHENTICATION` carry several. A setting that is
    /// [gone](crate::REMOVED) is refused.
    pub fn read(
        place: Place,
        declared: &[&[&'static dyn Declared]],
        flags: &Flags,
        env: &dyn EnvSource,
    ) -> Result<Self, SettingsError> {
        let mut values = Self::defaults(place, declared);
        let (mut carried, mut faults) = carried(place, &values.declared, env);
        for setting in values.declared.iter().filter(|setting| setting.preset(place) != Preset::Absent) {
            let flag = flags.get(setting.name()).map(|text| Given { text: text.clone(), origin: Origin::Flag });
            let variable = || {
                let text = env.get(setting.variable()).filter(|text| !text.is_empty())?;
                Some(Given { text, origin: Origin::Variable })
            };
            let given = flag.or_else(variable);
            let bundled = carried.remove(setting.name());
            if let (Some(_), Some((_, bundle))) = (&given, &bundled) {
                let problem = format!("is in {bundle} too: leave one of them out");
                faults.push(Fault { name: setting.variable().to_owned(), problem });
            }
            let bundled = bundled.map(|(text, bundle)| Given { text, origin: Origin::Bundle(bundle) });
            if let Some(given) = given.or(bundled) {
                values.given.insert(setting.name(), given);
            }
        }
        faults.extend(removed_faults(&values.declared, flags, env));
        faults.extend(values.faults());
        refused(faults)?;
        Ok(values)
    }

    /// The same values, where `settings` that were not given have the defaults of `place`.
    #[must_use]
    pub fn with_defaults_of(mut self, place: Place, settings: &[&dyn Declared]) -> Self {
        self.elsewhere.extend(settings.iter().map(|setting| (setting.name(), place)));
        self
    }

    /// Whether a value was given for `setting`, other than its default.
    #[must_use]
    pub fn is_given(&self, setting: &dyn Declared) -> bool {
        self.given.contains_key(setting.name())
    }

    /// Sets the value of `setting`. [`Values::check`] says whether it is allowed.
    pub fn set<K: Kind>(&mut self, setting: &Setting<K>, value: &K::Value) {
        let given = Given { text: setting.kind().text(value), origin: Origin::Program };
        self.given.insert(setting.name(), given);
    }

    /// Checks that all given values are allowed, each by itself and together, and that no required value is missing.
    pub fn check(&self) -> Result<(), SettingsError> {
        refused(self.faults().collect())
    }

    /// The value of `setting`, given or default.
    ///
    /// # Errors
    /// [`SettingsError`], if it has no value or one that is not allowed.
    pub fn get<K: Kind>(&self, setting: &Setting<K>) -> Result<K::Value, SettingsError> {
        self.find(setting)?.ok_or_else(|| SettingsError::of(self.name_of(setting), MISSING))
    }

    /// The value of `setting`, given or default, if it has one.
    ///
    /// # Errors
    /// [`SettingsError`], if a required value is missing, or the value is not allowed.
    pub fn find<K: Kind>(&self, setting: &Setting<K>) -> Result<Option<K::Value>, SettingsError> {
        let parsed = |text: &OsStr| {
            let sentence = format!("it must be {}", setting.kind().expected());
            let refused = || SettingsError::of(self.name_of(setting), refusal(setting, text, &sentence));
            setting.kind().parse(text).ok_or_else(refused)
        };
        match (self.given.get(setting.name()), self.preset(setting)) {
            (Some(given), _) => parsed(&given.text).map(Some),
            (None, Preset::Value(text)) => {
                parsed(OsStr::new(text)).map(|value| Some(setting.kind().fitted(value, self)))
            }
            (None, Preset::Unset(_) | Preset::Absent) => Ok(None),
            (None, Preset::Required) => Err(SettingsError::of(self.name_of(setting), MISSING)),
        }
    }

    /// The error for a value that is allowed in general, and not here. `why` says what to do.
    #[must_use]
    pub fn refuse<K: Kind>(&self, setting: &Setting<K>, value: &K::Value, why: &str) -> SettingsError {
        SettingsError::of(self.name_of(setting), refusal(setting, &setting.kind().text(value), why))
    }

    /// The name of `setting` as it was set, or would be set here.
    pub(crate) fn name_of(&self, setting: &dyn Declared) -> String {
        match self.given.get(setting.name()).map(|given| given.origin) {
            Some(Origin::Flag) => format!("--{}", setting.name()),
            Some(Origin::Program) => format!("`{}`", setting.name()),
            Some(Origin::Bundle(variable)) => entry(setting.name(), variable),
            None if self.place == Place::Local => format!("--{}", setting.name()),
            Some(Origin::Variable) | None => setting.variable().to_owned(),
        }
    }

    fn preset(&self, setting: &dyn Declared) -> Preset {
        setting.preset(self.elsewhere.get(setting.name()).copied().unwrap_or(self.place))
    }

    fn faults(&self) -> impl Iterator<Item = Fault> {
        self.declared.iter().filter_map(|setting| self.fault(*setting))
    }

    fn fault(&self, setting: &dyn Declared) -> Option<Fault> {
        let problem = match (self.given.get(setting.name()), self.preset(setting)) {
            (Some(_), Preset::Absent) => "is not read here".to_owned(),
            (None, Preset::Required) => MISSING.to_owned(),
            (None, _) => return None,
            (Some(given), _) => refusal(setting, &given.text, &setting.refusal(&given.text, self)?),
        };
        Some(Fault { name: self.name_of(setting), problem })
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("place", &self.place).field("given", &self.given).finish_non_exhaustive()
    }
}

fn refused(faults: Vec<Fault>) -> Result<(), SettingsError> {
    if faults.is_empty() { Ok(()) } else { Err(SettingsError { faults }) }
}

const MISSING: &str = "is missing";

fn refusal(setting: &dyn Declared, text: &OsStr, sentence: &str) -> String {
    if setting.shows() { format!("is `{}`; {sentence}", text.display()) } else { format!("cannot be used; {sentence}") }
}

/// The names of settings that are gone, and what holds in their place.
pub static REMOVED: [(&str, &str); 9] = [
    ("first-byte-ms-max", "leave it out: a new connection may be silent for ten seconds"),
    ("head-ms-max", "leave it out: the head of a connection's first request may take ten seconds"),
    ("body-ms-max", "leave it out: a body may take twenty seconds, and a second more for each 16 KiB of it"),
    ("body-bytes-per-s-min", "leave it out: each 16 KiB of a body earn it another second"),
    ("unread-ms-max", "leave it out: a client may read nothing of an answer for a minute"),
    ("http2-ping-ms", "leave it out: a client of HTTP/2 is asked every twenty seconds whether it is still there"),
    (
        "leg-margin-ms",
        "leave it out: no step begins in the last five seconds of an attempt, or in its last quarter if shorter",
    ),
    ("leg-ms", "use --attempt-ms or LONGHAUL_ATTEMPT_MS"),
    ("cleaning-ms", "use --cleanup-ms or LONGHAUL_CLEANUP_MS"),
];

/// A fault for each of them that has a value, unless it is the name of a setting that an application declares.
fn removed_faults(declared: &[&dyn Declared], flags: &Flags, env: &dyn EnvSource) -> Vec<Fault> {
    let removed = REMOVED.iter().filter(|(name, _)| declared.iter().all(|setting| setting.name() != *name));
    let faults = removed.flat_map(|(name, holds)| {
        let variable = format!("LONGHAUL_{}", name.to_uppercase().replace('-', "_"));
        let is_set = env.get(&variable).is_some_and(|text| !text.is_empty());
        let given = [flags.contains_key(name).then(|| format!("--{name}")), is_set.then_some(variable)];
        let problem = format!("is no setting any more, {holds}");
        given.into_iter().flatten().map(move |name| Fault { name, problem: problem.clone() })
    });
    faults.collect()
}
