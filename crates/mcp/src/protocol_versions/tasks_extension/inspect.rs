//! `dev.longhaul/tasks/inspect`, an extension method: the whole record of a task, for its owner. A value over 4 KiB is
//! left out of the page, which says so, and can be requested alone.

use longhaul_core::{
    AttemptOutcome, Entry, EntryKind, PastAttempt, Payload, Recording, Resumed, Task, TaskKey, Timestamp, strict_json,
};
use longhaul_engine::{Engine, child_of};
use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::admission::memory::Held;
use crate::reply::errors;
use crate::state::Shared;
use crate::views::fields::{labels, rfc3339};
use crate::views::task as view;

pub(super) const METHOD: &str = "dev.longhaul/tasks/inspect";

/// Bytes of a value that is shown without being asked for.
const VALUE_BYTES_MAX: u64 = 4 * 1024;

/// Journal entries on one page, which has 2 MiB at most with values of the size above.
const PAGE: usize = 512;

/// When a client should try again that could not be served because of others.
const BUSY_MS: u64 = 2_000;

/// The parameters, without the task's id.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    /// Where the page of the journal begins, as the page before it says.
    cursor: Option<String>,
    /// The value that is wanted whole, instead of a page.
    whole: Option<Whole>,
    journal: Journal,
}

/// Whether the journal is wanted, which may be long, and is read as a whole for each page.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "bool")]
enum Journal {
    #[default]
    Shown,
    LeftOut,
}

impl From<bool> for Journal {
    fn from(is_shown: bool) -> Self {
        if is_shown { Self::Shown } else { Self::LeftOut }
    }
}

#[derive(Deserialize)]
struct Whole {
    /// The kind of the entry, or `arguments`.
    kind: String,
    #[serde(default)]
    name: String,
}

/// The part of a task's stored call that is shown.
#[derive(Deserialize)]
struct Called<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

pub(super) async fn inspect(shared: &Shared, key: &TaskKey, params: &Params) -> Result<String, ErrorData> {
    let from = params.cursor.as_deref().unwrap_or("0").parse();
    let from =
        from.map_err(|_no_number| ErrorData::invalid_params("the cursor is not valid; start again without one", None))?;
    let task = shared.polls.poll(key).await.map_err(|error| error.or(errors::of_poll))?;
    let engine = &shared.engine;
    if params.journal == Journal::LeftOut && params.whole.is_none() {
        return Ok(Value::from(record(engine, &task).await?).to_string());
    }
    let _held = journal_memory(shared).await?;
    match &params.whole {
        Some(Whole { kind, .. }) if kind == "arguments" => Ok(whole(&arguments(engine, &task).await?)),
        Some(wanted) => {
            let is_wanted = |entry: &Entry| entry.kind.as_str() == wanted.kind && entry.name == wanted.name;
            let entry = engine.journal(key).await.map_err(errors::of_poll)?.into_iter().find(is_wanted);
            let entry = entry.ok_or_else(|| ErrorData::invalid_params("the journal has no such entry", None))?;
            Ok(whole(&load(engine, &task, &entry.value).await?))
        }
        None => page(engine, &task, from).await,
    }
}

/// Waits for the memory that a journal may take.
pub(super) async fn journal_memory(shared: &Shared) -> Result<Held, ErrorData> {
    shared.memory.for_journal(&*shared.engine.ports().clock).await.ok_or_else(|| {
        let message = "other tasks are being inspected; try again in a few seconds".to_owned();
        errors::too_much_for_now("inspections", message, BUSY_MS)
    })
}

/// The page that begins with the entry of this number.
async fn page(engine: &Engine, task: &Task, from: usize) -> Result<String, ErrorData> {
    let mut journal = engine.journal(&task.key()).await.map_err(errors::of_poll)?;
    journal.sort_by_cached_key(|entry| {
        (entry.recording.map(|by| (by.at, by.attempt, by.order)), entry.kind, entry.name.clone())
    });
    let next = Some(from.saturating_add(PAGE)).filter(|next| *next < journal.len());
    let mut entries = Vec::new();
    for entry in journal.iter().skip(from).take(PAGE) {
        entries.push(shown_entry(engine, task, entry).await?);
    }
    let mut answer = record(engine, task).await?;
    answer.insert("journal".to_owned(), entries.into());
    answer.extend(next.map(|next| ("nextCursor".to_owned(), next.to_string().into())));
    Ok(Value::from(answer).to_string())
}

