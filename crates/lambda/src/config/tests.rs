use longhaul_engine::Settings;

use super::*;

fn env<'a>(more: &[(&'a str, &'a str)]) -> BTreeMap<&'a str, &'a str> {
    let needed = [
        (table::TABLE.variable(), "tasks"),
        (table::QUEUE_URL.variable(), "https://sqs.eu-west-1.amazonaws.com/1/work"),
        (table::DEAD_LETTER_QUEUE_URL.variable(), "https://sqs.eu-west-1.amazonaws.com/1/dead"),
    ];
    needed.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn callers_sign_by_default() {
    let auth = table::AUTH.variable();
    assert_eq!(ApiConfig::read(&env(&[])).unwrap().auth, Auth::Iam(IamOwner::Principal));
    assert_eq!(ApiConfig::read(&env(&[(auth, "")])).unwrap().auth, Auth::Iam(IamOwner::Principal));
    assert_eq!(ApiConfig::read(&env(&[(auth, "anonymous")])).unwrap().auth, Auth::Anonymous);
    for wrong in ["none", "Anonymous", "iam ", "true"] {
        assert!(ApiConfig::read(&env(&[(auth, wrong)])).is_err(), "{wrong}");
    }
}

#[test]
fn tokens_are_in_a_parameter() {
    let [auth, parameter] = [table::AUTH.variable(), table::TOKEN_PARAMETER.variable()];
    let read = ApiConfig::read(&env(&[(auth, "bearer"), (parameter, "/longhaul/etl/tokens")]));
    assert_eq!(read.unwrap().auth, Auth::Bearer("/longhaul/etl/tokens".to_owned()));
    let refused = ApiConfig::read(&env(&[(auth, "bearer")])).unwrap_err().to_string();
    assert!(refused.contains("LONGHAUL_TOKEN_PARAMETER"), "{refused}");
}

