//! Reading settings: from flags, the environment and a program; all faults are reported at once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::settings::bundles::{carried, entry};
use crate::settings::removed::removed_faults;
use crate::settings::{Declared, EnvSource, Fault, Flags, Kind, Place, Preset, Setting, SettingsError};

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
    /// Names that a program gave a value, and that no setting has.
    unknown: Vec<String>,
}

impl Values {
    /// The defaults of those of `declared` that are read at `place`.
    #[doc(hidden)]
    #[must_use]
    pub fn defaults(place: Place, declared: &[&[&'static dyn Declared]]) -> Self {
        Self {
            place,
            declared: declared.concat(),
            given: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            unknown: Vec::new(),
        }
    }

    /// The values in `flags` and `env`; a flag wins. An empty variable counts as absent, since a template cannot always
    /// leave one out. `LONGHAUL_SETTINGS` and `LONGHAUL_AUTHENTICATION` carry several. A setting that is
    /// [gone](crate::settings::REMOVED) is refused.
    #[doc(hidden)]
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
    #[doc(hidden)]
    #[must_use]
    pub fn with_defaults_of(mut self, place: Place, settings: &[&dyn Declared]) -> Self {
        self.elsewhere.extend(settings.iter().map(|setting| (setting.name(), place)));
        self
    }

    /// Whether a value was given for `setting`, other than its default.
    #[doc(hidden)]
    #[must_use]
    pub fn is_given(&self, setting: &dyn Declared) -> bool {
        self.given.contains_key(setting.name())
    }

    /// Sets the value of `setting`. [`Values::check`] says whether it is allowed.
    #[doc(hidden)]
    pub fn set<K: Kind>(&mut self, setting: &Setting<K>, value: &K::Value) {
        let given = Given { text: setting.kind().text(value), origin: Origin::Program };
        self.given.insert(setting.name(), given);
    }

    /// Sets the value of the setting `name`, as its flag takes it. [`Values::check`] refuses a name that no setting
    /// has.
    #[doc(hidden)]
    pub fn set_named(&mut self, name: &str, text: OsString) {
        match self.declared.iter().find(|setting| setting.name() == name) {
            Some(setting) => drop(self.given.insert(setting.name(), Given { text, origin: Origin::Program })),
            None => self.unknown.push(name.to_owned()),
        }
    }

    /// Checks that all given values are allowed, each on its own and together, and that no required value is missing.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), SettingsError> {
        refused(self.faults().collect())
    }

    /// The value of `setting`, given or default.
    pub fn get<K: Kind>(&self, setting: &Setting<K>) -> Result<K::Value, SettingsError> {
        self.find(setting)?.ok_or_else(|| SettingsError::of(self.name_of(setting), MISSING))
    }

    /// The value of `setting`, given or default, if it has one.
    pub fn find<K: Kind>(&self, setting: &Setting<K>) -> Result<Option<K::Value>, SettingsError> {
        let Some(text) = self.text_of(setting) else {
            let is_missing = self.preset(setting) == Preset::Required;
            return if is_missing { Err(SettingsError::of(self.name_of(setting), MISSING)) } else { Ok(None) };
        };
        let sentence = || format!("it must be {}", setting.kind().expected());
        let refused = || SettingsError::of(self.name_of(setting), refusal(setting, &text, &sentence()));
        setting.kind().parse(&text).map(Some).ok_or_else(refused)
    }

    /// The value of `setting` as text, given or default. A default is shortened where another setting bounds it.
    fn text_of(&self, setting: &dyn Declared) -> Option<OsString> {
        match (self.given.get(setting.name()), self.preset(setting)) {
            (Some(given), _) => Some(given.text.clone()),
            (None, Preset::Value(text)) => match self.bound(setting) {
                Some(bound) if exceeds(text.as_ref(), bound) => Some(bound.to_string().into()),
                Some(_) | None => Some(text.into()),
            },
            (None, Preset::Unset(_) | Preset::Absent | Preset::Required) => None,
        }
    }

    /// The bound from another setting's value; `None` if that is not set, or wrong: that is reported separately.
    fn bound(&self, setting: &dyn Declared) -> Option<u64> {
        let of = setting.third_of()?.of;
        let text = self.text_of(of).filter(|text| of.refusal(text).is_none())?;
        Some(number(&text)? / 3)
    }

    /// `None` if `text` is allowed for `setting`, on its own and next to the others; otherwise a sentence.
    fn refusal(&self, setting: &dyn Declared, text: &OsStr) -> Option<String> {
        if let Some(sentence) = setting.refusal(text) {
            return Some(sentence);
        }
        let bound = self.bound(setting).filter(|bound| exceeds(text, *bound))?;
        let third = setting.third_of()?;
        Some(format!("it must be at most a third of {}, which allows {bound} {}", self.name_of(third.of), third.unit))
    }

    /// The error for a value that is allowed in general, and not here. `why` says what to do.
    #[doc(hidden)]
    #[must_use]
    pub fn refuse<K: Kind>(&self, setting: &Setting<K>, value: &K::Value, why: &str) -> SettingsError {
        SettingsError::of(self.name_of(setting), refusal(setting, &setting.kind().text(value), why))
    }

    /// The name of `setting` as it was set, or would be set here.
    fn name_of(&self, setting: &dyn Declared) -> String {
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
        let unknown = |name: &String| Fault { name: format!("`{name}`"), problem: "is not a setting".to_owned() };
        self.declared.iter().filter_map(|setting| self.fault(*setting)).chain(self.unknown.iter().map(unknown))
    }

    fn fault(&self, setting: &dyn Declared) -> Option<Fault> {
        let problem = match (self.given.get(setting.name()), self.preset(setting)) {
            (Some(_), Preset::Absent) => "is not read here".to_owned(),
            (None, Preset::Required) => MISSING.to_owned(),
            (None, _) => return None,
            (Some(given), _) => refusal(setting, &given.text, &self.refusal(setting, &given.text)?),
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

fn number(text: &OsStr) -> Option<u64> {
    text.to_str()?.parse().ok()
}

fn exceeds(text: &OsStr, bound: u64) -> bool {
    number(text).is_some_and(|number| number > bound)
}

const MISSING: &str = "is missing";

fn refusal(setting: &dyn Declared, text: &OsStr, sentence: &str) -> String {
    if setting.shows() { format!("is `{}`; {sentence}", text.display()) } else { format!("cannot be used; {sentence}") }
}
