//! What a new user sees first: the banner, the help, clear errors, an orderly stop.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::output_of;
use serde_json::{Value, json};

use super::process::Setup;

#[test]
fn the_printed_client_configuration_is_json_with_the_url() {
    let setup = Setup::with(&[]);
    let server = setup.start();
    let mut configuration = None;
    for _ in 0..100 {
        let banner = server.printed();
        configuration = banner.find('{').and_then(|from| {
            serde_json::Deserializer::from_str(&banner[from..]).into_iter::<Value>().next().and_then(Result::ok)
        });
        if configuration.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let configuration = configuration.expect("the banner has a JSON object");
    assert_eq!(configuration["mcpServers"]["longhaul"]["url"], server.url());
}

#[test]
fn help_explains_every_flag_and_names_its_variable() {
    let out = output_of(harness::demo().arg("--help"));
    for flag in ["listen", "db", "data-dir", "diagnostics", "attempt-ms", "lease-ms", "log-format"] {
        let variable = format!("LONGHAUL_{}", flag.to_uppercase().replace('-', "_"));
        assert!(out.contains(&format!("--{flag}")) && out.contains(&variable), "{flag}: {out}");
    }
}

#[test]
fn a_database_that_cannot_be_opened_is_a_clear_error() {
    let setup = Setup::with(&[]);
    std::fs::write(setup.db(), "this is not a database, but long enough to look like a file with a header").unwrap();
    let out = setup.command().output().unwrap();
    assert!(!out.status.success());
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(error.contains("--db"), "{error}");
    let kept = std::fs::read_to_string(setup.db()).unwrap();
    assert!(kept.starts_with("this is not a database"), "the file was changed");
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused_and_the_first_goes_on() {
    let setup = Setup::with(&[]);
    let server = setup.start();
    let out = setup.command().output().unwrap();
    assert!(!out.status.success());
    let error = String::from_utf8_lossy(&out.stderr);
    let file = setup.db().canonicalize().unwrap();
    assert!(error.contains(file.to_str().unwrap()) && error.contains("another server uses"), "{error}");
    assert_eq!(server.caller().result("tools/list", json!({})).await["resultType"], "complete");
    server.kill();
    // The kernel released the lock.
    setup.start();
}

/// Clients that start a server call it as soon as they can connect.
#[test]
fn who_connects_first_is_answered_by_a_server_that_is_ready() {
    for _ in 0..20 {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = harness::demo();
        command.args(["--listen", &address.to_string(), "--db", ":memory:"]).stdout(Stdio::null());
        let mut server = command.stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let mut connection = loop {
            match TcpStream::connect(address) {
                Ok(connection) if connection.local_addr().unwrap() != address => break connection,
                // While nobody listens, a connection may be made from the port to itself.
                Ok(_to_itself) => {}
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "it does not listen: {error}"),
            }
        };
        connection.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        let read = connection.read_to_string(&mut answer);
        server.kill().unwrap();
        server.wait().unwrap();
        read.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn a_wrong_flag_is_named_in_the_error() {
    let out = harness::demo().args(["--lease-ms", "5"]).output().unwrap();
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("--lease-ms"));
}

#[tokio::test]
async fn an_orderly_stop_gives_running_attempts_back_and_loses_nothing() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("countdown", json!({"seconds": 4, "steps": 20})).await;
    caller.until_it(&id, "progress", |task| task.get("statusMessage").is_some()).await;
    assert!(server.terminate().success(), "an orderly stop is not a failure");
    let again = setup.start();
    let done = again.caller().until(&id, "completed").await;
    // The attempt was given back, not waited for: a second attempt continued.
    assert_eq!(harness::caller::structured(&done["result"])["attempts"], 2);
}

#[tokio::test]
async fn attempts_that_are_very_short_still_finish_the_work() {
    let setup = Setup::with(&["--diagnostics", "--attempt-ms", "60", "--lease-ms", "2000"]);
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("countdown", json!({"seconds": 0.6, "steps": 30})).await;
    let done = caller.until(&id, "completed").await;
    let attempts = harness::caller::structured(&done["result"])["attempts"].as_u64().unwrap();
    assert!(attempts > 3, "one attempt cannot have done it: {attempts}");
}
