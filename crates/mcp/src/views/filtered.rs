//! `dev.longhaul/tasks/list`, a method of our own: those of the caller's tasks that have some status, are calls of
//! some tool, or have some labels. It is the same in each protocol version that has it, with the statuses of the Tasks
//! extension.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::{
    Labels, Payload, ResultKind, State, Status, Task, TaskFilter, TaskId, Timestamp, limits, strict_json,
};
use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::reply::errors;
use crate::request::incoming::Incoming;
use crate::signing::signer::Purpose;
use crate::signing::{derived, session};
use crate::state::Shared;
use crate::views::subject::Subject;
use crate::views::{fields, task as view};

pub(crate) const METHOD: &str = "dev.longhaul/tasks/list";

const PAGE: usize = 50;

const TOOL_BYTES_MAX: usize = 1_024;

/// Bytes of the line that shows the arguments, of each of them, and how many are shown.
const TITLE_BYTES_MAX: usize = 160;
const VALUE_BYTES_MAX: usize = 60;
const TITLE_WORDS_MAX: usize = 12;

/// Bytes of a question, or of an error.
const SAYS_BYTES_MAX: usize = 200;

/// The parameters. Others are refused: a list whose filter is misspelt would show everything.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    #[serde(rename = "_meta")]
    _meta: Option<Box<RawValue>>,
    status: Option<Vec<String>>,
    tool: Option<String>,
    labels: BTreeMap<String, String>,
    cursor: Option<String>,
}

/// Whether this caller may list its tasks: not if anonymous callers share an owner, who would see each other's tasks.
pub(crate) fn is_for(call: &Incoming<'_>, shared: &Shared) -> bool {
    !session::is_shared(shared.settings.anonymous_callers, &call.owner)
}

