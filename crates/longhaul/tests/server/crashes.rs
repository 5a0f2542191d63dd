//! Tools that keep something outside of their process, or only inside of it, in runs that make both anew.
#![expect(clippy::excessive_nesting, reason = "closures for worlds, processes and tools")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use longhaul::TaskContext;
use longhaul::rmcp::ErrorData;
use longhaul::testing::{self, Call, TestError};
use tempfile::TempDir;

fn unreadable(error: std::io::Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Writes a file in one step, and reads it in another.
async fn convert(file: PathBuf, task: &TaskContext) -> Result<String, ErrorData> {
    task.try_step("convert", async || std::fs::write(&file, "converted").map_err(unreadable)).await?;
    task.step("log", async || ()).await;
    task.try_step("upload", async || std::fs::read_to_string(&file).map_err(unreadable)).await
}

/// The sentences of a test that found differences.
fn differences(tested: Result<(), TestError>) -> Vec<String> {
    match tested {
        Err(TestError::Differs { differences }) => differences,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tool_that_keeps_a_file_in_a_folder_of_all_processes_is_the_same_after_every_crash() {
    let worlds = AtomicU32::new(0);
    let world = || {
        worlds.fetch_add(1, Ordering::Relaxed);
        let folder = Arc::new(tempfile::tempdir().unwrap());
        move || {
            let folder = Arc::clone(&folder);
            testing::tool(move |task: TaskContext| {
                let folder = Arc::clone(&folder);
                async move { convert(folder.path().join("out"), &task).await }
            })
        }
    };
    testing::crash_everywhere_with(world).await.unwrap();
    assert!(worlds.load(Ordering::Relaxed) > 20, "each run has its own: {worlds:?}");
}

/// The folder of an attempt, with a name that all attempts know.
struct OwnFolder(PathBuf);

impl OwnFolder {
    fn new(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
async fn a_destructor_that_removes_what_a_later_attempt_needs_is_named() {
    let world = || {
        let folder: Arc<TempDir> = Arc::new(tempfile::tempdir().unwrap());
        move || {
            let folder = Arc::clone(&folder);
            testing::tool(move |task: TaskContext| {
                let own = folder.path().join("own");
                async move {
                    let own = OwnFolder::new(own);
                    convert(own.0.join("out"), &task).await
                }
            })
        }
    };
    let found = differences(testing::crash_everywhere_with(world).await);
    let named = "a destructor of the attempt removes something that a later attempt needs";
    let log = found.iter().filter(|found| found.starts_with("a crash after step `log`")).collect::<Vec<_>>();
    assert!(!log.is_empty() && log.iter().all(|found| found.contains(named)), "{found:?}");
    assert!(found.iter().any(|found| found.starts_with("a graceful stop after step `convert`")), "{found:?}");
}

/// A tool that relies on what its process remembers.
fn remembering() -> Call {
    let remembered = Arc::new(AtomicU32::new(0));
    testing::tool(move |task: TaskContext| {
        let remembered = Arc::clone(&remembered);
        async move {
            task.step("remember", async || remembered.store(17, Ordering::Relaxed)).await;
            remembered.load(Ordering::Relaxed).to_string()
        }
    })
}

#[tokio::test]
async fn each_process_begins_with_a_server_of_its_own() {
    remembering().crash_everywhere().await.unwrap();
    let found = differences(testing::crash_everywhere_with(|| remembering).await);
    assert!(found.iter().any(|found| found.starts_with("a crash after step `remember`")), "{found:?}");
}

#[tokio::test]
async fn a_graceful_stop_is_among_the_ends_of_a_process() {
    let attempts = Arc::new(AtomicU32::new(0));
    let call = testing::tool(move |task: TaskContext| {
        let number = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            task.step("first", async || ()).await;
            task.step(&format!("attempt {number}"), async || ()).await;
            "done".to_owned()
        }
    });
    let found = differences(call.crash_everywhere().await);
    assert!(found.iter().any(|found| found.starts_with("a graceful stop after step `first`")), "{found:?}");
}
