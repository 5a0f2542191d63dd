//! Calling another tool of the same server, as a task of its own.

use std::time::{SystemTime, UNIX_EPOCH};

use longhaul_core::{TaskId, Timestamp, strict_json};
use longhaul_engine::{Attempt, Call, CallError, ChildEnd};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Run, TaskContext, Tools};
use crate::VerifiedCaller;
use crate::reply::errors;
use crate::signing::derived::named_openly;
use crate::tool_calls::accept;

enum NotMade {
    Wrong(ErrorData),
    Refused(CallError),
}

impl From<CallError> for NotMade {
    fn from(error: CallError) -> Self {
        Self::Refused(error)
    }
}

impl TaskContext {
    /// Calls another tool of this server, and returns its result. The call is a task of its own, of the same owner: its
    /// child. While it runs, nothing of this task does, and nothing is paid for the wait. The child's tool has to be
    /// one whose calls become tasks.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use futures::future::try_join_all;
    /// # use rmcp::ErrorData;
    /// # use serde_json::json;
    /// async fn reports(regions: Vec<String>, task: TaskContext) -> Result<String, ErrorData> {
    ///     let calls = regions.iter().map(|region| {
    ///         let task = task.clone();
    ///         async move { task.call(&format!("report {region}"), "report", json!({"region": region})).await }
    ///     });
    ///     let reports = try_join_all(calls).await?;
    ///     Ok(format!("{} reports", reports.len()))
    /// }
    /// ```
    ///
    /// There is one child for each `name`, even after crashes. The name is that of a step, and two of a tool's steps
    /// and calls must not share one. The child has the terms of its tool's policy, and ends at this task's deadline or
    /// before. It sees the same [caller](Self::caller), and cannot ask the client anything (`-32021`). Each call takes
    /// two of the 4,096 entries of this task's journal. So a task may make about two thousand calls.
    ///
    /// If this task is cancelled, misses its deadline or fails, its children are cancelled. If it ends with a result,
    /// running children continue. A child may call tools too, eight tasks deep. In a plain call nothing can be called.
    ///
    /// If this task's owner may have no more unfinished tasks, a call waits until another call of this task has ended.
    ///
    /// # Errors
    /// The error that the called tool ended with, also in a later attempt. A result with `is_error` is not an error
    /// here. There is another error if the child was cancelled, was given up or missed its deadline, or has a result of
    /// more than 4 MiB. A call that is not accepted is an error too. Its tool does not take these arguments, its calls
    /// do not become tasks, or it would be too deep. A limit of the owner refuses it only while no other call of this
    /// task runs. Refusals are not recorded: another call of this method tries again.
    pub async fn call(&self, name: &str, tool: &str, arguments: impl Serialize) -> Result<CallToolResult, ErrorData> {
        let (attempt, tools) = self.tools()?;
        let arguments = object(tool, arguments)?;
        let prepare = || async {
            let call = tools.call_of(attempt, tool, arguments, self.caller()).await;
            call.map_err(NotMade::Wrong)
        };
        let end = attempt.call(name, id_of(attempt, b"child", name), prepare).await;
        result_of(name, end.map_err(error_of)?)
    }

