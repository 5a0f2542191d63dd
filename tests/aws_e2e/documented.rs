//! The scripts that build and deploy, as the pages use them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use harness::caller::Caller;
use harness::process::Server;
use harness::{output_of, root};
use serde_json::json;

use super::built::{Built, commands_of, script};
use super::programs::api;

/// Runs scripts/deploy.sh with a SAM CLI that prints its arguments.
fn deploy(built: &Built, parameters: &str, arguments: &[&str]) -> (bool, String) {
    let sam = built.0.join("sam");
    fs::write(&sam, "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(&sam, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(root().join("scripts/deploy.sh"));
    command.args(arguments).env("SAM", &sam).env("PARAMETERS", parameters);
    let out = command.env("LAMBDA_DIR", built.0.join("target/lambda")).output().unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_deployment_names_the_processor_that_was_built_for() {
    let built = Built::new();
    let here = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    let other = if cfg!(target_arch = "aarch64") { "x86_64" } else { "arm64" };
    let (deployed, said) = deploy(&built, "AuthMode=anonymous", &["--stack-name", "longhaul"]);
    assert!(deployed, "{said}");
    let expected = format!("--parameter-overrides Architecture={here} AuthMode=anonymous --stack-name longhaul");
    assert!(said.contains(&expected), "{said}");
    assert!(!deploy(&built, &format!("Architecture={other}"), &[]).0, "it was not built for that");
    assert!(!deploy(&built, "", &["--parameter-overrides", "AuthMode=iam"]).0, "Architecture would be lost");
    fs::remove_file(built.0.join("target/lambda/architecture")).unwrap();
    let (deployed, said) = deploy(&built, "", &[]);
    assert!(!deployed && said.contains("make build"), "{said}");
}

/// Runs scripts/deploy.sh without AuthMode, for a stack that is there or not, with `answer` at a terminal if it is one.
fn deploy_without_auth_mode(built: &Built, has_stack: bool, answer: Option<&str>) -> (bool, String) {
    let sam = built.0.join("sam");
    let listed = if has_stack { "exit 0" } else { "exit 1" };
    fs::write(&sam, format!("#!/bin/sh\nif [ \"$1\" = list ]; then {listed}; fi\necho \"$@\"\n")).unwrap();
    fs::set_permissions(&sam, fs::Permissions::from_mode(0o755)).unwrap();
    let script = root().join("scripts/deploy.sh");
    let line = format!("{} --stack-name etl --region eu-west-1", script.display());
    let mut command = match answer {
        // `script` gives it a terminal.
        Some(answer) => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo {answer} | script -qec '{line}' /dev/null")]);
            command
        }
        None => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("exec {line} </dev/null")]);
            command
        }
    };
    let command = command.env("SAM", &sam).env_remove("PARAMETERS");
    let out = command.env("LAMBDA_DIR", built.0.join("target/lambda")).output().unwrap();
    (out.status.success(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
}

#[test]
fn a_first_deployment_is_told_who_may_call_and_an_update_keeps_it() {
    let built = Built::new();
    let (deployed, said) = deploy_without_auth_mode(&built, true, None);
    assert!(deployed && said.contains("deploy --template-file") && !said.contains("AuthMode"), "{said}");
    let (deployed, said) = deploy_without_auth_mode(&built, false, None);
    assert!(!deployed && said.contains("no stack etl yet") && !said.contains("--template-file"), "{said}");
    for way in ["bearer", "oauth", "iam"] {
        assert!(said.contains(way), "{said}");
    }
    let (deployed, said) = deploy_without_auth_mode(&built, false, Some("bearer"));
    assert!(deployed && said.contains(" AuthMode=bearer --stack-name etl"), "{said}");
    let (deployed, said) = deploy_without_auth_mode(&built, false, Some("anyone"));
    assert!(!deployed && said.contains("`anyone` is none of bearer"), "{said}");
}

#[test]
fn a_deployment_has_the_tags_that_are_named() {
    let built = Built::new();
    let deploy = |tags: &str| {
        let sam = built.0.join("sam");
        fs::write(&sam, "#!/bin/sh\necho \"$@\"\n").unwrap();
        fs::set_permissions(&sam, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(root().join("scripts/deploy.sh"));
        command.arg("--guided").env("SAM", &sam).env("TAGS", tags);
        let out = command.env("LAMBDA_DIR", built.0.join("target/lambda")).output().unwrap();
        (out.status.success(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
    };
    let (deployed, said) = deploy("team=etl cost-center=42");
    assert!(deployed && said.contains(" --tags team=etl cost-center=42 --guided"), "{said}");
    assert!(!deploy("").1.contains("--tags"));
    let (deployed, said) = deploy("team");
    assert!(!deployed && said.contains("the tag team is not NAME=VALUE"), "{said}");
}

/// Runs scripts/build-lambda.sh with a cargo-lambda that makes what it is asked for, and prints its arguments.
#[test]
fn the_functions_are_built_from_the_package_and_the_binaries_that_are_named() {
    let built = Built::new();
    let cargo = built.0.join("cargo-lambda");
    let copies = "#!/bin/sh\necho \"$@\"\ncd target/lambda\n\
        for name in reports-api reports-worker; do mkdir $name && cp api/bootstrap $name/bootstrap; done\n";
    fs::write(&cargo, copies).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(root().join("scripts/build-lambda.sh"));
    command.args(["--offline"]).env("CARGO_LAMBDA", &cargo).env("WORKSPACE", &built.0).env("PACKAGE", "reports");
    command.env("API", "reports-api").env("WORKER", "reports-worker").env("FEATURES", "").env("PROFILE", "release");
    let said = output_of(&mut command);
    let expected = "--package reports --bin reports-api --bin reports-worker --offline";
    assert!(said.contains(expected) && said.contains("--profile release") && !said.contains("features"), "{said}");
    for function in ["api", "worker"] {
        assert!(built.zip(function)[0][2].as_bool().unwrap(), "{function}");
    }
    assert!(!built.0.join("target/lambda/reports-api").exists(), "the template looks for api and worker");
}

#[test]
fn what_is_not_a_program_is_not_packed() {
    let built = Built::new();
    fs::write(built.0.join("target/lambda/api/bootstrap"), "#!/bin/sh\n").unwrap();
    let script = root().join("scripts/pack_lambda.py");
    let packed =
        Command::new("python3").arg(script).arg(built.0.join("target/lambda")).args(["api", "worker"]).output();
    let packed = packed.unwrap();
    assert!(!packed.status.success());
    assert!(String::from_utf8(packed.stderr).unwrap().contains("not a Linux program"));
}

/// `make local-aws` with other parameters, as docs/local-aws.md has them, and without its build.
#[tokio::test]
async fn the_whole_deployment_serves_until_it_is_stopped() {
    let commands = commands_of("docs/local-aws.md");
    let parameters = commands.iter().find_map(|command| command.strip_prefix("scripts/local-aws.sh W")).unwrap();
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("exec {} W{parameters}", script("local-aws.sh").display()));
    let running = Server::start(shell.env("LOCAL_AWS_BIN_DIR", api().parent().unwrap()), None);
    let caller = Caller::new(running.url());
    let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    caller.until(&id, "completed").await;
    let url = running.url().to_owned();
    running.terminate();
    assert!(reqwest::get(url).await.is_err(), "nothing is left");
}
