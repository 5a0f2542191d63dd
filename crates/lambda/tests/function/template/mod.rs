//! `template.yaml`, compared with the code and with the promises of the docs.

mod alarms;
mod dead_letters;
mod endpoints;
mod logs;
mod operation;
mod permissions;
mod publisher;
mod rules;
mod sam_local;
mod tools;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::LazyLock;

use harness::template::resolve::{Stack, text};
use harness::template::{parameters, resolve, yaml};
use longhaul_core::settings::{EnvSource, Place, Preset, table};
use longhaul_lambda::{ApiConfig, Auth, Responses, TokenClaims, WorkerConfig};
use serde_json::{Value, json};

use crate::world::file;

const FUNCTIONS: [&str; 3] = ["Api", "Worker", "DeadLetterWorker"];
const PUBLISHER: &str = "Publisher";
const WORKERS: [&str; 2] = ["Worker", "DeadLetterWorker"];

/// The variables that the template does not set: they are for development.
const FOR_DEVELOPMENT: [&str; 1] = ["LONGHAUL_WEBHOOKS_TO_THIS_MACHINE"];

/// Parameters that allow less than the settings, and why.
const NARROWER: [(&str, &str); 2] = [
    ("ApiTimeoutSeconds", "shorter requests leave no time for a wait"),
    ("AttemptsPerWorker", "Lambda delivers at most ten messages without delay"),
];

/// An identity provider.
const ISSUER: &str = "https://issuer.example.com";

struct Env(BTreeMap<String, String>);

impl EnvSource for Env {
    fn get(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }
}

static TEMPLATE: LazyLock<Value> = LazyLock::new(yaml::template);

fn api(parameters: &[(&str, &str)]) -> ApiConfig {
    let env = Stack::new(&TEMPLATE, parameters).environment("Api");
    ApiConfig::read(&Env(env)).unwrap_or_else(|error| panic!("{parameters:?}: {error}"))
}

fn worker(function: &str, parameters: &[(&str, &str)]) -> WorkerConfig {
    let env = Stack::new(&TEMPLATE, parameters).environment(function);
    WorkerConfig::read(&Env(env)).unwrap_or_else(|error| panic!("{function}, {parameters:?}: {error}"))
}

/// An expectation: its name, the parameters of a stack, a place in it, and the value there.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, Value);

/// Holds the template to these cases. A place is a resource, and perhaps a path in its properties. Null stands for a
/// value that is not there. Other fields of an expected object may have any value.
fn hold(cases: &[Case<'_>]) {
    for (what, parameters, place, expected) in cases {
        let mut path = place.split('/');
        let properties = Stack::new(&TEMPLATE, parameters).resource(path.next().unwrap()).unwrap_or_default();
        let found = path.fold(&properties, |found, step| match step.parse::<usize>() {
            Ok(index) => &found[index],
            Err(_) => &found[step],
        });
        assert!(has(found, expected), "{what}, {parameters:?}, {place}: {found}, which is not {expected}");
    }
}

fn has(found: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(fields) => fields.iter().all(|(name, field)| has(&found[name], field)),
        Value::Array(items) => found.as_array().is_some_and(|found| {
            found.len() == items.len() && found.iter().zip(items).all(|(found, item)| has(found, item))
        }),
        // Some numbers are strings.
        plain => text(found) == text(plain),
    }
}

/// The one event source of a worker.
fn source(stack: &Stack<'_>, function: &str) -> Value {
    let events = stack.resource(function).unwrap()["Events"].as_object().unwrap().clone();
    let [(_, event)]: [(String, Value); 1] = events.into_iter().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(event["Type"], "SQS");
    event["Properties"].clone()
}

#[test]
fn the_template_and_the_code_have_the_same_settings() {
    let stack = Stack::new(&TEMPLATE, &[("WorkerClass", "heavy"), ("Push", "on")]);
    let functions = FUNCTIONS.iter().chain([&PUBLISHER]);
    let set: BTreeSet<_> = functions
        .flat_map(|function| stack.environment(function).into_keys())
        .chain(FOR_DEVELOPMENT.map(str::to_owned))
        .collect();
    let read = |place| table::ALL.iter().filter(move |setting| setting.preset(place) != Preset::Absent);
    let known = read(Place::Api).chain(read(Place::Worker)).filter(|setting| {
        !parameters::is_carried(**setting) || ["settings", "authentication"].contains(&setting.name())
    });
    assert_eq!(set, known.map(|setting| setting.variable().to_owned()).collect());
}

