//! A new server of the starter that is built with Longhaul from this checkout, as its README says, and killed.

use std::path::Path;
use std::process::Command;

use harness::process::Server;
use harness::{output_of, root};
use serde_json::{Value, json};

const NAME: &str = "reports";

/// The starter's server on a database in `folder`. The task of a server that was killed continues soon.
fn start(program: &Path, folder: &Path) -> Server {
    let mut command = Command::new(program);
    command.args(["--listen", "127.0.0.1:0", "--lease-ms", "1500", "--heartbeat-ms", "200"]);
    command.args(["--tool-env", "FOLDER=archive"]).arg("--db").arg(folder.join("tasks.db")).current_dir(folder);
    Server::start(&mut command, Some(&folder.join("log")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_is_built_from_the_checkout_and_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join(NAME);
    output_of(Command::new(root().join("scripts/new_server.sh")).arg(NAME).arg(&project));
    // Next to the files that this test was built of, so that other crates are there already. All of them have been
    // downloaded.
    let programs = harness::program("longhaul").parent().unwrap().to_owned();
    let mut build = Command::new("cargo");
    build.args(["build", "--offline", "--bin", NAME]).current_dir(&project);
    build.env("CARGO_TARGET_DIR", programs.parent().unwrap()).env("CARGO_INCREMENTAL", "0");
    output_of(build.env("CARGO_PROFILE_DEV_DEBUG", "0"));

    let server = start(&programs.join(NAME), folder.path());
    let id = server.caller().call_task("import", json!({"files": ["a.csv", "b.csv"]})).await;
    let at_b = |task: &Value| task["statusMessage"].as_str().is_some_and(|message| message.contains("b.csv"));
    server.caller().until_it(&id, "progress", at_b).await;
    server.kill();
    let server = start(&programs.join(NAME), folder.path());
    let task = server.caller().until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "2000 rows of 2 files in archive", "{task}");
}