    /// Calls another tool of this server as [`call`](Self::call) does, and reads its result. That is the structured
    /// content, or else the text, as JSON or as it is.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// #[derive(serde::Serialize)]
    /// struct Region<'a> {
    ///     region: &'a str,
    /// }
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Sales {
    ///     sold: u64,
    /// }
    ///
    /// async fn total(task: TaskContext) -> Result<u64, ErrorData> {
    ///     let north: Sales = task.call_tool("sales of the north", "sales", &Region { region: "north" }).await?;
    ///     let south: Sales = task.call_tool("sales of the south", "sales", &Region { region: "south" }).await?;
    ///     Ok(north.sold + south.sold)
    /// }
    /// ```
    ///
    /// # Errors
    /// The errors of [`call`](Self::call); the text of a result with `is_error`; a result that is not an `Out`. All of
    /// them name the call.
    pub async fn call_tool<Out: DeserializeOwned>(
        &self,
        name: &str,
        tool: &str,
        arguments: &(impl Serialize + Sync),
    ) -> Result<Out, ErrorData> {
        read_result(name, tool, self.call(name, tool, arguments).await?)
    }

    /// Schedules a call of another tool of this server for `at`, and returns the id of its task, without waiting for
    /// it. The task exists at once, and may be polled and cancelled. It starts at that time, or at once if that is
    /// past; `at` is at most 90 days ahead. It has this task's owner and [caller](Self::caller) and the terms of its
    /// tool's policy. It is not a child: it runs after any end of this task.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # use serde_json::json;
    /// async fn order(number: u64, at: SystemTime, task: TaskContext) -> Result<String, ErrorData> {
    ///     let reminder = at + Duration::from_secs(3 * 86_400);
    ///     let id = task.call_later("reminder", "remind", json!({"order": number}), reminder).await?;
    ///     Ok(format!("if nobody pays, task {id} says so"))
    /// }
    /// ```
    ///
    /// There is one such task for each `name`, even after crashes, with the time and the arguments of the first call.
    /// The name is that of a step. The call takes one entry of the journal.
    ///
    /// # Errors
    /// If the call was not accepted. Its tool does not take these arguments, or its calls do not become tasks. A limit
    /// of the owner is reached, the time is too far ahead, or this call is plain. That is not recorded: another call of
    /// this method tries again.
    pub async fn call_later(
        &self,
        name: &str,
        tool: &str,
        arguments: impl Serialize,
        at: SystemTime,
    ) -> Result<String, ErrorData> {
        let (attempt, tools) = self.tools()?;
        let arguments = object(tool, arguments)?;
        let id = id_of(attempt, b"later", name);
        let prepare = || async {
            let mut call = tools.call_of(attempt, tool, arguments, self.caller()).await.map_err(NotMade::Wrong)?;
            call.not_before = Some(timestamp(at));
            Ok(call)
        };
        attempt.begin(name, id, prepare).await.map_err(error_of)?;
        Ok(id.to_string())
    }

    fn tools(&self) -> Result<(&Attempt, &Tools), ErrorData> {
        match &self.0.run {
            Run::Task(tools) => Ok((&self.0.attempt, tools)),
            Run::Plain(_) => {
                let message = "this tool calls other tools, which works in tasks only: name it with `Server::task`, \
                               so that a client without tasks gets a job";
                Err(ErrorData::invalid_request(message, None))
            }
        }
    }
}

impl Tools {
    /// The call of `tool` with these arguments, by the tool of `attempt`, if it becomes a task and takes the arguments.
    async fn call_of(
        &self,
        attempt: &Attempt,
        tool: &str,
        mut arguments: Option<JsonObject>,
        caller: Option<&VerifiedCaller>,
    ) -> Result<Call, ErrorData> {
        let policy = self.shared.policies.get(tool).ok_or_else(|| {
            let message = format!(
                "calls of `{tool}` do not become tasks, so that no tool can call it: name it with `Server::task`"
            );
            ErrorData::invalid_params(message, None)
        })?;
        self.backend.check_arguments(tool, &mut arguments).await?;
        let caller = VerifiedCaller::principal_of(caller, attempt.task().owner);
        accept::own_call(&self.shared, &caller, &policy, (tool, arguments), attempt.trace())
    }
}

/// The id of the task that this attempt's task makes under `name`.
fn id_of(attempt: &Attempt, kind: &[u8], name: &str) -> TaskId {
    let maker = attempt.task();
    named_openly(&maker.owner, maker.created_at, &[kind, maker.id.as_bytes(), name.as_bytes()]).id
}

/// A time before 1970 is past, as 1970 is.
fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn error_of(not_made: NotMade) -> ErrorData {
    match not_made {
        NotMade::Wrong(error) => error,
        NotMade::Refused(CallError::NotAccepted(error)) => errors::of_accept(error),
        NotMade::Refused(error @ CallError::TooDeep { .. }) => ErrorData::invalid_request(error.to_string(), None),
    }
}

fn object(tool: &str, arguments: impl Serialize) -> Result<Option<JsonObject>, ErrorData> {
    let refused = |why: &str| ErrorData::invalid_params(format!("the arguments for `{tool}` {why}"), None);
    match serde_json::to_value(arguments) {
        Ok(Value::Null) => Ok(None),
        Ok(Value::Object(arguments)) => Ok(Some(arguments)),
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(refused("have to be a JSON object"))
        }
        Err(error) => Err(refused(&format!("cannot be written as JSON: {error}"))),
    }
}

fn read_result<Out: DeserializeOwned>(name: &str, tool: &str, result: CallToolResult) -> Result<Out, ErrorData> {
    let texts: Vec<&str> = result.content.iter().filter_map(|content| Some(content.as_text()?.text.as_str())).collect();
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        return Err(ErrorData::internal_error(
            format!("the call `{name}` of `{tool}` ended with an error: {text}"),
            None,
        ));
    }
    let read = match result.structured_content {
        Some(content) => strict_json::from_value(content),
        None => strict_json::from_str(&text).or_else(|_not_json| strict_json::from_value(Value::String(text))),
    };
    read.map_err(|error| {
        let message = format!("the result of the call `{name}` of `{tool}` is not what the tool expects: {error}");
        ErrorData::internal_error(message, None)
    })
}

fn result_of(name: &str, end: ChildEnd) -> Result<CallToolResult, ErrorData> {
    let unreadable = |error| errors::internal("the result of a call cannot be read", &error);
    let error = |why: String| Err(ErrorData::internal_error(format!("the call `{name}` {why}"), None));
    match end {
        ChildEnd::Completed(result) => strict_json::from_str(&result).map_err(unreadable),
        ChildEnd::Failed { detail: Some(detail), .. } => Err(strict_json::from_str(&detail).map_err(unreadable)?),
        ChildEnd::Failed { message, detail: None } => error(format!("failed: {message}")),
        ChildEnd::Cancelled => error("was cancelled".to_owned()),
        ChildEnd::TooLarge { bytes } => {
            error(format!("has a result of {bytes} bytes, and at most 4 MiB can be passed on: return a URL instead"))
        }
        ChildEnd::Gone => error("expired or was forgotten before its result was read".to_owned()),
    }
}