/// One page, newest first. It may have few tasks or none, and a cursor all the same: then many tasks had to be read.
/// Fails with `-32602` for other parameters, an unknown status, and a cursor that this list has not given this caller.
pub(crate) async fn page(
    call: &Incoming<'_>,
    subject: Subject,
    shared: &Shared,
) -> Result<Map<String, Value>, ErrorData> {
    let params = match call.params {
        Some(_) => {
            call.params::<Params>().ok_or_else(|| invalid("the parameters are status, tool, labels and cursor"))?
        }
        None => Params::default(),
    };
    let filter = filter(params.status, params.tool, &params.labels)?;
    let digest = digest(&filter, subject);
    let before = match params.cursor {
        Some(cursor) => Some(opened(call, shared, &cursor, &digest)?),
        None => None,
    };
    let found = match subject.one() {
        Some(owner) => shared.engine.list_filtered(&owner, &filter, before, PAGE).await,
        None => {
            let listed = shared.engine.list_of_all_owners(&filter, before, PAGE).await.transpose();
            listed.ok_or_else(|| invalid("the store of this server has no list of the tasks of all owners"))?
        }
    };
    let found = found.map_err(errors::of_poll)?;
    let now = shared.engine.ports().clock.now();
    let tasks: Vec<Value> = found.tasks.iter().map(|task| row(task, subject, now)).collect();
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

fn filter(
    statuses: Option<Vec<String>>,
    tool: Option<String>,
    wanted: &BTreeMap<String, String>,
) -> Result<TaskFilter, ErrorData> {
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
    let mut labels = Labels::default();
    for (key, value) in wanted {
        labels.set(key, value).map_err(|limit| invalid(limit.to_string()))?;
        if value.is_empty() {
            return Err(invalid(format!("the label `{key}` has no value: name the one of the tasks")));
        }
    }
    Ok(TaskFilter { statuses, tool, labels })
}

/// The part of a cursor that identifies the filter it belongs to.
fn digest(filter: &TaskFilter, subject: Subject) -> String {
    let mut statuses = filter.statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(" ");
    if !filter.labels.is_empty() {
        statuses.push_str(&json!(filter.labels).to_string());
    }
    let whose = match subject {
        Subject::Caller(_) => String::new(),
        Subject::Named(owner) => owner.to_string(),
        Subject::All => "*".to_owned(),
    };
    let parts = [Some(statuses.as_bytes()), Some(whose.as_bytes()), filter.tool.as_deref().map(str::as_bytes)];
    derived::digits(derived::hash(&parts.into_iter().flatten().collect::<Vec<_>>()))
}

fn opened(call: &Incoming<'_>, shared: &Shared, cursor: &str, digest: &str) -> Result<TaskId, ErrorData> {
    let opened = shared.signer.verify::<(TaskId, String)>(Purpose::Cursor, &call.owner, cursor);
    let of_this_list = opened.filter(|(_, of)| of == digest).map(|(before, _)| before);
    of_this_list.ok_or_else(|| invalid("the cursor is not valid for this list; start again without one"))
}

/// A task as `tasks/get` shows it, without its payload, and with the details that lists are read for. The record has
/// all of them, so a list costs no further read.
fn row(task: &Task, subject: Subject, now: Timestamp) -> Value {
    let mut row = view::brief(task, now);
    let mut add = |name: &str, value: Value| drop(row.as_object_mut().map(|row| row.insert(name.to_owned(), value)));
    add("tool", task.tool.as_str().into());
    let called = called(task);
    if let Some(title) = called.as_ref().and_then(|called| title(called.arguments.as_ref()?)) {
        add("title", title.into());
    }
    if subject != Subject::Caller(task.owner) {
        add("owner", task.owner.to_string().into());
        let subject = called.and_then(|called| called.caller?.subject);
        subject.into_iter().for_each(|subject| add("caller", limits::cut(&subject, TITLE_BYTES_MAX).into()));
    }
    if let Some(moment) = task.wakes_at() {
        add("wakesAt", fields::rfc3339(moment).into());
    }
    let deadline = (!task.has_ended()).then(|| task.deadline());
    for (name, moment) in [("startedAt", task.started_at), ("endedAt", task.ended_at), ("deadlineAt", deadline)] {
        moment.into_iter().for_each(|moment| add(name, fields::rfc3339(moment).into()));
    }
    if let Some(parent) = task.parent {
        add("parent", parent.id.to_string().into());
    }
    if let Some(labels) = fields::labels(task) {
        add("labels", labels);
    }
    if let Some(progress) = &task.progress {
        add("progress", fields::progress_params(progress).into());
    }
    if matches!(task.state, State::Completed { kind: ResultKind::ToolError, .. }) {
        add("isError", true.into());
    }
    if let Some(said) = said(task) {
        add("says", limits::cut(&said, SAYS_BYTES_MAX).into());
    }
    row
}

/// The first question of a task that waits for an answer, or the text of an error that its tool returned.
fn said(task: &Task) -> Option<String> {
    let (text, place) = match &task.state {
        State::InputRequired { asks, .. } => (asks.first()?.request.as_str(), "/params/message"),
        State::Completed { result: Payload::Inline(result), kind: ResultKind::ToolError } => {
            (result.as_str(), "/content/0/text")
        }
        State::Completed { .. }
        | State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::Failed { .. }
        | State::Cancelled => return None,
    };
    let value: Value = strict_json::from_str(text).ok()?;
    let message = value.pointer(place)?.as_str()?.trim();
    Some(message.lines().next()?.to_owned())
}

/// The part of a task's stored call that a row shows.
#[derive(Deserialize)]
struct Called {
    arguments: Option<Map<String, Value>>,
    caller: Option<Caller>,
}

#[derive(Deserialize)]
struct Caller {
    subject: Option<String>,
}

fn called(task: &Task) -> Option<Called> {
    match &task.request {
        Payload::Inline(text) => strict_json::from_str(text).ok(),
        Payload::Parts { .. } => None,
    }
}

/// Arguments as one line, such as `rows=3 url=https://example.com`.
fn title(arguments: &Map<String, Value>) -> Option<String> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = arguments.iter().map(|(name, value)| format!("{name}={}", limits::cut(&shown(value), VALUE_BYTES_MAX)));
    let title = words.take(TITLE_WORDS_MAX).collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then(|| limits::cut(&title, TITLE_BYTES_MAX))
}