#[test]
fn a_role_names_its_users_in_a_header_of_its_own() {
    let [role, header] = [table::IAM_ON_BEHALF_ROLE.variable(), table::IAM_ON_BEHALF_HEADER.variable()];
    let read = |more: &[_]| ApiConfig::read(&env(more)).map(|config| config.auth);
    let trusted = OnBehalf { role: "AROAEXAMPLE123456".to_owned(), header: HeaderName::from_static("x-end-user") };
    let expected = Auth::IamOnBehalf(IamOwner::Principal, trusted);
    assert_eq!(read(&[(role, "AROAEXAMPLE123456"), (header, "x-end-user")]), Ok(expected));
    for (wrong, said) in [
        (&[(role, "AROAEXAMPLE123456")][..], "LONGHAUL_IAM_ON_BEHALF_HEADER"),
        (&[(header, "x-end-user")], "LONGHAUL_IAM_ON_BEHALF_ROLE"),
        (&[(role, "arn:aws:iam::111122223333:role/gateway"), (header, "x-end-user")], "get-role"),
        (&[(role, "AROA*"), (header, "x-end-user")], "get-role"),
        (&[(role, "AROAEXAMPLE123456"), (header, "authorization")], "nothing else uses"),
        (&[(role, "AROAEXAMPLE123456"), (header, "x-amzn-user")], "nothing else uses"),
        (&[(role, "AROAEXAMPLE123456"), (header, "x-forwarded-for")], "nothing else uses"),
        (&[(role, "AROAEXAMPLE123456"), (header, "X-End-User")], "lower case"),
        (&[(role, "AROAEXAMPLE123456"), (header, "x end")], "nothing else uses"),
    ] {
        let refused = read(wrong).unwrap_err().to_string();
        assert!(refused.contains(said), "{wrong:?}: {refused}");
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let wrong = [
        (table::QUEUE_URL.variable(), "work"),
        (table::AUTH.variable(), "nobody"),
        (table::LEASE_MS.variable(), "soon"),
        (table::RESEND_MS.variable(), "999999999"),
    ];
    let error = ApiConfig::read(&BTreeMap::from(wrong)).unwrap_err().to_string();
    for name in wrong.map(|(name, _)| name).into_iter().chain([table::TABLE.variable()]) {
        assert!(error.contains(name), "{name} in {error}");
    }
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn every_wait_ends_before_its_request_does() {
    let [request, listen, inline] =
        [table::REQUEST_S_MAX.variable(), table::LISTEN_MS_MAX.variable(), table::INLINE_WAIT_S.variable()];
    let read = |more: &[_]| ApiConfig::read(&env(more)).unwrap().mcp([7; 32]);
    let default = read(&[]);
    assert_eq!((default.listen_ms_max, default.inline_wait_ms), (50_000, 20_000));
    let long_waits = [(listen, "895000"), (inline, "895")];
    for (request_s, longest_ms) in [("10", 5_000), ("29", 24_000), ("900", 895_000)] {
        let settings = read(&[&long_waits[..], &[(request, request_s)]].concat());
        let waits = [settings.listen_ms_max, settings.result_ms_max, settings.ask_ms_max, settings.inline_wait_ms];
        assert_eq!(waits, [longest_ms; 4], "{request_s}");
        assert_eq!(settings.plain_wait_ms_max, longest_ms.min(20_000));
    }
    assert_eq!(read(&[(inline, "0")]).inline_wait_ms, 0);
    let wrong = [(request, "5"), (inline, "soon"), (listen, "1")];
    let error = ApiConfig::read(&env(&wrong)).unwrap_err();
    assert_eq!(error.faults().len(), 3, "{error}");
}

#[test]
fn what_is_not_an_origin_is_refused_with_a_sentence() {
    let read = |origins| ApiConfig::read(&env(&[(table::ALLOW_ORIGIN.variable(), origins)]));
    let allowed = read("https://App.example.com:443, file://").unwrap().allow_origins;
    assert_eq!(allowed.iter().map(WebOrigin::to_string).collect::<Vec<_>>(), ["https://app.example.com", "file://"]);
    for wrong in ["*", "app.example.com", "https://app.example.com/page"] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.contains("LONGHAUL_ALLOW_ORIGIN") && error.contains(wrong), "{error}");
    }
}

#[test]
fn a_heartbeat_fits_three_times_into_a_lease() {
    let [lease, heartbeat] = [table::LEASE_MS.variable(), table::HEARTBEAT_MS.variable()];
    let read = |more: &[_]| WorkerConfig::read(&env(more)).map(|config| config.common.server.engine.heartbeat_ms);
    assert_eq!(read(&[]), Ok(4_500));
    assert_eq!(read(&[(lease, "6000")]), Ok(2_000));
    assert!(read(&[(lease, "6000"), (heartbeat, "3000")]).is_err());
}

#[test]
fn the_attempts_of_an_owner_are_limited_on_request() {
    let read = |max| {
        WorkerConfig::read(&env(&[(table::OWNER_CONCURRENCY.variable(), max)])).map(|config| config.owner_attempts_max)
    };
    assert_eq!([read("2"), read("1024"), read("")], [Ok(Some(2)), Ok(Some(1_024)), Ok(None)]);
    assert!(read("0").is_err() && read("many").is_err());
}

#[test]
fn the_engine_has_the_times_of_the_table() {
    let config = WorkerConfig::read(&env(&[])).unwrap();
    // Storage is not limited by a disk here.
    let limits = Settings { stored_bytes_max: 10 << 30, new_tasks_max: Some(10_000), ..Settings::default() };
    // A task continues within 15 seconds of a worker's death.
    let settings = Settings { lease_ms: 13_500, heartbeat_ms: 4_500, ..limits };
    assert_eq!(config.common.server.engine, settings);
    assert_eq!((config.concurrency, config.common.server.engine.open_tasks_max), (1, 10_000));
    assert_eq!(config.owner_attempts_max, None);
}
