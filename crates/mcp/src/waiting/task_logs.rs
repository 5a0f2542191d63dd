//! Log messages of tools that run as tasks, for callers who wait for them in the same process.
//!
//! They do not belong to the stored task. A caller that does not wait, or waits in another process, does not get them.

#![expect(deprecated, reason = "clients of all revisions may ask for log messages")]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http::HeaderMap;
use longhaul_core::TaskId;
use rmcp::model::{
    CustomNotification, LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, ServerNotification,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::signing::session;

/// The latest messages of a task that are kept for a caller who is about to wait.
const MESSAGES_MAX: usize = 32;

/// Longer messages are left out, in bytes of JSON.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// The sessions whose level is remembered: those that have set one last.
const SESSIONS_MAX: usize = 1_024;

/// The level for clients of older revisions that have not set one.
const LEVEL: LoggingLevel = LoggingLevel::Info;

/// Says that the user is done with a URL that a tool has asked to open.
pub(crate) const ELICITED: &str = "notifications/elicitation/complete";

/// A message of a tool to its client that is not progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    Log(LoggingMessageNotificationParam),
    /// The parameters of [`ELICITED`].
    Elicited(Option<Value>),
}

impl From<Said> for ServerNotification {
    fn from(said: Said) -> Self {
        match said {
            Said::Log(message) => Self::LoggingMessageNotification(LoggingMessageNotification::new(message)),
            Said::Elicited(params) => Self::CustomNotification(CustomNotification::new(ELICITED, params)),
        }
    }
}

impl Said {
    /// How long it is, in bytes of JSON.
    fn bytes(&self) -> usize {
        let text = match self {
            Self::Log(message) => serde_json::to_vec(message),
            Self::Elicited(params) => serde_json::to_vec(params),
        };
        text.map_or(usize::MAX, |text| text.len())
    }

    fn is_wanted_from(&self, level: LoggingLevel) -> bool {
        match self {
            // The levels are in the order of their severity.
            Self::Log(message) => message.level as u8 >= level as u8,
            Self::Elicited(_) => true,
        }
    }
}

/// The log messages of all tasks that run in this process, and the levels that sessions have set. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct TaskLogs(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    tasks: HashMap<TaskId, Weak<TaskLog>>,
    levels: VecDeque<(Session, LoggingLevel)>,
}

type Session = [u8; 32];

fn session(headers: &HeaderMap) -> Option<Session> {
    headers.get(session::HEADER).map(|id| Sha256::digest(id.as_bytes()).into())
}

impl TaskLogs {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log of a task. It is kept as long as the tool, or a caller who waits, has it.
    pub(crate) fn of(&self, task: TaskId) -> Arc<TaskLog> {
        let tasks = &mut self.lock().tasks;
        if let Some(log) = tasks.get(&task).and_then(Weak::upgrade) {
            return log;
        }
        tasks.retain(|_, log| log.strong_count() > 0);
        let log = Arc::new(TaskLog::default());
        tasks.insert(task, Arc::downgrade(&log));
        log
    }

    /// Remembers from which level on the session of a request wants messages. A request without a session changes
    /// nothing.
    pub(crate) fn set_level(&self, headers: &HeaderMap, level: LoggingLevel) {
        let Some(session) = session(headers) else { return };
        let levels = &mut self.lock().levels;
        levels.retain(|(known, _)| *known != session);
        levels.push_back((session, level));
        if levels.len() > SESSIONS_MAX {
            levels.pop_front();
        }
    }

    /// From which level on the session of a request wants messages.
    pub(crate) fn level(&self, headers: &HeaderMap) -> LoggingLevel {
        let session = session(headers);
        let known = self.lock();
        let level = known.levels.iter().find(|(known, _)| Some(*known) == session);
        level.map_or(LEVEL, |(_, level)| *level)
    }
}

#[derive(Default)]
pub(crate) struct TaskLog {
    messages: Mutex<Messages>,
    more: Notify,
}

#[derive(Default)]
struct Messages {
    latest: VecDeque<Said>,
    /// How many there were before the latest ones.
    before: usize,
}

impl TaskLog {
    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, message: Said) {
        let bytes = message.bytes();
        if bytes > MESSAGE_BYTES_MAX {
            tracing::debug!(bytes, "a log message is too long to be passed on");
            return;
        }
        let mut messages = self.lock();
        messages.latest.push_back(message);
        if messages.latest.len() > MESSAGES_MAX {
            messages.latest.pop_front();
            messages.before += 1;
        }
        drop(messages);
        self.more.notify_waiters();
    }
}

