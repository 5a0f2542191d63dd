//! Programs that tools run: nothing of them is left after their attempt.

use std::path::Path;
use std::time::Duration;

use longhaul::rmcp::ErrorData;
use longhaul::testing;
use longhaul::{Program, TaskContext};
use longhaul_testkit::Lines;

/// In real time, and generous: nothing is measured here.
const PATIENCE: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "it waits for other processes, between two looks at them")]
async fn until(mut is_so: impl FnMut() -> bool) {
    let so = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, so).await.unwrap();
}

fn runs(pid: &str) -> bool {
    // A process that has ended and is not waited for yet is none.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// The pids that a script has written into this file, once there are two.
async fn pids(file: &Path) -> Vec<String> {
    let read = || std::fs::read_to_string(file).unwrap_or_default();
    until(|| read().lines().count() == 2).await;
    read().lines().map(str::to_owned).collect()
}

/// A program that starts another one, and notes both.
fn two(file: &Path) -> Program {
    let script = format!("sleep 1000 & echo $! >> {0}; echo $$ >> {0}; wait", file.display());
    Program::new("sh").unwrap().arg("-c").arg(script)
}

#[tokio::test]
async fn a_program_and_what_it_started_end_when_their_attempt_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut running = Box::pin(two(&file).output());
    let pids = tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        pids = pids(&file) => pids,
    };
    assert!(pids.iter().all(|pid| runs(pid)));
    drop(running);
    until(|| !pids.iter().any(|pid| runs(pid))).await;
}

#[tokio::test]
async fn a_program_of_blocking_code_ends_when_the_attempt_that_waits_for_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let (script, (said, heard)) = (two(&file), std::sync::mpsc::channel());
    let mut running = Box::pin(longhaul::spawn_blocking(move || {
        let first = script.output_blocking().unwrap().status;
        said.send((first, Program::new("true").unwrap().output_blocking())).unwrap();
    }));
    let pids = tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        pids = pids(&file) => pids,
    };
    assert!(pids.iter().all(|pid| runs(pid)));
    drop(running);
    until(|| !pids.iter().any(|pid| runs(pid))).await;
    let (first, second) = heard.recv_timeout(PATIENCE).unwrap();
    assert!(!first.success());
    assert_eq!(second.unwrap_err().to_string(), "the attempt of the tool has ended", "no program is started after it");
    // The thread is free for others.
    let again = tokio::task::spawn_blocking(|| Program::new("true").unwrap().output_blocking()).await.unwrap();
    assert!(again.unwrap().status.success());
}

#[tokio::test]
async fn a_command_becomes_a_program_with_its_arguments_variables_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "pwd; echo $ONE ${HOME-none}"]).env("ONE", "1").env_remove("HOME").current_dir(&folder);
    let output = Program::of(&command).unwrap().output().await.unwrap();
    let expected = format!("{}\n1 none\n", folder.path().canonicalize().unwrap().display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[tokio::test]
async fn a_program_has_no_input_and_its_own_variables_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cat; pwd; echo $ONE; echo wrong >&2; exit 3";
    let program = Program::new("sh").unwrap().args(["-c", script]).env("ONE", "1").current_dir(folder.path());
    let output = program.output().await.unwrap();
    let expected = format!("{}\n1\n", folder.path().canonicalize().unwrap().display());
    assert_eq!((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code()), (expected, Some(3)));
    assert_eq!(output.stderr, b"wrong\n");
}

#[tokio::test]
async fn what_a_program_leaves_in_the_background_does_not_outlive_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 >/dev/null 2>&1 & echo $! > {}", file.display());
    assert!(Program::new("sh").unwrap().args(["-c", &script]).status().await.unwrap().success());
    let pid = std::fs::read_to_string(file).unwrap();
    until(|| !runs(pid.trim())).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let refused = Program::new("no-such-program").unwrap().output().await.unwrap_err();
    assert!(refused.to_string().contains("the program `no-such-program` cannot be run: install it"), "{refused}");
}

/// Records a path below the temporary folder in two steps, twice in one of them.
async fn converts(task: TaskContext) -> Result<String, ErrorData> {
    let path = std::env::temp_dir().join("out.mp3").display().to_string();
    let converted = task.step("convert", async || vec![path.clone(), path.clone()]).await;
    let named = task.step("name", async || format!("the file is {path}")).await;
    task.try_step("check", || async { Ok::<_, ErrorData>(path.clone()) }).await?;
    Ok(format!("{converted:?} {named}"))
}

#[tokio::test]
async fn a_recorded_path_below_the_temporary_folder_is_warned_of_once_for_each_step() {
    let lines = Lines::default();
    let logged = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || logged.clone()).finish();
    let _capturing = longhaul_testkit::capture(subscriber);
    for _ in 0..2 {
        testing::tool(converts).to_end().await.unwrap().result().unwrap().unwrap();
    }
    let text = lines.text();
    let warnings: Vec<&str> = text.lines().filter(|line| line.contains("below the temporary folder")).collect();
    assert_eq!(warnings.len(), 2, "{text}");
    assert!(warnings[0].contains("step=\"convert\"") && warnings[1].contains("step=\"check\""), "{text}");
}
