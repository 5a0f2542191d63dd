//! The conformance suite against the functions, deployed by the template: in the emulator, and on the Runtime API host,
//! which streams.

use std::process::Command;

use harness::runtime_host::Idle;
use harness::runtime_host::front_door::{HttpFrontend, Mode};
use harness::{output_of, root};
use tokio::net::TcpListener;

use super::ground::Resources;
use super::process::Setup;
use super::programs::CONFORMANCE;

/// How long at most a stream stays open, and a question in an open call waits.
const WAIT_MS_MAX: &str = "5000";

/// Instances of the API function. A stream occupies one until it ends, even if the suite no longer listens; Lambda
/// would start as many as it needs.
const INSTANCES: usize = 4;

/// Runs the suite. `tests/conformance` lists the expected failures.
fn run_suite(revision: &str, url: &str, expected: &str) {
    let mut suite = Command::new(root().join("scripts/conformance.sh"));
    suite.arg(revision).env("CONFORMANCE_URL", url);
    let output = output_of(suite.env("CONFORMANCE_EXPECTED", root().join("tests/conformance").join(expected)));
    assert!(output.contains("nothing failed that is not expected"), "{output}");
}

/// Instances of the API function, each frozen between requests and each called in turn, and a worker.
async fn on_the_host(revision: &'static str) {
    let resources = Resources::of(&CONFORMANCE).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = [
        ("LONGHAUL_LISTEN_MS_MAX", WAIT_MS_MAX.to_owned()),
        ("LONGHAUL_ALLOW_ORIGIN", format!("http://{}", listener.local_addr().unwrap())),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let env = [resources.env(None), settings.to_vec()].concat();
    let frontend =
        HttpFrontend::open_at(listener, CONFORMANCE.api(), &env, Idle::Frozen, Mode::Streamed, INSTANCES).await;
    let _worker = resources.worker(None);
    let url = frontend.url().to_owned();
    tokio::task::spawn_blocking(move || run_suite(revision, &url, "expected-failures.txt")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_functions_conform_to_2026_07_28() {
    on_the_host("2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_functions_conform_to_2025_11_25() {
    on_the_host("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_functions_conform_to_2025_06_18() {
    on_the_host("2025-06-18").await;
}

/// The template, deployed in the emulator, which sends an answer only when it is complete.
fn in_the_emulator(revision: &str) {
    // A question in an open call is never answered here, so the shortest wait is the best one.
    let setup =
        Setup::of(&CONFORMANCE, &["Settings=listen-ms-max=1000", &format!("AllowOrigins={}", CONFORMANCE.endpoint())]);
    run_suite(revision, setup.start().url(), "expected-failures-buffered.txt");
}

#[test]
fn the_deployed_template_conforms_to_2026_07_28() {
    in_the_emulator("2026-07-28");
}

#[test]
fn the_deployed_template_conforms_to_2025_11_25() {
    in_the_emulator("2025-11-25");
}

#[test]
fn the_deployed_template_conforms_to_2025_06_18() {
    in_the_emulator("2025-06-18");
}
