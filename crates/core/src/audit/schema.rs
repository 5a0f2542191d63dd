//! The fields of a line, and the page that documents them.

use crate::audit::{Event, Outcome};

/// The version of the fields. It is raised when a field is removed or means something else; fields, events, outcomes
/// and reasons may be added without that.
pub const VERSION: u64 = 1;

/// A field of a line.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Whether every line has it.
    pub always: bool,
    /// Its meaning.
    pub says: &'static str,
}

const fn always(name: &'static str, says: &'static str) -> Field {
    Field { name, always: true, says }
}

const fn sometimes(name: &'static str, says: &'static str) -> Field {
    Field { name, always: false, says }
}

/// All fields, in their order.
pub const FIELDS: [Field; 18] = [
    always("timestamp", "when, in UTC (RFC 3339)"),
    always("level", "`INFO`"),
    always("target", "`audit`"),
    always("version", "the version of these fields: `1`"),
    always("event", "the requested action"),
    always("outcome", "the outcome of the action"),
    sometimes("reason", "why it was refused (a code) or denied (the error message that the caller got)"),
    sometimes("scopes", "the scopes that the caller lacks"),
    always("count", "how many such requests the line counts"),
    sometimes("issuer", "the issuer of the caller's identity; missing for anonymous callers"),
    sometimes("subject", "the caller: SHA-256 over the issuer and the subject"),
    sometimes("owner", "the owner of the tasks that the caller sees; the owner of the task in all other logs"),
    sometimes("task_id", "the task"),
    sometimes("tool", "the tool"),
    sometimes("address", "the client's address, as reported by the platform"),
    sometimes("http_method", "`POST`, mostly"),
    sometimes("request_id", "the platform's id of the request; on AWS that of the invocation"),
    sometimes("user_agent", "the client's own name for itself; it is not verified"),
];

impl Event {
    const fn says(self) -> &'static str {
        match self {
            Self::Accept => "a call that asks to become a task",
            Self::Answer => "answers to questions of a task",
            Self::Cancel => "a request to cancel a task",
            Self::Resume => {
                "a request to resume a failed task; `task_id` is the new task, or the failed one if there is none"
            }
            Self::Callback => "the value of a callback, with its token",
            Self::Request => "any other request, only if it was refused",
            Self::LogIn => "a request without a verified caller",
        }
    }
}

impl Outcome {
    const fn says(self) -> &'static str {
        match self {
            Self::Done => "it was done",
            Self::Repeated => "it was done before: the call is a retry, by its idempotency key or its token",
            Self::Unchanged => "nothing to do: the task had ended, or no longer asks that question",
            Self::NotFound => {
                "the caller does not have this task: it does not exist, has expired, or has another owner"
            }
            Self::Refused => "the caller may not do that, or has reached a limit; `reason` says which",
            Self::Denied => "the caller could not be verified; nothing was done",
            Self::Unavailable => "the store did not answer; a call may or may not be recorded",
        }
    }
}

/// The tables of the documentation.
#[must_use]
pub fn page() -> String {
    let mut page = String::new();
    let mut table = |head: &str, rows: &mut dyn Iterator<Item = String>| {
        let rule = head.split('|').filter(|cell| !cell.is_empty()).map(|_| " --- |").collect::<String>();
        let rows = rows.map(|row| format!("{row}\n")).collect::<String>();
        page.push_str(&format!("{head}\n|{rule}\n{rows}\n"));
    };
    let field = |field: &Field| {
        let always = if field.always { "always" } else { "" };
        format!("| `{}` | {always} | {} |", field.name, field.says)
    };
    table("| field | in every line | content |", &mut FIELDS.iter().map(field));
    let event = |event: Event| format!("| `{}` | {} |", event.as_str(), event.says());
    table("| `event` | request |", &mut Event::ALL.into_iter().map(event));
    let outcome = |outcome: Outcome| format!("| `{}` | {} |", outcome.as_str(), outcome.says());
    table("| `outcome` | meaning |", &mut Outcome::ALL.into_iter().map(outcome));
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}
