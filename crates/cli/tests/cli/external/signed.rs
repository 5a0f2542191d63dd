//! Requests that are signed for AWS, before a door that verifies them with the code of another SDK.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::root;
use serde_json::json;

use crate::bridge::Bridge;
use crate::command::{Said, Setup};
use crate::servers::Server;

const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SCOPE: &str = "lambda/eu-central-1";

/// The command, a server, and the door before it.
struct Ground {
    setup: Setup,
    url: String,
    seen: PathBuf,
    _door: Server,
    _server: Server,
}

impl Ground {
    fn new() -> Self {
        let (setup, server) = Setup::local();
        let python = root().join(".cache/tools/aws/bin/python");
        assert!(python.exists(), "run scripts/setup-tools.sh aws");
        let (port, seen) = (harness::free_port(), setup.folder().join("seen"));
        let mut command = Command::new(python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/external/signed.py"));
        command.args([port.to_string(), setup.port.to_string()]).args([SECRET, SCOPE]);
        let door = Server::start_into(&mut command, port, std::fs::File::create(&seen).unwrap().into());
        Self { setup, url: format!("http://127.0.0.1:{port}/mcp?a=b%20c&A=%2F"), seen, _door: door, _server: server }
    }

    /// Runs the command with these keys, and nothing else that AWS would look at.
    fn run(&self, keys: &[(&str, &str)], args: &[&str]) -> Said {
        Setup::end(self.command(keys, args).spawn().unwrap())
    }

    fn command(&self, keys: &[(&str, &str)], args: &[&str]) -> Command {
        let mut command = self.setup.command(&[args, &["--server", &self.url]].concat());
        command.env("AWS_EC2_METADATA_DISABLED", "true").env_remove("AWS_PROFILE").env_remove("AWS_REGION");
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"] {
            command.env_remove(name);
        }
        command.envs(keys.iter().copied());
        command
    }

    fn seen(&self) -> Vec<String> {
        std::fs::read_to_string(&self.seen).unwrap().lines().map(str::to_owned).collect()
    }
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];

#[test]
fn every_request_is_signed_with_its_body() {
    let ground = Ground::new();
    let sign = format!("--aws-sign={SCOPE}");
    let said = ground.run(&KEYS, &["call", "countdown", "seconds=0.5", &sign]);
    assert!(said.code == 0 && said.out.contains("\"attempts\":1"), "{said:?}");
    // A name that is not ASCII is in a header too.
    let echoed = ground.run(&KEYS, &["call", "echo", "text=Grüße  zwei", &sign]);
    assert!(echoed.code == 0 && echoed.out.contains("Grüße  zwei"), "{echoed:?}");
    let seen = ground.seen();
    assert!(seen.len() > 4 && seen.iter().all(|line| line == &format!("POST {KEY} signed")), "{seen:?}");
}

#[test]
fn the_token_of_a_session_is_sent_and_signed() {
    let ground = Ground::new();
    let keys = [&KEYS[..], &[("AWS_SESSION_TOKEN", "a+token/=="), ("LONGHAUL_AWS_SIGN", SCOPE)]].concat();
    let said = ground.run(&keys, &["tools"]);
    assert!(said.code == 0 && said.out.contains("countdown"), "{said:?}\n{:?}", ground.seen());
}

#[test]
fn the_region_is_that_of_the_configuration_if_nothing_else_says_one() {
    let ground = Ground::new();
    let config = ground.setup.folder().join(".aws");
    std::fs::create_dir(&config).unwrap();
    std::fs::write(config.join("config"), "[profile p]\nregion = eu-central-1\n").unwrap();
    let credentials = format!("[p]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n");
    std::fs::write(config.join("credentials"), credentials).unwrap();
    let said = ground.run(&[("AWS_PROFILE", "p")], &["tools", "--aws-sign=lambda"]);
    assert!(said.code == 0 && said.out.contains("countdown"), "{said:?}");
}

#[test]
fn who_cannot_sign_or_signs_for_something_else_is_not_signed_in() {
    let ground = Ground::new();
    let sign = format!("--aws-sign={SCOPE}");
    let said = ground.run(&[], &["tools", &sign]);
    assert!(said.code == 3 && said.err.contains("there are no AWS credentials to sign with"), "{said:?}");
    let said = ground.run(&[KEYS[0], ("AWS_SECRET_ACCESS_KEY", "other")], &["tools", &sign]);
    assert!(said.code == 3 && said.err.contains("The request signature we calculated does not match"), "{said:?}");
    let said = ground.run(&KEYS, &["tools", "--aws-sign=lambda/us-east-1"]);
    assert!(said.code == 3 && said.err.contains("should be scoped to lambda/eu-central-1"), "{said:?}");
    let said = ground.run(&KEYS, &["tools"]);
    assert!(said.code == 3 && said.err.contains("Missing Authentication Token"), "{said:?}");
}

#[test]
fn what_passes_a_bridge_is_signed_and_streams_come_through() {
    let ground = Ground::new();
    let sign = format!("--aws-sign={SCOPE}");
    let mut bridge = Bridge::start(&mut ground.command(&KEYS, &["bridge", &sign]));
    bridge.ask(1, "tools/call", json!({"name": "countdown", "arguments": {"seconds": 1}}));
    let task = bridge.answer(1)["result"]["taskId"].clone();
    bridge.ask(2, "subscriptions/listen", json!({"notifications": {"taskIds": [task]}}));
    assert_eq!(bridge.next()["method"], "notifications/subscriptions/acknowledged");
    while bridge.next()["params"]["status"] != "completed" {}
    assert!(ground.seen().iter().all(|line| line.ends_with(" signed")), "{:?}", ground.seen());
}

#[test]
fn what_cannot_be_signed_is_refused_before_anything_is_sent() {
    let setup = Setup::new();
    let refused = |args: &[&str], why: &str| {
        let said = setup.run(&[&["tools"], args].concat());
        assert!(said.code == 2 && said.err.contains(why), "{said:?}");
    };
    refused(&["--aws-sign"], "127.0.0.1 does not say for which service to sign");
    refused(&["--aws-sign=eu west"], "is none of");
    refused(&["--aws-sign=lambda/eu-west-1", "-H", "Authorization: Bearer x"], "leave out one");
    refused(&["--aws-sign", "--server", "http://a.lambda-url.eu-west-1.on.aws/mcp"], "over plain http");
}
