//! `cargo lambda`: functions that are deployed, watched and invoked one by one, by the commands of docs/local-aws.md.

use std::fs;
use std::process::Command;

use harness::{free_port, root};
use serde_json::{Value, json};

use super::built::{Built, commands_below, script};
use super::programs::api;
use super::shell::Shell;

const PAGE: &str = "docs/local-aws.md";
const SECTION: &str = "## cargo lambda: the functions one by one";
const DEPLOYING: &str = "### Deploying with cargo lambda";
const WATCHING: &str = "### Watching and invoking";

/// Opens the shell of the page, in a folder with built functions, where AWS is an emulator that enforces roles.
fn shell(built: &Built) -> Shell {
    let commands = commands_below(PAGE, SECTION);
    let [build, open, path, ..] = commands.as_slice() else { panic!("other commands: {commands:?}") };
    assert_eq!([build, open], ["make build", "scripts/emulator.sh run-with bash"]);
    let mut emulator = Command::new(script("emulator.sh"));
    let programs = api().parent().unwrap().display().to_string();
    let found = std::env::var("PATH").unwrap();
    emulator.args(["run-with", "bash"]).current_dir(&built.0).env("PATH", format!("{programs}:{found}"));
    let mut shell = Shell::open(emulator.env("EMULATOR_AUTH", "true"));
    shell.run(path);
    shell
}

/// A command of the page with the scripts of this checkout.
fn here(command: &str) -> String {
    command.replace("scripts/cargo-lambda.sh", &script("cargo-lambda.sh").display().to_string())
}

fn result_of(printed: &str) -> Value {
    let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// Types the commands that deploy, and returns what `prepare` has printed.
fn deploy(shell: &mut Shell) {
    let commands = commands_below(PAGE, DEPLOYING);
    let [prepare, api, worker, attach, call, invoke] = commands.as_slice() else {
        panic!("other commands: {commands:?}")
    };
    let printed = shell.run(&here(prepare));
    for command in [api, worker, attach] {
        assert!(printed.contains(command.as_str()), "{command} is not what it prints: {printed}");
        shell.run(&here(command));
    }
    assert_eq!(result_of(&shell.run(&here(call)))["steps"], 2);
    assert_eq!(result_of(&shell.run(invoke)), json!({"batchItemFailures": []}));
}

#[test]
fn the_documented_commands_of_cargo_lambda_deploy_and_serve() {
    let built = Built::new();
    let mut shell = shell(&built);
    deploy(&mut shell);

    let commands = commands_below(PAGE, WATCHING);
    let [_, _, _, watch, start @ .., call, invoke] = commands.as_slice() else {
        panic!("other commands: {commands:?}")
    };
    let port = free_port();
    let at_free_port = |command: &String| command.replace("9002", &port.to_string());
    shell.serve(&at_free_port(watch), port);
    for command in start {
        if command.ends_with('&') {
            shell.background(&at_free_port(command));
        } else {
            shell.run(&at_free_port(command));
        }
    }
    assert_eq!(result_of(&shell.run(&at_free_port(call)))["steps"], 2);
    assert_eq!(result_of(&shell.run(&at_free_port(invoke))), json!({"batchItemFailures": []}));

    shell.run(&here("scripts/cargo-lambda.sh remove"));
    assert_ne!(shell.try_run(&here("scripts/cargo-lambda.sh url")).unwrap().status, 0, "the function is gone");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
#[ignore = "builds for minutes: `make nightly` runs it"]
fn the_documented_commands_of_cargo_lambda_build_and_watch() {
    let built = Built::new();
    let mut shell = shell(&built);
    // The next run finds the build of this one. `cargo lambda deploy` would look for the programs there.
    let at_builds = format!("export CARGO_TARGET_DIR={}", root().join("target/cargo-lambda").display());
    shell.run(&at_builds);
    let commands = commands_below(PAGE, SECTION);
    let build = commands.iter().find(|command| command.starts_with("cargo lambda build")).unwrap();
    for function in ["api", "worker"] {
        fs::remove_file(built.0.join("target/lambda").join(function).join("bootstrap")).unwrap();
    }
    shell.build(&format!("{build} --lambda-dir target/lambda"));
    shell.run("unset CARGO_TARGET_DIR");
    deploy(&mut shell);
    shell.run(&at_builds);

    let commands = commands_below(PAGE, WATCHING);
    let [watch, health, call, ..] = commands.as_slice() else { panic!("other commands: {commands:?}") };
    let port = free_port();
    let at_free_port = |command: &String| command.replace("9000", &port.to_string());
    shell.serve(&at_free_port(watch), port);
    shell.build(&at_free_port(health));
    assert_eq!(result_of(&shell.run(&at_free_port(call)))["steps"], 2);
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn nothing_is_prepared_without_a_word_about_who_may_call() {
    let prepare = |arguments: &[&str]| {
        let mut command = Command::new(script("cargo-lambda.sh"));
        let out =
            command.arg("prepare").args(arguments).env("AWS_ENDPOINT_URL", "http://127.0.0.1:9").output().unwrap();
        assert!(!out.status.success(), "{arguments:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    assert!(prepare(&[]).contains("LONGHAUL_AUTH=anonymous for everyone"));
    assert!(prepare(&["LONGHAUL_AUTH=iam"]).contains("needs template.yaml"));
    assert!(prepare(&["LONGHAUL_AUTH=anonymous", "open"]).contains("`open` is not NAME=VALUE"));
}
