//! Waits for tasks: watches, the streams of sessions, logs on their way, answers that are no longer awaited.

pub(crate) mod open_requests;
pub(crate) mod session_streams;
pub(crate) mod task_logs;
pub(crate) mod watch;
