//! What holds for every setting, and how settings are read.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::settings::table::*;
use longhaul_core::settings::{EnvSource, Flags, Place, Preset, REMOVED, SettingsError, Values};

const PLACES: [Place; 3] = [Place::Local, Place::Api, Place::Worker];

fn local(flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> Result<Values, SettingsError> {
    let flags: Flags = flags.iter().map(|(name, value)| (*name, (*value).into())).collect();
    let env: BTreeMap<&str, &str> = env.iter().copied().collect();
    Values::read(Place::Local, &[&ALL], &flags, &env)
}

fn worker(env: &[(&str, &str)]) -> Result<Values, SettingsError> {
    let needed = [
        (TABLE.variable(), "tasks"),
        (QUEUE_URL.variable(), "https://sqs.example/work"),
        (DEAD_LETTER_QUEUE_URL.variable(), "https://sqs.example/dead"),
    ];
    let env: BTreeMap<&str, &str> = needed.into_iter().chain(env.iter().copied()).collect();
    Values::read(Place::Worker, &[&ALL], &Flags::new(), &env)
}

#[test]
fn every_setting_is_declared_once_and_its_flag_and_variable_are_one_name() {
    let mut names = BTreeSet::new();
    for setting in ALL {
        assert!(names.insert(setting.name()), "{} twice", setting.name());
        // One flag names one of them, the variable has them all.
        let plural = if ["oauth-issuer", "oauth-audience", "oauth-client-id", "secret"].contains(&setting.name()) {
            "S"
        } else {
            ""
        };
        // OpenTelemetry has given that variable its name.
        let prefix = if setting.name() == "otlp-endpoint" { "OTEL_EXPORTER_" } else { "LONGHAUL_" };
        let variable = format!("{prefix}{}{plural}", setting.name().to_uppercase().replace('-', "_"));
        assert_eq!(setting.variable(), variable);
        assert!(PLACES.iter().any(|place| setting.preset(*place) != Preset::Absent), "{variable} is not read anywhere");
        assert!(setting.about().ends_with('.'), "{variable}");
    }
}

#[test]
fn every_default_is_allowed() {
    for place in PLACES {
        for setting in ALL {
            if let Preset::Value(text) = setting.preset(place) {
                assert_eq!(setting.refusal(text.as_ref()), None, "{} at {place:?}", setting.name());
            }
        }
    }
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_default() {
    let read = |flags: &[_], env: &[_]| local(flags, env).unwrap().get(&LEASE_MS).unwrap();
    assert_eq!(read(&[], &[]), 10_000);
    assert_eq!(read(&[], &[("LONGHAUL_LEASE_MS", "20000")]), 20_000);
    assert_eq!(read(&[("lease-ms", "30000")], &[("LONGHAUL_LEASE_MS", "20000")]), 30_000);
    assert_eq!(read(&[], &[("LONGHAUL_LEASE_MS", "")]), 10_000);
}

#[test]
fn a_value_out_of_range_is_refused_everywhere_and_named_as_it_was_given() {
    let sentence = "is `5`; it must be a number of milliseconds from 1000 to 50000";
    let fault = |read: Result<Values, SettingsError>| read.unwrap_err().faults().first().unwrap().to_string();
    assert_eq!(fault(local(&[("lease-ms", "5")], &[])), format!("--lease-ms {sentence}"));
    assert_eq!(fault(local(&[], &[("LONGHAUL_LEASE_MS", "5")])), format!("LONGHAUL_LEASE_MS {sentence}"));
    assert_eq!(fault(worker(&[("LONGHAUL_LEASE_MS", "5")])), format!("LONGHAUL_LEASE_MS {sentence}"));
    let mut values = Values::defaults(Place::Local, &[&ALL]);
    values.set(&LEASE_MS, &5);
    assert_eq!(values.check().unwrap_err().faults().first().unwrap().to_string(), format!("`lease-ms` {sentence}"));
    assert!(values.get(&LEASE_MS).is_err());
}

#[test]
fn a_value_that_another_one_does_not_allow_is_refused_and_a_default_fits() {
    for read in [|env: &[_]| local(&[], env), worker] {
        assert_eq!(read(&[("LONGHAUL_LEASE_MS", "1500")]).unwrap().get(&HEARTBEAT_MS), Ok(500));
        let error = read(&[("LONGHAUL_LEASE_MS", "6000"), ("LONGHAUL_HEARTBEAT_MS", "3000")]).unwrap_err();
        let expected = "LONGHAUL_HEARTBEAT_MS is `3000`; it must be at most a third of LONGHAUL_LEASE_MS, which allows \
                        2000 milliseconds";
        assert!(error.to_string().ends_with(expected), "{error}");
    }
}

#[test]
fn all_faults_are_reported_at_once_in_one_line() {
    let env = BTreeMap::from([("LONGHAUL_LEASE_MS", "soon"), ("LONGHAUL_QUEUE_URL", "work")]);
    let error = Values::read(Place::Worker, &[&ALL], &Flags::new(), &env).unwrap_err();
    let names: Vec<_> = error.faults().iter().map(|fault| fault.name.as_str()).collect();
    let expected = ["LONGHAUL_TABLE", "LONGHAUL_QUEUE_URL", "LONGHAUL_DEAD_LETTER_QUEUE_URL", "LONGHAUL_LEASE_MS"];
    assert_eq!(names, expected);
    assert_eq!(error.to_string().lines().count(), 1);
}

#[test]
fn a_setting_that_is_gone_is_refused_with_what_holds_now() {
    for (name, holds) in REMOVED {
        assert!(ALL.iter().all(|setting| setting.name() != name), "{name}");
        let variable = format!("LONGHAUL_{}", name.to_uppercase().replace('-', "_"));
        let said = |read: Result<Values, SettingsError>| read.unwrap_err().faults().first().unwrap().to_string();
        let sentence = format!("is no longer a setting, {holds}");
        assert_eq!(said(local(&[(name, "500")], &[])), format!("--{name} {sentence}"));
        assert_eq!(said(local(&[], &[(&variable, "500")])), format!("{variable} {sentence}"));
        assert_eq!(said(worker(&[(&variable, "500")])), format!("{variable} {sentence}"));
        assert!(worker(&[(&variable, "")]).is_ok(), "{name}: an empty variable counts as none");
    }
}

#[test]
fn a_setting_that_a_place_does_not_read_is_ignored() {
    assert_eq!(worker(&[("LONGHAUL_DB", "x")]).unwrap().find(&DB), Ok(None));
    let mut values = Values::defaults(Place::Worker, &[&[&DB]]);
    values.set(&DB, &"x".into());
    assert_eq!(values.check().unwrap_err().faults().first().unwrap().to_string(), "`db` is not read here");
}

#[cfg(unix)]
#[test]
fn a_value_in_another_encoding_is_refused_except_for_a_path() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    struct Bytes;
    impl EnvSource for Bytes {
        fn get(&self, name: &str) -> Option<OsString> {
            ["LONGHAUL_DB", "LONGHAUL_LOG"].contains(&name).then(|| OsString::from_vec(vec![b'/', 0xff]))
        }
    }
    let error = Values::read(Place::Local, &[&ALL], &Flags::new(), &Bytes).unwrap_err();
    let names: Vec<_> = error.faults().iter().map(|fault| fault.name.as_str()).collect();
    assert_eq!(names, ["LONGHAUL_LOG"]);
}

#[test]
fn values_that_a_program_sets_are_read_back() {
    let mut values = Values::defaults(Place::Local, &[&ALL]);
    values.set(&LISTEN, &"127.0.0.1:1".parse().unwrap());
    values.set(&LOG_FORMAT, &LogFormat::Json);
    values.set(&ALLOW_HOST, &vec!["a.example".to_owned(), "b.example".to_owned()]);
    values.set(&ATTEMPT_MS, &60_000);
    assert_eq!(values.check(), Ok(()));
    assert_eq!(values.get(&LISTEN).unwrap().port(), 1);
    assert_eq!(values.get(&LOG_FORMAT), Ok(LogFormat::Json));
    assert_eq!(values.get(&ALLOW_HOST).unwrap(), ["a.example", "b.example"]);
    assert_eq!(values.find(&ATTEMPT_MS), Ok(Some(60_000)));
}

#[test]
fn defaults_may_be_those_of_another_place_and_given_values_stay() {
    let of_worker =
        |flags: &[_]| local(flags, &[]).unwrap().with_defaults_of(Place::Worker, &[&LEASE_MS, &HEARTBEAT_MS]);
    let values = of_worker(&[]);
    assert_eq!((values.get(&LEASE_MS), values.get(&HEARTBEAT_MS)), (Ok(13_500), Ok(4_500)));
    assert_eq!(values.get(&PROGRESS_MS), Ok(500), "not that of a worker");
    let values = of_worker(&[("lease-ms", "6000")]);
    assert_eq!((values.get(&LEASE_MS), values.get(&HEARTBEAT_MS)), (Ok(6_000), Ok(2_000)));
    assert!(values.is_given(&LEASE_MS) && !values.is_given(&HEARTBEAT_MS));
}
