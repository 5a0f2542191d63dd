//! A new user's first contact: the banner, the help, clear errors, an orderly stop.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

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
        let address = format!("127.0.0.1:{}", harness::free_port());
        let mut command = harness::demo();
        command.args(["--listen", &address, "--db", ":memory:"]).stdout(Stdio::null());
        let mut server = command.stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let mut connection = loop {
            match TcpStream::connect(&address) {
                Ok(connection) => break connection,
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

#[tokio::test]
async fn an_orderly_stop_gives_running_attempts_back_and_loses_nothing() {
    let (setup, server) = Setup::started();
    let caller = server.caller();
    let id = caller.call_task("countdown", json!({"seconds": 4, "steps": 20})).await;
    caller.until_it(&id, "progress", |task| task.get("statusMessage").is_some()).await;
    assert!(server.terminate().success(), "an orderly stop is not a failure");
    let again = setup.start();
    let done = again.caller().until(&id, "completed").await;
    // The attempt was given back, not waited for: a second attempt continued.
    assert_eq!(harness::caller::structured(&done["result"])["attempts"], 2);
}
