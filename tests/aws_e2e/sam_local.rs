//! `sam local`: the functions in containers, by the commands of docs/local-aws.md.
//!
//! Where no Docker daemon can be started, these tests say so, on standard error, and pass.

use std::process::Command;

use harness::caller::Caller;
use harness::{file, free_port, root};
use serde_json::{Value, json};

use super::built::{Built, commands_below, script};
use super::programs::api;
use super::shell::Shell;

const PAGE: &str = "docs/local-aws.md";
const SECTION: &str = "## SAM local: the functions in containers";

/// How scripts/sam-local.sh ends where no daemon can be started.
const CANNOT_START: i32 = 3;

/// The ports in the commands of the page.
const PORTS: [&str; 2] = ["3000", "3001"];

/// The shell that the page opens, in a folder with built functions. `None` where no daemon can be started.
pub(super) fn shell(built: &Built) -> Option<Shell> {
    let mut open = Command::new(script("sam-local.sh"));
    let programs = api().parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    open.args(["run-with", "bash"]).current_dir(&built.0).env("PATH", format!("{programs}:{path}"));
    open.env_remove("DOCKER_HOST");
    let mut shell = Shell::open(&mut open);
    if shell.try_run("true").is_some() {
        return Some(shell);
    }
    assert_eq!(shell.leave(), Some(CANNOT_START), "the reason is above");
    let said = "NOT RUN: sam local was not tried in containers, because no Docker daemon can be started here";
    eprintln!("{said}");
    None
}

/// The function's answer in the output of `sam local invoke`: it is the last line.
fn answer_of(printed: &str) -> Value {
    let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// The result in an answer of the API function, whose body is JSON or one event of a stream.
fn result_in(answer: &Value) -> Value {
    assert_eq!(answer["statusCode"], 200, "{answer}");
    let body = answer["body"].as_str().unwrap();
    let json = body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(body);
    let answered: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert!(answered["result"].is_object(), "{answered}");
    answered["result"].clone()
}

#[tokio::test]
async fn the_documented_commands_of_sam_local_work_in_containers() {
    let commands = commands_below(PAGE, SECTION);
    let [build, open, invocations @ .., start_api, start_lambda, work, list, call] = commands.as_slice() else {
        panic!("other commands: {commands:?}")
    };
    assert_eq!([build, open], ["make build", "scripts/sam-local.sh run-with bash"]);
    let built = Built::new();
    let Some(mut shell) = shell(&built) else { return };

    let [api, worker, dead_letters] = invocations else { panic!("one for each function: {invocations:?}") };
    let listed = result_in(&answer_of(&shell.run(api)));
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "countdown"), "{listed}");
    assert_eq!(answer_of(&shell.run(worker)), json!({"batchItemFailures": []}));
    // The second one cannot be read.
    let returned = json!({"batchItemFailures": [{"itemIdentifier": "19dd0b57-b21e-4ac1-bd88-01bbb068cb71"}]});
    assert_eq!(answer_of(&shell.run(dead_letters)), returned);

    let ports = [free_port(), free_port()];
    let at_free_ports = |command: &String| {
        PORTS.iter().zip(ports).fold(command.clone(), |command, (port, free)| command.replace(port, &free.to_string()))
    };
    shell.serve(&at_free_ports(start_api), ports[0]);
    shell.serve(&at_free_ports(start_lambda), ports[1]);
    shell.background(
        &at_free_ports(work).replace("scripts/sam-local.sh", &script("sam-local.sh").display().to_string()),
    );
    assert!(shell.run(&at_free_ports(list)).contains("countdown"));
    let result: Value = serde_json::from_str(shell.run(&at_free_ports(call)).trim()).unwrap();
    assert_eq!(result["steps"], 2, "{result}");

    // Another client, which polls on its own.
    let caller = Caller::new(&format!("http://127.0.0.1:{}/mcp", ports[0]));
    let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 1})).await;
    let done = caller.until(&id, "completed").await;
    assert_eq!(done["result"]["structuredContent"]["steps"], 1, "{done}");

    std::fs::remove_file(built.0.join("target/lambda/api/bootstrap.zip")).unwrap();
    assert!(shell.run(&format!("{api} 2>&1")).contains("bootstrap.zip' does not exist"));
    assert_eq!(shell.leave(), Some(0), "everything is removed");
}

/// The variables of the environment file, but for some that are set otherwise.
fn environment_with(built: &Built, function: &str, variables: &[(&str, &str)]) -> String {
    let mut environment: Value = serde_json::from_str(&file("infra/sam-local-env.json")).unwrap();
    for (name, value) in variables {
        environment[function][*name] = json!(value);
    }
    let path = built.0.join("environment.json");
    std::fs::write(&path, environment.to_string()).unwrap();
    path.display().to_string()
}

const AUTH: &str = "LONGHAUL_AUTH";

/// The events of an API function, with the variables for their callers; those that call a tool create a task.
const API_EVENTS: [(&str, &[(&str, &str)]); 11] = [
    ("api-cargo-lambda-watch", &[]),
    ("api-function-url", &[]),
    ("api-function-url-call", &[]),
    ("api-function-url-iam", &[(AUTH, "iam")]),
    (
        "api-function-url-agentcore",
        &[
            (AUTH, "iam"),
            ("LONGHAUL_IAM_ON_BEHALF_ROLE", "AROAEXAMPLE1234567890"),
            ("LONGHAUL_IAM_ON_BEHALF_HEADER", "x-longhaul-user"),
        ],
    ),
    ("api-http-api", &[]),
    ("api-http-api-iam", &[(AUTH, "iam")]),
    ("api-http-api-jwt", &[(AUTH, "gateway")]),
    ("api-rest-api", &[]),
    ("api-rest-api-iam", &[(AUTH, "iam")]),
    ("api-rest-api-jwt", &[(AUTH, "gateway")]),
];

/// The events of workers: how many messages come back.
const WORKER_EVENTS: [(&str, &str, usize); 3] =
    [("worker-batch", "Worker", 0), ("worker-poison", "Worker", 1), ("dead-letter", "DeadLetterWorker", 1)];

#[test]
#[ignore = "takes minutes: `make nightly` runs it"]
fn every_event_is_answered_in_a_container() {
    let events = std::fs::read_dir(root().join("infra/events")).unwrap().count();
    assert_eq!(events, API_EVENTS.len() + WORKER_EVENTS.len(), "each event is one of these");
    let built = Built::new();
    let Some(mut shell) = shell(&built) else { return };
    for (event, variables) in API_EVENTS {
        let environment = environment_with(&built, "Api", variables);
        let command = format!("sam local invoke Api --event infra/events/{event}.json --env-vars {environment}");
        result_in(&answer_of(&shell.run(&command)));
    }
    for (event, function, returned) in WORKER_EVENTS {
        let answer = answer_of(&shell.run(&format!("sam local invoke {function} --event infra/events/{event}.json")));
        assert_eq!(answer["batchItemFailures"].as_array().unwrap().len(), returned, "{event}: {answer}");
    }
    assert_eq!(shell.leave(), Some(0), "everything is removed");
}
