//! The command line of a local server, as the author of a program sees it.

use std::collections::BTreeMap;

use longhaul::serve::{CommandLine, Options, OptionsError, ServeError, start};
use longhaul_core::settings::{Place, Preset, Setting, Text, table};

static REGION: Setting<Text> =
    Setting::new("region", "SHOP_REGION", Text("NAME"), "Where the shop is.").local(Preset::Value("eu"));

fn read(args: &[&str]) -> Result<Options, OptionsError> {
    let env = BTreeMap::from([("SHOP_REGION", "us"), ("LONGHAUL_LEASE_MS", "20000")]);
    CommandLine::new("shop").settings(&[&REGION]).read([&["shop"], args].concat(), &env)
}

#[test]
fn an_application_has_flags_and_variables_of_its_own() {
    let region = |args: &[&str]| read(args).unwrap().values().get(&REGION).unwrap();
    assert_eq!(region(&[]), "us");
    assert_eq!(region(&["--region", "asia"]), "asia");
    assert_eq!(read(&[]).unwrap().values().get(&table::LEASE_MS), Ok(20_000));
}

#[test]
fn lists_are_given_with_commas_or_several_times() {
    let options = read(&["--allow-host", "a,b", "--allow-host=c"]).unwrap();
    assert_eq!(options.values().get(&table::ALLOW_HOST).unwrap(), ["a", "b", "c"]);
}

#[test]
fn one_help_page_has_all_flags() {
    let OptionsError::Help(help) = read(&["--help"]).unwrap_err() else { panic!("help") };
    for setting in table::ALL.into_iter().chain([&REGION as _]) {
        let is_read = setting.preset(Place::Local) != Preset::Absent;
        // A switch has no value behind it.
        let has = [' ', '\n'].iter().any(|end| help.contains(&format!("--{}{end}", setting.name())));
        assert_eq!(has, is_read, "{}: {help}", setting.name());
        assert_eq!(help.contains(setting.about()), is_read, "{}: {help}", setting.name());
    }
}

#[test]
fn what_is_wrong_is_told_with_the_flag() {
    let OptionsError::Usage(usage) = read(&["--leese-ms", "5"]).unwrap_err() else { panic!("usage") };
    assert!(usage.contains("--leese-ms") && usage.contains("Usage:"), "{usage}");
    let OptionsError::Settings(error) = read(&["--lease-ms", "5", "--resend-ms", "soon"]).unwrap_err() else {
        panic!("settings")
    };
    assert_eq!(error.faults().len(), 2, "{error}");
    assert!(error.to_string().contains("--lease-ms is `5`"), "{error}");
}

#[test]
fn a_flag_that_is_gone_is_refused_with_what_holds_now() {
    for args in [&["--leg-margin-ms", "500"][..], &["--leg-margin-ms=500"], &["--leg-margin-ms"]] {
        let OptionsError::Settings(error) = read(args).unwrap_err() else { panic!("settings") };
        assert!(error.to_string().contains("--leg-margin-ms is no longer a setting"), "{error}");
        assert!(error.to_string().contains("the last five seconds of an attempt"), "{error}");
    }
}

#[test]
fn defaults_are_what_holds_where_nobody_says_anything() {
    let silent = CommandLine::new("shop").read(["shop"], &BTreeMap::new()).unwrap();
    assert_eq!(format!("{silent:?}"), format!("{:?}", Options::default()));
    assert_eq!(Options::default().values().check(), Ok(()));
}

#[tokio::test]
async fn a_program_is_refused_what_a_flag_is_refused() {
    let server = longhaul::Server::new(|| Nothing);
    let options = Options::default().with(&table::DB, ":memory:").with(&table::LEASE_MS, 5_u64);
    let Err(ServeError::Settings(error)) = start(&server, &options).await else { panic!("it started") };
    assert!(error.to_string().contains("`lease-ms` is `5`; it must be a number of milliseconds"), "{error}");
}

struct Nothing;

impl rmcp::ServerHandler for Nothing {}
