//! Records that cannot be read: the task that stands for one, and which ones a process has met.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::{
    Attempts, Cleanup, Failure, FailureKind, Labels, Payload, State, Task, TaskKey, TaskRecord, Terms, Timestamp,
    limits,
};

/// The message of the failure.
const MESSAGE: &str = "the stored record of this task cannot be read";

/// How many tasks are noted; further ones are not.
const NOTED_MAX: usize = 1_024;

impl Task {
    /// The task that stands for a record under `key` that cannot be read: it has failed, and takes no event. It is the
    /// same for the same arguments, which a store knows without the record.
    #[must_use]
    pub fn unreadable(key: &TaskKey, tool: Option<String>, expires_at: Option<Timestamp>) -> Self {
        let created_at = key.id.begins_at();
        let expires_at = expires_at.unwrap_or_else(|| created_at.plus_ms(limits::TTL_MS_MAX_DEFAULT));
        let failure = Failure { kind: FailureKind::Corrupt, message: MESSAGE.to_owned(), detail: None };
        Self::restore(TaskRecord {
            owner: key.owner,
            id: key.id,
            tool: tool.unwrap_or_default(),
            state: State::Failed { failure },
            attempt: 0,
            failures: 0,
            last_failure: None,
            terms: Terms {
                ttl_ms: expires_at.since_ms(created_at),
                retention_ms: 0,
                run_ms: 0,
                poll_ms: None,
                consecutive_failures_max: 1,
            },
            created_at,
            not_before: None,
            updated_at: created_at,
            sent_at: created_at,
            resends: 0,
            started_at: None,
            ended_at: Some(created_at),
            expires_at,
            progress: None,
            request: Payload::Inline("{}".to_owned()),
            trace: None,
            variables: None,
            cleanup: Cleanup::None,
            held_until: None,
            attempts: Attempts::default(),
            parent: None,
            resumes: None,
            asked: Vec::new(),
            answered: Vec::new(),
            flow: None,
            labels: Labels::default(),
        })
    }
}

/// Tasks that a process has met, each until it expires: so that the log names each of them once.
#[derive(Debug, Default)]
pub struct NotedTasks(Mutex<BTreeMap<TaskKey, Timestamp>>);

impl NotedTasks {
    /// Notes a task that expires at `until`. Returns whether it is new, which it never is if too many are noted.
    pub fn note(&self, key: &TaskKey, until: Timestamp) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= NOTED_MAX || noted.contains_key(key) {
            return false;
        }
        noted.insert(*key, until);
        true
    }

    /// How many of the noted tasks have not expired at `now`. Forgets the others.
    #[must_use]
    pub fn count(&self, now: Timestamp) -> usize {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|_key, until| *until > now);
        noted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OwnerId, Refusal, Status, TaskEvent, TaskId};

    fn key(number: u8) -> TaskKey {
        TaskKey::new(OwnerId::from_bytes([number; 32]), TaskId::derived(Timestamp::from_ms(1_000), &[&[number]]))
    }

    #[test]
    fn what_stands_for_an_unreadable_record_has_failed_and_says_so() {
        let task = Task::unreadable(&key(1), Some("tool".to_owned()), Some(Timestamp::from_ms(9_000)));
        assert_eq!((task.status(), task.key(), task.tool.as_str()), (Status::Failed, key(1), "tool"));
        assert_eq!((task.created_at, task.ttl_ms()), (Timestamp::from_ms(1_000), 8_000));
        assert_eq!(task.apply(&TaskEvent::Cancel, Timestamp::from_ms(2_000)), Err(Refusal::Ended));
        assert!(!task.needs_cleanup());
    }

    #[test]
    fn each_task_is_new_once_and_is_counted_until_it_expires() {
        let (noted, until) = (NotedTasks::default(), Timestamp::from_ms(5));
        assert_eq!([noted.note(&key(1), until), noted.note(&key(1), until)], [true, false]);
        assert!(noted.note(&key(2), Timestamp::from_ms(9)));
        assert_eq!([4, 5, 9].map(|now| noted.count(Timestamp::from_ms(now))), [2, 1, 0]);
    }
}
