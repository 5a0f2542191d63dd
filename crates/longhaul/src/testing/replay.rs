//! A journal of a server, replayed against other code.

use std::collections::BTreeSet;

use longhaul_core::{Clock, Entry, EntryKind, Payload, Recording, strict_json};
use rmcp::ServerHandler;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{State, TestError, TestServer};

/// The parts of a task, as `longhaul show --journal --json` prints it, that are used here.
#[derive(Deserialize)]
struct Exported {
    tool: String,
    arguments: Shown,
    journal: Vec<ExportedEntry>,
}

#[derive(Deserialize)]
struct Shown {
    value: Option<Value>,
}

#[derive(Deserialize)]
struct ExportedEntry {
    kind: EntryKind,
    name: String,
    #[serde(default)]
    value: Value,
    /// Whether the value was too long to be shown.
    #[serde(default)]
    cut: bool,
}

/// Replays a journal that `longhaul show ID --journal --json` has printed against the tool of `handler`. The tool runs
/// to the first step that is not recorded, whose work is not done.
///
/// # Errors
/// [`TestError::Diverges`] for the first thing that the tool does in another way than the task did.
/// [`TestError::NotAJournal`] for a journal that is none, or in which large values are cut.
///
/// ```
/// # use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
/// # use longhaul::{TaskContext, testing};
/// # #[derive(Clone)]
/// # struct Orders;
/// # #[tool_router]
/// # impl Orders {
/// #     #[tool]
/// #     async fn order(&self, task: TaskContext) -> String {
/// #         let number = task.step("number", async || 17).await;
/// #         task.step("pay by card", async || ()).await;
/// #         number.to_string()
/// #     }
/// # }
/// # #[tool_handler]
/// # impl ServerHandler for Orders {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let journal = r#"{"tool": "order", "arguments": {"value": {}}, "journal": [
///     {"kind": "step", "name": "number", "value": 17},
///     {"kind": "step", "name": "pay by invoice", "value": null}]}"#;
/// let diverges = testing::replay(journal, Orders).await.unwrap_err();
/// assert_eq!(
///     diverges.to_string(),
///     "the tool came to step `pay by card`, which is not recorded, before the recorded step `pay by invoice`"
/// );
/// # }
/// ```
pub async fn replay<H: ServerHandler + Clone>(journal: &str, handler: H) -> Result<(), TestError> {
    super::server(handler).replay(journal).await
}

impl TestServer {
    /// Replays a journal against the tool of this server: see [`replay`].
    ///
    /// # Errors
    /// As [`replay`].
    pub async fn replay(&self, journal: &str) -> Result<(), TestError> {
        let exported: Exported = strict_json::from_str(journal).map_err(|error| {
            TestError::NotAJournal(format!("{error}: export it with `longhaul show ID --journal --json`"))
        })?;
        let arguments = exported.arguments.value.unwrap_or_else(|| Value::Object(Map::new()));
        let mut running = self.call(exported.tool, arguments).begin().await?;
        let mut entries = Vec::new();
        for ExportedEntry { kind, name, value, cut } in exported.journal {
            if cut {
                return Err(TestError::NotAJournal(format!("the value of {} `{name}` was cut", kind.as_str())));
            }
            let recording = Some(Recording { at: running.world.clock.now(), took_ms: None, attempt: 1, order: None });
            entries.push(Entry { kind, name, value: Payload::Inline(value.to_string()), recording });
        }
        running.world.seed(&running.key, &entries).await?;
        running.world.script.stop_at_new_step();
        while running.world.script.new_step().is_none() && running.world.work_once(&running.key).await? {}
        let came: BTreeSet<String> =
            running.world.script.attempts().iter().flatten().map(|seen| seen.step().to_owned()).collect();
        let steps = entries.iter().filter(|entry| entry.kind == EntryKind::Step);
        let Some(missed) = steps.map(|entry| &entry.name).find(|name| !came.contains(*name)) else { return Ok(()) };
        let difference = match (running.world.script.new_step(), running.state().await?) {
            (Some(new), _) => {
                format!("the tool came to step `{new}`, which is not recorded, before the recorded step `{missed}`")
            }
            (None, State::Working | State::Asks(_)) => {
                format!("the tool waits, and did not come to the recorded step `{missed}`")
            }
            (None, State::Completed | State::Failed | State::Cancelled) => {
                let end = running.run_to_an_end().await?.end();
                format!("the task ended, and did not come to the recorded step `{missed}`: {end}")
            }
        };
        Err(TestError::Diverges { difference })
    }
}
