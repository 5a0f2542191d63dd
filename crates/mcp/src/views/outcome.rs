//! What a plain call would have answered, once its task has ended: what protocol versions of older revisions show
//! of a result.

use longhaul_core::{Failure, FailureKind, State, Task};
use longhaul_engine::{Engine, LoadError};
use rmcp::ErrorData;
use serde_json::{Map, Value};

use crate::shared::errors;
use crate::views::fields;

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// With a result of its tool: a `CallToolResult` as older revisions write it.
    Result(Map<String, Value>),
    /// With an error, which a plain call would have answered too; or with a result that can no longer be read.
    Error(ErrorData),
    /// By a request of its client.
    Cancelled,
}

impl Outcome {
    /// The outcome of `task`; `None` if it has not ended.
    pub(crate) async fn of(engine: &Engine, task: &Task) -> Result<Option<Self>, LoadError> {
        match &task.state {
            State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => Ok(None),
            State::Completed { result, .. } => {
                let text = engine.load(&task.key(), result).await?;
                Ok(Some(match serde_json::from_str::<Map<String, Value>>(&text) {
                    Ok(mut result) => {
                        // Older revisions have only one kind of result.
                        result.remove("resultType");
                        Self::Result(result)
                    }
                    Err(error) => Self::Error(errors::unreadable_result(&error)),
                }))
            }
            State::Failed { failure } => Ok(Some(Self::Error(fields::error_data(engine, task, failure).await?))),
            State::Cancelled => Ok(Some(Self::Cancelled)),
        }
    }
}

/// Whether the task failed because its record is damaged, and not because of its tool.
pub(crate) fn is_unreadable(task: &Task) -> bool {
    matches!(&task.state, State::Failed { failure: Failure { kind: FailureKind::Corrupt, .. } })
}

/// All text of a result, for messages that can hold only text.
pub(crate) fn text_of(result: &Map<String, Value>) -> String {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts = blocks.filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}