/// A caller who reads what a task logs, from a level on.
pub(crate) struct Following {
    log: Arc<TaskLog>,
    level: LoggingLevel,
    read: usize,
}

impl Following {
    pub(crate) const fn new(log: Arc<TaskLog>, level: LoggingLevel) -> Self {
        Self { log, level, read: 0 }
    }

    /// The messages that were not read yet.
    pub(crate) fn unread(&mut self) -> Vec<Said> {
        let messages = self.log.lock();
        let skipped = self.read.saturating_sub(messages.before);
        self.read = messages.before + messages.latest.len();
        let unread = messages.latest.iter().skip(skipped);
        unread.filter(|message| message.is_wanted_from(self.level)).cloned().collect()
    }

    /// Waits until there are some. If this is dropped before it returns, nothing is lost.
    pub(crate) async fn next(&mut self) -> Vec<Said> {
        let log = Arc::clone(&self.log);
        loop {
            let more = log.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            let unread = self.unread();
            if !unread.is_empty() {
                return unread;
            }
            more.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn message(level: LoggingLevel, text: &str) -> Said {
        Said::Log(LoggingMessageNotificationParam::new(level, text.into()))
    }

    fn text(message: &Said) -> &str {
        match message {
            Said::Log(message) => message.data.as_str().unwrap(),
            Said::Elicited(params) => params.as_ref().unwrap().as_str().unwrap(),
        }
    }

    fn texts(messages: &[Said]) -> Vec<&str> {
        messages.iter().map(text).collect()
    }

    #[tokio::test]
    async fn a_caller_gets_what_was_logged_before_and_after_it_began_to_wait() {
        let log = Arc::new(TaskLog::default());
        log.add(message(LoggingLevel::Error, "one"));
        log.add(message(LoggingLevel::Debug, "too fine"));
        log.add(Said::Elicited(Some("done".into())));
        let mut following = Following::new(Arc::clone(&log), LoggingLevel::Info);
        assert_eq!(texts(&following.next().await), ["one", "done"]);
        let (more, ()) = tokio::join!(following.next(), async { log.add(message(LoggingLevel::Info, "two")) });
        assert_eq!(texts(&more), ["two"]);
        assert!(following.unread().is_empty());
    }

    #[test]
    fn only_the_latest_messages_are_kept_and_none_that_is_long() {
        let log = Arc::new(TaskLog::default());
        let mut following = Following::new(Arc::clone(&log), LoggingLevel::Debug);
        log.add(message(LoggingLevel::Info, "first"));
        assert_eq!(texts(&following.unread()), ["first"]);
        log.add(message(LoggingLevel::Info, &"x".repeat(MESSAGE_BYTES_MAX)));
        for number in 0..=MESSAGES_MAX {
            log.add(message(LoggingLevel::Info, &number.to_string()));
        }
        let unread = following.unread();
        assert_eq!((unread.len(), texts(&unread)[0]), (MESSAGES_MAX, "1"));
        assert_eq!(following.unread(), []);
    }

    #[test]
    fn a_log_is_kept_while_somebody_has_it() {
        let (logs, task): (_, TaskId) = (TaskLogs::default(), "01a20563-0a0a-7fa2-b411-06275c406ba5".parse().unwrap());
        let log = logs.of(task);
        log.add(message(LoggingLevel::Info, "kept"));
        assert_eq!(texts(&Following::new(logs.of(task), LEVEL).unread()), ["kept"]);
        drop(log);
        assert!(Following::new(logs.of(task), LEVEL).unread().is_empty());
        assert_eq!(logs.lock().tasks.len(), 1);
    }

    #[test]
    fn a_session_has_the_level_that_it_has_set() {
        let logs = TaskLogs::default();
        let headers = |id: usize| {
            let id = HeaderValue::from_str(&id.to_string()).unwrap();
            HeaderMap::from_iter([(http::HeaderName::from_static(session::HEADER), id)])
        };
        logs.set_level(&headers(0), LoggingLevel::Debug);
        logs.set_level(&headers(0), LoggingLevel::Error);
        logs.set_level(&HeaderMap::new(), LoggingLevel::Debug);
        assert_eq!((logs.level(&headers(0)), logs.level(&headers(1))), (LoggingLevel::Error, LEVEL));
        assert_eq!(logs.level(&HeaderMap::new()), LEVEL);
        for id in 1..=SESSIONS_MAX {
            logs.set_level(&headers(id), LoggingLevel::Debug);
        }
        assert_eq!((logs.level(&headers(0)), logs.level(&headers(1))), (LEVEL, LoggingLevel::Debug));
    }
}