/// The record of a task, without its journal.
async fn record(engine: &Engine, task: &Task) -> Result<Map<String, Value>, ErrorData> {
    let arguments = match task.request.bytes() {
        bytes if bytes > VALUE_BYTES_MAX => cut(bytes),
        _ => shown(&arguments(engine, task).await?),
    };
    let mut answer = fields([
        ("resultType", "complete".into()),
        ("task", value(&view::render_briefly(engine, task, VALUE_BYTES_MAX).await?)),
        ("tool", task.tool.as_str().into()),
        ("attempt", task.attempt.into()),
        ("startedAt", task.started_at.map(rfc3339).into()),
        ("endedAt", task.ended_at.map(rfc3339).into()),
        ("deadlineAt", rfc3339(task.deadline()).into()),
        ("expiresAt", rfc3339(task.expires_at).into()),
        ("arguments", arguments.into()),
        ("attempts", attempts(task).into()),
        ("failures", task.failures.into()),
        ("lastFailure", task.last_failure.as_deref().into()),
    ]);
    if let Some(variables) = &task.variables {
        answer.insert("variables".to_owned(), shown_payload(engine, task, variables).await?.into());
    }
    answer.extend(labels(task).map(|labels| ("labels".to_owned(), labels)));
    answer.extend(task.parent.map(|parent| ("parent".to_owned(), parent.id.to_string().into())));
    if let Some(Resumed { task, by }) = &task.resumes {
        let resumes = fields([("taskId", task.to_string().into()), ("by", by.as_deref().into())]);
        answer.insert("resumes".to_owned(), resumes.into());
    }
    answer.extend(task.not_before.map(|moment| ("notBefore".to_owned(), rfc3339(moment).into())));
    answer.extend(task.wakes_at().map(|moment| ("wakesAt".to_owned(), rfc3339(moment).into())));
    answer.extend(task.state.outcome().map(|outcome| ("outcomeBytes".to_owned(), outcome.bytes().into())));
    Ok(answer)
}

/// The latest attempts. The last one has no end as long as it runs, and ends with its task.
fn attempts(task: &Task) -> Vec<Value> {
    let mut attempts: Vec<_> = task.attempts.past.iter().map(past_attempt).collect();
    if let Some(since) = task.attempts.since {
        let end = task.ended_at.map(|_ended| "task");
        attempts.push(shown_attempt(task.attempt, since, task.ended_at, end));
    }
    attempts.into_iter().map(Value::from).collect()
}

fn past_attempt(attempt: &PastAttempt) -> Map<String, Value> {
    let (end, reason) = match &attempt.end {
        AttemptOutcome::Timer => ("timer", None),
        AttemptOutcome::Input => ("input", None),
        AttemptOutcome::Yield => ("yield", None),
        AttemptOutcome::Died => ("died", None),
        AttemptOutcome::Failed(reason) => ("failed", Some(reason.as_str())),
    };
    let mut shown = shown_attempt(attempt.number, attempt.from, Some(attempt.to), Some(end));
    shown.extend(reason.map(|reason| ("reason".to_owned(), reason.into())));
    shown
}

fn shown_attempt(number: u32, from: Timestamp, to: Option<Timestamp>, end: Option<&str>) -> Map<String, Value> {
    fields([
        ("attempt", number.into()),
        ("from", rfc3339(from).into()),
        ("to", to.map(rfc3339).into()),
        ("end", end.into()),
    ])
}

async fn shown_entry(engine: &Engine, task: &Task, entry: &Entry) -> Result<Value, ErrorData> {
    let mut shown = shown_payload(engine, task, &entry.value).await?;
    shown.extend(fields([("kind", entry.kind.as_str().into()), ("name", entry.name.as_str().into())]));
    if let Some(Recording { at, took_ms, attempt, order: _ }) = entry.recording {
        let known = [("at", rfc3339(at).into()), ("attempt", attempt.into()), ("tookMs", took_ms.into())];
        shown.extend(fields(known));
    }
    let child = shown.get("value").filter(|_| entry.kind == EntryKind::Step).and_then(child_of);
    shown.extend(child.map(|child| ("child".to_owned(), child.to_string().into())));
    Ok(shown.into())
}

async fn shown_payload(engine: &Engine, task: &Task, payload: &Payload) -> Result<Map<String, Value>, ErrorData> {
    match payload.bytes() {
        bytes if bytes > VALUE_BYTES_MAX => Ok(cut(bytes)),
        _ => Ok(shown(&load(engine, task, payload).await?)),
    }
}

fn cut(bytes: u64) -> Map<String, Value> {
    fields([("bytes", bytes.into()), ("cut", true.into())])
}

fn shown(text: &str) -> Map<String, Value> {
    fields([("bytes", text.len().into()), ("value", value(text))])
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The JSON value of a text that is not necessarily JSON: a string then.
fn value(text: &str) -> Value {
    strict_json::from_str(text).unwrap_or_else(|_no_json| text.into())
}

/// The answer that consists of one value, which may be long: its text is copied, and only checked. A client may have
/// written it in several lines, which is white space in JSON, and would break transports of lines.
fn whole(text: &str) -> String {
    let is_json = strict_json::from_str::<&RawValue>(text).is_ok();
    let value = if is_json { text.replace(['\n', '\r'], " ") } else { Value::from(text).to_string() };
    format!(r#"{{"resultType":"complete","bytes":{},"value":{value}}}"#, text.len())
}

/// The arguments of the call. Other stored values, such as the claims of its caller, are not shown.
async fn arguments(engine: &Engine, task: &Task) -> Result<String, ErrorData> {
    let call = load(engine, task, &task.request).await?;
    let called = strict_json::from_str::<Called<'_>>(&call);
    let called = called.map_err(|error| errors::internal("the call of this task cannot be read", &error))?;
    Ok(called.arguments.map_or("{}", RawValue::get).to_owned())
}

async fn load(engine: &Engine, task: &Task, payload: &Payload) -> Result<String, ErrorData> {
    engine.load(&task.key(), payload).await.map_err(errors::of_load)
}