#[test]
fn the_parameters_say_what_the_settings_say() {
    for setting in table::ALL {
        parameters::hold(&TEMPLATE, setting);
    }
    // The range of a number is written in the template too; it allows as much as the setting, unless there is a reason.
    let mut narrower = Vec::new();
    for setting in table::ALL.iter().filter(|setting| setting.parameter().is_some()) {
        let name = setting.parameter().unwrap();
        if let [least, most] = parameters::limits(&TEMPLATE["Parameters"][name]).as_slice()
            && TEMPLATE["Parameters"][name]["Type"] == "Number"
            && !setting.allowed().starts_with(&format!("{least} to {most} "))
        {
            narrower.push(name);
        }
    }
    assert_eq!(narrower, NARROWER.map(|(name, _)| name));
}

#[test]
fn the_defaults_of_the_template_are_a_configuration() {
    let config = api(&[]);
    assert!(matches!(config.auth, Auth::Iam(_)), "callers sign by default");
    assert_eq!(config.responses, Responses::Streamed);
    assert_eq!(config.common.server.engine.open_tasks_max, 10_000, "there is a limit by default");
    for function in WORKERS {
        assert_eq!(worker(function, &[]).common.server.engine, config.common.server.engine, "both have the same times");
    }
}

#[test]
fn the_code_accepts_every_value_that_a_parameter_allows() {
    let accepted = |parameters: &[(&str, &str)]| {
        api(parameters);
        for function in WORKERS {
            worker(function, parameters);
        }
    };
    for (name, parameter) in TEMPLATE["Parameters"].as_object().unwrap() {
        for value in parameters::limits(parameter) {
            // The template's rules want the issuer of tokens.
            accepted(&[(name, &value), ("OAuthIssuers", ISSUER)]);
        }
    }
    accepted(&[("Settings", "lease-ms=50000 heartbeat-ms=16666 owner-concurrency=2 secret-names=A tool-env=B=c")]);
    assert_eq!(api(&[("AuthMode", "anonymous")]).auth, Auth::Anonymous);
    assert!(matches!(api(&[("AuthMode", "bearer")]).auth, Auth::Bearer(_)));
    let claims = TokenClaims { owner: Some("team".to_owned()), visible: vec!["email".to_owned()] };
    let read = r#"{"oauth-owner-claim": "team", "oauth-claims": ["email"]}"#;
    let gateway = [("AuthMode", "gateway"), ("Authentication", read)];
    let Auth::Gateway(read, None) = api(&gateway).auth else { panic!("nobody logs in anywhere") };
    assert_eq!(read, claims);
    let issuer = ("OAuthIssuers", ISSUER);
    assert!(matches!(api(&[gateway[0], issuer]).auth, Auth::Gateway(_, Some(_))));
    assert!(matches!(api(&[("AuthMode", "oauth"), issuer]).auth, Auth::Oauth(_)));
    let on_behalf = r#"{"iam-on-behalf-role": "AROAEXAMPLE1234567890", "iam-on-behalf-header": "x-longhaul-user"}"#;
    assert!(matches!(api(&[("Authentication", on_behalf)]).auth, Auth::IamOnBehalf(_, _)));
    assert_eq!(api(&[("Settings", "open-tasks-max=5")]).common.server.engine.open_tasks_max, 5);
    assert_eq!(api(&[("AllowOrigins", "https://a.example,https://b.example")]).allow_origins.len(), 2);
}

