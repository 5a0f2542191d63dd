//! The conformance suite against the functions, deployed by the template: in the emulator, and on the Runtime API host,
//! which streams.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]
#![expect(dead_code, reason = "the other tests of the deployment use all of what they share with these")]

#[path = "../killed/approval.rs"]
mod approval;
#[path = "../e2e/caller.rs"]
mod caller;
mod gate;
mod ground;
mod inside;
mod process;
#[path = "../runtime_host/mod.rs"]
mod runtime_host;
mod timed;

/// The programs that are deployed here: those with the fixtures of the suite.
mod programs {
    use std::path::Path;

    pub(crate) const STATE: &str = ".cache/local-aws-conformance";
    pub(crate) const PREFIX: &str = "conformance-";

    pub(crate) fn api() -> &'static Path {
        Path::new(env!("CARGO_BIN_EXE_conformance-api"))
    }

    pub(crate) fn worker() -> &'static Path {
        Path::new(env!("CARGO_BIN_EXE_conformance-worker"))
    }
}

use std::process::Command;

use ground::Resources;
use process::{Setup, endpoint, output_of, root};
use runtime_host::Idle;
use runtime_host::front_door::{HttpFrontend, Mode};
use tokio::net::TcpListener;

/// How long at most a stream stays open, and a question in an open call waits.
const WAIT_MS_MAX: &str = "5000";

/// Instances of the API function. A stream occupies one until it ends, also when the suite no longer listens; Lambda
/// would start as many as it needs.
const INSTANCES: usize = 4;

/// Runs the suite. What is expected to fail is listed in `tests/conformance`.
fn run_suite(revision: &str, url: &str, expected: &str) {
    let mut suite = Command::new(root().join("scripts/conformance.sh"));
    suite.arg(revision).env("CONFORMANCE_URL", url);
    let output = output_of(suite.env("CONFORMANCE_EXPECTED", root().join("tests/conformance").join(expected)));
    assert!(output.contains("nothing failed that is not expected"), "{output}");
}

/// Instances of the API function, each frozen between requests and each called in turn, and a worker.
async fn on_the_host(revision: &'static str) {
    let resources = Resources::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = [
        ("LONGHAUL_LISTEN_MS_MAX", WAIT_MS_MAX.to_owned()),
        ("LONGHAUL_ALLOW_ORIGIN", format!("http://{}", listener.local_addr().unwrap())),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let env = [resources.env(None), settings.to_vec()].concat();
    let frontend =
        HttpFrontend::open_at(listener, programs::api(), &env, Idle::Frozen, Mode::Streamed, INSTANCES).await;
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
    let setup = Setup::with(&["ListenMsMax=1000", &format!("AllowOrigins={}", endpoint())]);
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
