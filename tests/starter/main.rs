//! A new server, from `templates/server`: rendered in an empty folder, built against the packages that would be
//! published, tested, served, killed, deployed and called.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

mod emulator;
mod local;
mod project;

use harness::caller::Caller;
use serde_json::json;

use emulator::Stack;
use local::Local;
use project::{Project, run};

/// Calls the starter's tool and returns the task's id.
async fn import(caller: &Caller, files: &[&str]) -> String {
    caller.call_task("import", json!({ "files": files })).await
}

/// Waits for the end of a call, and returns the text of its result.
async fn result_of(caller: &Caller, task_id: &str) -> String {
    let task = caller.until(task_id, "completed").await;
    task["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {task}")).to_owned()
}

/// One test, because building takes most of the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_passes_its_tests_survives_a_kill_and_runs_on_aws() {
    let project = Project::new();
    run(&mut project.make(&["check"]));
    run(&mut project.make(&["test"]));
    project.build();

    let folder = tempfile::tempdir().unwrap();
    let said = local::refused(&project, &["--listen", "127.0.0.1:http"]);
    assert!(said.starts_with("error: the configuration cannot be used: --listen"), "{said}");
    let said = local::refused(&project, &["--secret", "DB_PASSWORD=file:none"]);
    assert!(said.starts_with("error: the secret `DB_PASSWORD` cannot be read from none: "), "{said}");

    let server = Local::start(&project, folder.path()).await;
    let task_id = import(&server.caller(), &["a.csv", "b.csv"]).await;
    let progressed =
        |task: &serde_json::Value| task["statusMessage"].as_str().is_some_and(|text| text.contains("b.csv"));
    server.caller().until_it(&task_id, "progress", progressed).await;
    server.kill();
    let server = Local::start(&project, folder.path()).await;
    assert_eq!(result_of(&server.caller(), &task_id).await, "2000 rows of 2 files in archive");

    let stack = Stack::deploy(&project);
    let caller = Caller::new(stack.url());
    let task_id = import(&caller, &["a.csv"]).await;
    assert_eq!(result_of(&caller, &task_id).await, "1000 rows of 1 files in archive");
}

/// The other tool that renders it is not among the tools of the checkout: it would have to be built. So the inputs of
/// the two are compared.
#[test]
fn both_tools_render_the_same_files() {
    let lists = |file: &str, name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(project::template().join(file)).unwrap();
        let list = text.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))).unwrap();
        serde_json::from_str(list).unwrap_or_else(|error| panic!("{file}: {name}: {error}"))
    };
    let copied = lists("cargo-generate.toml", "exclude");
    let extra = lists("CargoLambda.toml", "render_files");
    let ignored = lists("CargoLambda.toml", "ignore_files");
    for (path, text) in project::files() {
        let is_copied = copied.iter().any(|pattern| path.starts_with(pattern.trim_end_matches("**/*")));
        let is_source = path.starts_with("src/");
        let is_rendered = is_source || ["Cargo.toml", "README.md"].contains(&path.as_str()) || extra.contains(&path);
        let has_braces = text.replace("{{project_name}}", "").contains("{{") || text.contains("{%");
        if ignored.contains(&path) {
            continue;
        }
        assert!(is_copied || !has_braces, "{path} would not be rendered as it is");
        assert!(is_rendered || !text.contains("{{project_name}}"), "{path} is not in render_files of CargoLambda.toml");
        assert!(!is_copied || !text.contains("{{project_name}}"), "{path} is excluded in cargo-generate.toml");
    }
}