/// The functions do not start, and say all that is wrong.
#[test]
fn settings_that_cannot_be_used_are_refused_by_name() {
    let parameters = [("Settings", "lease-ms=soon leas-ms=1"), ("Authentication", r#"{"scope-cal": "a"}"#)];
    let refused = ApiConfig::read(&Env(Stack::new(&TEMPLATE, &parameters).environment("Api"))).unwrap_err();
    assert_eq!(refused.faults().len(), 3, "{refused}");
    for name in ["`lease-ms` in LONGHAUL_SETTINGS", "`leas-ms` in LONGHAUL_SETTINGS", "`scope-cal` in LONGHAUL_AUTH"] {
        assert!(refused.to_string().contains(name), "{refused}");
    }
    for function in WORKERS {
        let env = Stack::new(&TEMPLATE, &parameters).environment(function);
        assert_eq!(WorkerConfig::read(&Env(env)).unwrap_err().faults().len(), 2, "{function}");
    }
}

/// The template accepts values with the shape of settings, so that no other text reaches the functions.
#[test]
fn the_parameters_of_many_settings_take_what_has_their_shape() {
    let pattern = |name: &str| {
        let pattern = TEMPLATE["Parameters"][name]["AllowedPattern"].as_str().unwrap();
        regex_lite::Regex::new(&format!("^(?:{pattern})$")).unwrap()
    };
    for (name, taken, refused) in [
        (
            "Settings",
            &["", "lease-ms=6000", "log=info,rmcp=warn  tool-env=A=b,C=d ", "config-json={\"a\":1}"][..],
            &["lease-ms", "lease-ms=", "LeaseMs=6000", "lease-ms=6000,audit=off x"][..],
        ),
        ("Authentication", &["", "{}", r#"{"scope-call": "a"}"#], &["scope-call=a", "[]", "{"]),
        ("MemoryMb", &["128,10240,1769"], &["512", "127,512,512", "512,512,10241", "512,512,512,512", ""]),
        ("Vpc", &["", "subnet-0a1b,subnet-2/sg-1,sg-2"], &["subnet-1", "sg-1", "subnet-1/", "subnet-1,/sg-1"]),
    ] {
        for text in taken {
            assert!(pattern(name).is_match(text), "{name}: {text}");
        }
        for text in refused {
            assert!(!pattern(name).is_match(text), "{name}: {text}");
        }
    }
}

#[test]
fn times_that_depend_on_others_follow_them_unless_they_are_set() {
    let times = |parameters: &[_]| worker("Worker", parameters).common.server.engine;
    assert_eq!(times(&[("Settings", "lease-ms=6000")]).heartbeat_ms, 2_000);
    assert_eq!(times(&[("WorkerTimeoutSeconds", "5")]).attempt_margin_ms, 1_250);
    let env = Stack::new(&TEMPLATE, &[("Settings", "lease-ms=6000 heartbeat-ms=3000")]).environment("Worker");
    assert!(WorkerConfig::read(&Env(env)).is_err());
}

#[test]
fn a_message_is_hidden_for_at_least_as_long_as_its_function_may_run() {
    for timeout in ["5", "900"] {
        let stack = Stack::new(&TEMPLATE, &[("WorkerTimeoutSeconds", timeout)]);
        for (function, queue) in [("Worker", "Work"), ("DeadLetterWorker", "DeadLetters")] {
            let seconds = |value: &Value| text(value).parse::<u64>().unwrap();
            let runs = seconds(&stack.resource(function).unwrap()["Timeout"]);
            let hidden = seconds(&stack.resource(queue).unwrap()["VisibilityTimeout"]);
            assert!(hidden >= runs, "{queue}: {hidden} s, {function}: {runs} s");
        }
    }
}

/// The template sets some variables to nothing.
#[test]
fn a_variable_that_is_set_to_nothing_counts_as_not_set() {
    let set = |function: &str| Stack::new(&TEMPLATE, &[]).environment(function);
    let without = |function: &str| Env(set(function).into_iter().filter(|(_, value)| !value.is_empty()).collect());
    assert!(set("Api").values().any(String::is_empty));
    let read = ApiConfig::read(&without("Api")).unwrap();
    assert_eq!(format!("{:?}", api(&[])), format!("{read:?}"));
    for function in WORKERS {
        let read = WorkerConfig::read(&without(function)).unwrap();
        assert_eq!(format!("{:?}", worker(function, &[])), format!("{read:?}"));
    }
}

#[test]
fn a_worker_gets_no_more_messages_than_it_runs_concurrently() {
    for attempts in ["1", "10"] {
        let parameters = [("AttemptsPerWorker", attempts)];
        let batch = text(&source(&Stack::new(&TEMPLATE, &parameters), "Worker")["BatchSize"]);
        assert_eq!(batch, worker("Worker", &parameters).concurrency.to_string());
    }
}

#[test]
fn every_wait_ends_before_its_request_does() {
    let long_waits = [("Settings", "listen-ms-max=895000 inline-wait-s=895")];
    for (endpoint, endpoint_timeout_ms) in [
        (&[][..], 60_000),
        (&[("ApiTimeoutSeconds", "15")], 15_000),
        (&[("ApiTimeoutSeconds", "900")], 900_000),
        // An HTTP API times out after at most 30 seconds.
        (&[("Endpoint", "http-api")], 29_000),
        (&[("Endpoint", "http-api"), ("ApiTimeoutSeconds", "15")], 29_000),
        (&[("Endpoint", "function-url-buffered")], 60_000),
        (&[("Endpoint", "rest-api")], 60_000),
        (&[("Endpoint", "rest-api"), ("ApiTimeoutSeconds", "900")], 900_000),
        (&[("Endpoint", "rest-api-buffered")], 29_000),
        (&[("Endpoint", "rest-api-buffered"), ("ApiTimeoutSeconds", "15")], 29_000),
    ] {
        for parameters in [endpoint.to_vec(), [endpoint, &long_waits].concat()] {
            let settings = api(&parameters).mcp([7; 32]);
            let timeout = &Stack::new(&TEMPLATE, &parameters).resource("Api").unwrap()["Timeout"];
            let timeout_ms = text(timeout).parse::<u64>().unwrap() * 1_000;
            assert!(timeout_ms >= endpoint_timeout_ms, "{parameters:?}");
            for wait_ms in [
                settings.listen_ms_max,
                settings.result_ms_max,
                settings.ask_ms_max,
                settings.inline_wait_ms,
                settings.plain_wait_ms_max,
            ] {
                assert!(wait_ms + 5_000 <= endpoint_timeout_ms, "{parameters:?}: {settings:?}");
            }
        }
    }
}

#[test]
fn answers_are_streamed_if_the_endpoint_streams() {
    for (parameters, streams) in [
        (&[("Endpoint", "function-url")][..], true),
        (&[("Endpoint", "function-url-buffered")], false),
        (&[("Endpoint", "http-api")], false),
        (&[("Endpoint", "rest-api")], true),
        (&[("Endpoint", "rest-api-buffered")], false),
    ] {
        let expected = if streams { Responses::Streamed } else { Responses::Buffered };
        assert_eq!(api(parameters).responses, expected, "{parameters:?}");
        // A stream that is delivered only when it ends should not be long.
        assert_eq!(api(parameters).mcp([7; 32]).listen_ms_max, if streams { 50_000 } else { 20_000 }, "{parameters:?}");
        if let Some(url) = Stack::new(&TEMPLATE, parameters).resource("ApiUrl") {
            assert_eq!(url["InvokeMode"] == "RESPONSE_STREAM", streams, "{parameters:?}");
        }
    }
}

#[test]
fn the_table_deletes_what_expired_and_keeps_what_was_lost() {
    let ttl = "ttl";
    let names = file("crates/aws/src/item.rs");
    assert!(names.contains(&format!("const TTL: &str = {ttl:?};")), "the code has another name for it");
    let queue = json!({"SqsManagedSseEnabled": true, "MessageRetentionPeriod": 1_209_600});
    let keys = json!([{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]);
    hold(&[
        ("expiry", &[], "Tasks/TimeToLiveSpecification", json!({"AttributeName": ttl, "Enabled": true})),
        ("recovery", &[], "Tasks/PointInTimeRecoverySpecification", json!({"PointInTimeRecoveryEnabled": true})),
        ("encrypted", &[], "Tasks/SSESpecification", json!({"SSEEnabled": true})),
        ("paid by use", &[], "Tasks/BillingMode", json!("PAY_PER_REQUEST")),
        ("its keys", &[], "Tasks/KeySchema", keys),
        ("which are texts", &[], "Tasks/AttributeDefinitions", json!([{"AttributeType": "S"}, {"AttributeType": "S"}])),
        ("encrypted, for as long as SQS can", &[], "Work", queue.clone()),
        ("encrypted, for as long as SQS can", &[], "DeadLetters", queue),
    ]);
    assert_eq!(TEMPLATE["Resources"]["Tasks"]["DeletionPolicy"], "RetainExceptOnCreate");
    assert_eq!(TEMPLATE["Resources"]["Tasks"]["UpdateReplacePolicy"], "Retain");
}

#[test]
fn workers_take_from_their_queues_and_report_failed_records_one_by_one() {
    let source = |queue: &str| {
        let of_queue = json!({"Fn::GetAtt": format!("{queue}.Arn")});
        json!({"Queue": of_queue, "FunctionResponseTypes": ["ReportBatchItemFailures"]})
    };
    let dead_letters = json!({"Fn::GetAtt": "DeadLetters.Arn"});
    hold(&[
        ("work", &[], "Worker/Events/Work/Properties", source("Work")),
        ("dead letters", &[], "DeadLetterWorker/Events/DeadLetters/Properties", source("DeadLetters")),
        ("a task of many attempts is no loop", &[], "Worker/RecursiveLoop", json!("Allow")),
        ("a task of many attempts is no loop", &[], "DeadLetterWorker/RecursiveLoop", json!("Allow")),
        ("what was delivered too often", &[], "Work/RedrivePolicy/deadLetterTargetArn", dead_letters),
    ]);
    let stack = Stack::new(&TEMPLATE, &[]);
    for function in WORKERS {
        let config = worker(function, &[]);
        assert!(config.dead_letter_queue_url.ends_with("/DeadLetters"), "{function}");
        assert!(config.common.queue_url.ends_with("/Work"), "{function}");
        assert!(self::source(&stack, function)["ScalingConfig"]["MaximumConcurrency"].as_u64().unwrap() >= 2);
    }
    let receives = stack.resource("Work").unwrap()["RedrivePolicy"]["maxReceiveCount"].as_u64().unwrap();
    assert!(receives >= 5, "throttled invocations count as receives too");
}
