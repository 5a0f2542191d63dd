//! `dev.longhaul/tasks/list`, a method of our own: those of the caller's tasks that have some status, or are calls of
//! some tool. It is the same in each protocol version that has it, with the statuses of the Tasks extension.

use std::collections::BTreeSet;

use longhaul_core::{ResultKind, State, Status, Task, TaskFilter, TaskId, Timestamp};
use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::reply::errors;
use crate::request::incoming::Incoming;
use crate::signing::signer::Purpose;
use crate::signing::{derived, session};
use crate::state::Shared;
use crate::views::{fields, task as view};

pub(crate) const METHOD: &str = "dev.longhaul/tasks/list";

const PAGE: usize = 50;

const TOOL_BYTES_MAX: usize = 1_024;

/// The parameters. Others are refused: a list whose filter is misspelt would show everything.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    #[serde(rename = "_meta")]
    _meta: Option<Box<RawValue>>,
    status: Option<Vec<String>>,
    tool: Option<String>,
    cursor: Option<String>,
}

/// Whether this caller may list its tasks: not if anonymous callers share an owner, who would see each other's tasks.
pub(crate) fn is_for(call: &Incoming<'_>, shared: &Shared) -> bool {
    !session::is_shared(shared.settings.anonymous_callers, &call.owner)
}

/// One page, newest first. It may have few tasks or none, and a cursor all the same: then many tasks had to be read.
/// Fails with `-32602` for other parameters, an unknown status, and a cursor that this list has not given this caller.
pub(crate) async fn page(call: &Incoming<'_>, shared: &Shared) -> Result<Map<String, Value>, ErrorData> {
    let params = match call.params {
        Some(_) => call.params::<Params>().ok_or_else(|| invalid("the parameters are status, tool and cursor"))?,
        None => Params::default(),
    };
    let filter = filter(params.status, params.tool)?;
    let digest = digest(&filter);
    let before = match params.cursor {
        Some(cursor) => Some(opened(call, shared, &cursor, &digest)?),
        None => None,
    };
    let found = shared.engine.list_filtered(&call.owner, &filter, before, PAGE).await.map_err(errors::of_poll)?;
    let now = shared.engine.ports().clock.now();
    let tasks: Vec<Value> = found.tasks.iter().map(|task| row(task, now)).collect();
    let mut page = Map::from_iter([("tasks".to_owned(), tasks.into())]);
    if let Some(next) = found.next {
        let cursor = shared.signer.sign(Purpose::Cursor, &call.owner, &(next, digest))?;
        page.insert("nextCursor".to_owned(), cursor.into());
    }
    Ok(page)
}

fn invalid(message: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(message.into(), None)
}

fn filter(statuses: Option<Vec<String>>, tool: Option<String>) -> Result<TaskFilter, ErrorData> {
    let statuses: Option<BTreeSet<Status>> = match statuses {
        None => Some(Status::ALL.into()),
        Some(names) => names.iter().map(|name| Status::of(name)).collect(),
    };
    let statuses = statuses.filter(|statuses| !statuses.is_empty()).ok_or_else(|| {
        invalid(format!("status has to be a list of some of {}", Status::ALL.map(Status::as_str).join(", ")))
    })?;
    if tool.as_ref().is_some_and(|tool| tool.len() > TOOL_BYTES_MAX) {
        return Err(invalid(format!("the name of a tool has at most {TOOL_BYTES_MAX} bytes")));
    }
    Ok(TaskFilter { statuses, tool })
}

/// What a cursor says of the filter that it belongs to.
fn digest(filter: &TaskFilter) -> String {
    let statuses = filter.statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(" ");
    let parts = [Some(statuses.as_bytes()), filter.tool.as_deref().map(str::as_bytes)];
    derived::digits(derived::hash(&parts.into_iter().flatten().collect::<Vec<_>>()))
}

fn opened(call: &Incoming<'_>, shared: &Shared, cursor: &str, digest: &str) -> Result<TaskId, ErrorData> {
    let opened = shared.signer.verify::<(TaskId, String)>(Purpose::Cursor, &call.owner, cursor);
    let of_this_list = opened.filter(|(_, of)| of == digest).map(|(before, _)| before);
    of_this_list.ok_or_else(|| invalid("the cursor is not valid for this list; start again without one"))
}

/// A task as `tasks/get` shows it, without its payload, and with what else a list of tasks is read for.
fn row(task: &Task, now: Timestamp) -> Value {
    let mut row = view::brief(task, now);
    let mut add = |name: &str, value: Value| drop(row.as_object_mut().map(|row| row.insert(name.to_owned(), value)));
    add("tool", task.tool.as_str().into());
    if let Some(moment) = task.wakes_at() {
        add("wakesAt", fields::rfc3339(moment).into());
    }
    if let Some(progress) = &task.progress {
        add("progress", fields::progress_params(progress).into());
    }
    if matches!(task.state, State::Completed { kind: ResultKind::ToolError, .. }) {
        add("isError", true.into());
    }
    row
}
