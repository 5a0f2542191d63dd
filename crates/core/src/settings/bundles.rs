//! Settings of functions that arrive together: in `LONGHAUL_SETTINGS` as NAME=VALUE, separated by spaces, and in
//! `LONGHAUL_AUTHENTICATION` as JSON. A template has few parameters then, and a deploying program can check them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::settings::table::{ALL, AUTHENTICATION, SETTINGS};
use crate::settings::{Declared, EnvSource, Fault, Place, Preset, REMOVED};

/// The contents of a bundle: the value of each setting by its name, with the bundle's variable.
pub(crate) type Carried = BTreeMap<&'static str, (OsString, &'static str)>;

/// The settings among `declared` that the bundles of `place` carry, and a fault for each entry that is none.
pub(crate) fn carried(place: Place, declared: &[&'static dyn Declared], env: &dyn EnvSource) -> (Carried, Vec<Fault>) {
    let (mut carried, mut faults) = (Carried::new(), Vec::new());
    for (bundle, entries) in [(&SETTINGS, pairs as Entries), (&AUTHENTICATION, members)] {
        let text = env.get(bundle.variable()).filter(|text| !text.is_empty() && bundle.preset(place) != Preset::Absent);
        let Some(text) = text.filter(|_| declared.iter().any(|setting| setting.name() == bundle.name())) else {
            continue;
        };
        for (name, value) in entries(&text) {
            let setting = value.and_then(|value| Ok((setting(bundle, declared, &name)?, value)));
            let kept = setting.and_then(|(setting, value)| {
                let again = carried.insert(setting, (value.into(), bundle.variable()));
                again.map_or(Ok(()), |_| Err("is there twice: leave one of them out".to_owned()))
            });
            if let Err(problem) = kept {
                faults.push(Fault { name: entry(&name, bundle.variable()), problem });
            }
        }
    }
    (carried, faults)
}

/// The longest name that is repeated.
const NAME_CHARS_MAX: usize = 64;

/// How a fault names a setting that a bundle carries.
pub(crate) fn entry(name: &str, variable: &str) -> String {
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    if name.is_empty() { variable.to_owned() } else { format!("`{name}` in {variable}") }
}

/// The entries of a bundle: a name, and its value or what is wrong with it.
type Entries = fn(&OsStr) -> Vec<(String, Result<String, String>)>;

fn pairs(text: &OsStr) -> Vec<(String, Result<String, String>)> {
    let pair = |entry: &str| match entry.split_once('=') {
        Some((name, value)) if !value.is_empty() => (name.to_owned(), Ok(value.to_owned())),
        _ => (entry.to_owned(), Err("is not NAME=VALUE; values have no spaces".to_owned())),
    };
    text.to_string_lossy().split_whitespace().map(pair).collect()
}

fn members(text: &OsStr) -> Vec<(String, Result<String, String>)> {
    let mut reader = serde_json::Deserializer::from_str(text.to_str().unwrap_or_default());
    let object = reader.deserialize_map(Members).and_then(|object| reader.end().map(|()| object));
    let wrong = |error| vec![(String::new(), Err(format!("is not readable as a JSON object: {error}")))];
    object.map_or_else(wrong, |object| object.into_iter().map(|(name, value)| (name, plain(value))).collect())
}

/// A string, or the strings of a list, as a variable of its own would have them.
fn plain(value: Value) -> Result<String, String> {
    let problem = || "must be a string or a list of strings".to_owned();
    let text = |value| match value {
        Value::String(text) => Ok(text),
        _ => Err(problem()),
    };
    match value {
        Value::Array(values) => Ok(values.into_iter().map(text).collect::<Result<Vec<_>, _>>()?.join(",")),
        value => text(value),
    }
}

/// The setting with this name, if `bundle` may carry it.
fn setting(bundle: &dyn Declared, declared: &[&'static dyn Declared], name: &str) -> Result<&'static str, String> {
    let Some(setting) = declared.iter().find(|setting| setting.name() == name) else {
        let removed = REMOVED.iter().find(|(removed, _)| *removed == name);
        return Err(match removed {
            Some((_, holds)) => format!("is no longer a setting, {holds}"),
            None => "is not a setting: docs/settings.md lists the names".to_owned(),
        });
    };
    let is_own = ALL.iter().all(|of_longhaul| of_longhaul.name() != name);
    let is_read = [Place::Api, Place::Worker].iter().any(|place| setting.preset(*place) != Preset::Absent);
    match setting.parameter() {
        Some(parameter) if Some(parameter) == bundle.parameter() && name != bundle.name() => Ok(setting.name()),
        Some(parameter) => Err(format!("belongs to the parameter {parameter}")),
        // A setting that an application declares itself has no parameter of the template.
        None if is_own && is_read && bundle.name() == SETTINGS.name() => Ok(setting.name()),
        None if is_own && is_read => Err("belongs to the parameter Settings".to_owned()),
        None if is_read => Err("is set by the stack: leave it out".to_owned()),
        None => Err("is not read by functions: leave it out".to_owned()),
    }
}

/// The members of an object in their order, each as often as it is there.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names and values in braces")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::{IAM_OWNER, LEASE_MS, LOG, POLL_LIMIT, SCOPE_CALL, TOOL_ENV};
    use crate::settings::{Flags, Preset, Setting, SettingsError, Switch, Values};

    static DRAFTS: Setting<Switch> =
        Setting::new("drafts", "SHOP_DRAFTS", Switch, "Also list drafts.").lambda(Preset::Value("false"));

    fn read(more: &[(&str, &str)]) -> Result<Values, SettingsError> {
        let needed = [("LONGHAUL_TABLE", "tasks"), ("LONGHAUL_QUEUE_URL", "https://sqs.example/1/work")];
        let env: BTreeMap<_, _> = needed.into_iter().chain(more.iter().copied()).collect();
        Values::read(Place::Api, &[&ALL, &[&DRAFTS]], &Flags::new(), &env)
    }

    #[test]
    fn one_text_carries_many_settings() {
        // The last one is for workers.
        let text = "lease-ms=30000  log=info,rmcp=warn tool-env=BUCKET=reports,X=a=b drafts=true owner-concurrency=3";
        let values = read(&[("LONGHAUL_SETTINGS", text)]).unwrap();
        assert_eq!(values.get(&LEASE_MS), Ok(30_000));
        assert_eq!(values.get(&LOG).unwrap(), "info,rmcp=warn");
        assert_eq!(values.get(&TOOL_ENV).unwrap()["X"], "a=b");
        assert_eq!(values.get(&DRAFTS), Ok(true));
        assert!(values.is_given(&LEASE_MS) && !values.is_given(&POLL_LIMIT));
    }

    #[test]
    fn json_carries_what_is_about_callers() {
        let values =
            read(&[("LONGHAUL_AUTHENTICATION", r#"{"iam-owner": "session", "scope-call": ["a", "b"]}"#)]).unwrap();
        assert_eq!(values.get(&IAM_OWNER), Ok(crate::settings::table::IamOwner::Session));
        assert_eq!(values.get(&SCOPE_CALL).unwrap(), ["a", "b"].map(str::to_owned).into());
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name_with_what_to_do() {
        for (variable, text, said) in [
            (
                "LONGHAUL_SETTINGS",
                "leas-ms=5",
                "`leas-ms` in LONGHAUL_SETTINGS is not a setting: docs/settings.md lists the names",
            ),
            ("LONGHAUL_SETTINGS", "lease-ms=5", "`lease-ms` in LONGHAUL_SETTINGS is `5`; it must be a number"),
            ("LONGHAUL_SETTINGS", "lease-ms=6000 lease-ms=7000", "is there twice"),
            ("LONGHAUL_SETTINGS", "lease-ms", "is not NAME=VALUE"),
            ("LONGHAUL_SETTINGS", "lease-ms=", "is not NAME=VALUE"),
            ("LONGHAUL_SETTINGS", "leg-ms=6000", "is no longer a setting"),
            ("LONGHAUL_SETTINGS", "auth=anonymous", "belongs to the parameter AuthMode"),
            ("LONGHAUL_SETTINGS", "iam-owner=session", "belongs to the parameter Authentication"),
            ("LONGHAUL_SETTINGS", "table=other", "is set by the stack"),
            ("LONGHAUL_SETTINGS", "listen=127.0.0.1:1", "is not read by functions"),
            ("LONGHAUL_SETTINGS", "settings=a=b", "belongs to the parameter Settings"),
            ("LONGHAUL_SETTINGS", "lease-ms=6000 heartbeat-ms=3000", "it must be at most a third of `lease-ms`"),
            ("LONGHAUL_AUTHENTICATION", "[]", "is not readable as a JSON object"),
            ("LONGHAUL_AUTHENTICATION", "{\"iam-owner\": \"session\"} x", "is not readable as a JSON object"),
            ("LONGHAUL_AUTHENTICATION", "{\"iam-owner\": 5}", "must be a string or a list of strings"),
            ("LONGHAUL_AUTHENTICATION", "{\"iam-owner\": \"session\", \"iam-owner\": \"account\"}", "is there twice"),
            ("LONGHAUL_AUTHENTICATION", "{\"lease-ms\": \"6000\"}", "belongs to the parameter Settings"),
            ("LONGHAUL_AUTHENTICATION", "{\"drafts\": \"true\"}", "belongs to the parameter Settings"),
        ] {
            let error = read(&[(variable, text)]).unwrap_err();
            assert!(error.to_string().contains(said) && error.faults().len() == 1, "{text}: {error}");
        }
        let twice = read(&[("LONGHAUL_SETTINGS", "lease-ms=6000"), ("LONGHAUL_LEASE_MS", "6000")]).unwrap_err();
        assert!(twice.to_string().contains("LONGHAUL_LEASE_MS is in LONGHAUL_SETTINGS too"), "{twice}");
    }
}
