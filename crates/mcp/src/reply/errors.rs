//! The JSON-RPC error for each error of the engine.

use std::error::Error;

use http::StatusCode;
use longhaul_core::ports::StoreError;
use longhaul_engine::{AcceptError, AnswerError, LoadError, PollError, ResumeError};
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, ErrorCode};
use serde_json::json;

/// The message for clients if a stored result is damaged.
const UNREADABLE_RESULT: &str = "the stored result of this task cannot be read";

/// The code for a request that is refused for now, because its owner has reached a limit. JSON-RPC leaves this code to
/// servers.
pub(crate) const TOO_MUCH_FOR_NOW: ErrorCode = ErrorCode(-32_000);

/// The member of such an error that says when to try again.
const RETRY_AFTER_MS: &str = "retryAfterMs";

/// When to come again, if the error says so.
pub(crate) fn retry_after_ms(error: &ErrorData) -> Option<u64> {
    error.data.as_ref().filter(|_| error.code == TOO_MUCH_FOR_NOW)?.get(RETRY_AFTER_MS)?.as_u64()
}

/// The answer to a request above a limit that frees itself: which limit, and when to come again. A header says it too.
pub(crate) fn too_much_for_now(limit: &'static str, message: String, retry_ms: u64) -> ErrorData {
    let data = json!({"limit": limit, RETRY_AFTER_MS: retry_ms.max(1)});
    ErrorData::new(TOO_MUCH_FOR_NOW, message, Some(data))
}

/// The answer to a client that did not declare the Tasks extension (`-32021`).
pub(crate) fn tasks_not_declared() -> ErrorData {
    ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_tasks().build())
}

/// The same answer for a task that does not exist, is not the caller's, or whose id is not a task id.
pub(crate) fn task_not_found() -> ErrorData {
    ErrorData::invalid_params(PollError::NotFound.to_string(), None)
}

pub(crate) fn of_accept(error: AcceptError) -> ErrorData {
    match error {
        AcceptError::TooLarge { .. }
        | AcceptError::TooFarAhead
        | AcceptError::InvalidKey
        | AcceptError::KeyReused
        | AcceptError::TooManyOpen { .. }
        | AcceptError::TooMuchStored { .. } => ErrorData::invalid_params(error.to_string(), None),
        AcceptError::TooManyNew { retry_ms, .. } => too_much_for_now("newTasksPerMinute", error.to_string(), retry_ms),
        AcceptError::Unavailable(cause) => unavailable(&cause),
    }
}

pub(crate) fn of_poll(error: PollError) -> ErrorData {
    match error {
        PollError::NotFound => task_not_found(),
        PollError::Unavailable(cause) => unavailable(&cause),
    }
}

pub(crate) fn of_answer(error: AnswerError) -> ErrorData {
    match error {
        AnswerError::NotFound => task_not_found(),
        AnswerError::TooLarge { .. } => ErrorData::invalid_params(error.to_string(), None),
        AnswerError::Unavailable(cause) => unavailable(&cause),
    }
}

pub(crate) fn of_resume(error: ResumeError) -> ErrorData {
    match error {
        ResumeError::NotFailed(_)
        | ResumeError::NothingRecorded
        | ResumeError::NoSuchStep(_)
        | ResumeError::Undone
        | ResumeError::MayHaveRun(_)
        | ResumeError::TooLarge => ErrorData::invalid_params(error.to_string(), None),
        ResumeError::NotRead(error) => of_poll(error),
        ResumeError::NotLoaded(error) => of_load(error),
        ResumeError::NotAccepted(error) => of_accept(error),
    }
}

pub(crate) fn of_load(error: LoadError) -> ErrorData {
    match error {
        LoadError::Missing => {
            tracing::error!("a part of a stored result is missing");
            ErrorData::internal_error(UNREADABLE_RESULT, None)
        }
        LoadError::Unreadable(cause) => unreadable_result(&cause),
        LoadError::Unavailable(cause) => unavailable(&cause),
    }
}

/// The same error for a client of an older revision, which has no code for a capability that was not declared:
/// `-32600`.
pub(crate) fn for_older(error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
        return ErrorData::invalid_request(error.message, error.data);
    }
    error
}

/// The answer of a task whose stored result is damaged, or in a form that no tool returns.
pub(crate) fn unreadable_result(cause: &(dyn Error + 'static)) -> ErrorData {
    internal(UNREADABLE_RESULT, cause)
}

/// The answer if a handler creates tasks itself, without Longhaul.
pub(crate) fn made_a_task() -> ErrorData {
    ErrorData::internal_error("the handler created a task itself; give the tool a TaskPolicy instead", None)
}

/// A fault of our own code or its environment: the log says more than the client gets to see.
pub(crate) fn internal(what: &'static str, cause: &(dyn Error + 'static)) -> ErrorData {
    tracing::error!(error = cause, "{what}");
    ErrorData::internal_error(what, None)
}

/// The HTTP status of an answer that [`unavailable`] is.
pub(crate) const fn status_of(cause: &StoreError) -> StatusCode {
    if cause.may_pass() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR }
}

fn unavailable(cause: &StoreError) -> ErrorData {
    tracing::error!(error = cause as &dyn Error, "a request was not answered");
    let message = match cause {
        StoreError::Unavailable(_) => "the task store is not available; try again",
        StoreError::Lost(_) => "the server has lost its database, and accepts nothing until its operator has acted",
        StoreError::Corrupt(_) => "what is stored about this cannot be read; ask whoever runs the server",
        StoreError::NewerVersion(_) => {
            "a newer version of the server wrote this task, and this instance leaves it alone; ask again later"
        }
    };
    ErrorData::internal_error(message, None)
}
