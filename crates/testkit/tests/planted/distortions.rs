//! Events and tasks as a store with a fault distorts them.

use longhaul_core::ports::{ApplyError, NewEntry, NewTask};
use longhaul_core::{
    Cleanup, Entry, EntryKind, OwnerId, PartsName, Payload, Refusal, State, Status, Task, TaskEvent, TaskKey,
    TaskRecord, Timestamp,
};

use super::store::{Fault, PlantedStore, Tables, fixed_id};

impl PlantedStore {
    /// The event as a store without this condition would see it.
    pub(super) fn distorted_event(&self, task: &Task, event: &TaskEvent) -> TaskEvent {
        let mut event = event.clone();
        match &mut event {
            TaskEvent::Heartbeat { attempt, lease_until, .. } => {
                self.distort_fence(task, attempt);
                if let (Fault::LeaseNotRenewed, State::Running { lease }) = (self.fault, &task.state) {
                    *lease_until = lease.until;
                }
            }
            TaskEvent::SetVariables { attempt, .. }
            | TaskEvent::Suspend { attempt, .. }
            | TaskEvent::Retry { attempt, .. }
            | TaskEvent::Finish { attempt, .. } => self.distort_fence(task, attempt),
            TaskEvent::Resend { not_since } if self.has(Fault::ResendAlways) => *not_since = task.sent_at,
            TaskEvent::EndCleanup { token, .. } => {
                if let (Fault::CleanupEndedByAnyone, Cleanup::Armed { lease: Some(lease), .. }) =
                    (self.fault, task.cleanup)
                {
                    *token = lease.token;
                }
            }
            _ => {}
        }
        event
    }

    pub(super) fn distort_fence(&self, task: &Task, attempt: &mut u32) {
        if self.has(Fault::FenceOff) || (self.has(Fault::FenceOnlyBackwards) && *attempt > task.attempt) {
            *attempt = task.attempt;
        }
    }

    /// The task as a store without this condition would see it.
    pub(super) fn distorted_task(&self, task: &Task, event: &TaskEvent) -> Task {
        let mut record: TaskRecord = task.record().clone();
        let overwritten = match (self.fault, event) {
            (Fault::EndOverwritten, TaskEvent::Finish { .. } | TaskEvent::Cancel) => task.has_ended(),
            (Fault::ProgressUndoesTheEnd, TaskEvent::Heartbeat { .. }) => task.has_ended(),
            (Fault::CancelLosesToResult, TaskEvent::Finish { .. }) => task.status() == Status::Cancelled,
            _ => false,
        };
        let lease = longhaul_core::Lease {
            until: Timestamp::from_ms(0),
            token: longhaul_core::LeaseToken::from_random([0; 16]),
        };
        if overwritten {
            record.state = State::Running { lease };
        }
        if let (Fault::LeaseIgnored, TaskEvent::Claim { .. }, State::Running { .. }) = (self.fault, event, &task.state)
        {
            record.state = State::Running { lease };
        }
        if let (Fault::SleepIgnored, State::Sleeping { .. }) = (self.fault, &task.state) {
            record.state = State::Queued;
        }
        if let (Fault::AnsweredIsAskedAgain, TaskEvent::Suspend { .. }) = (self.fault, event) {
            record.answered.clear();
        }
        self.distort_waiting(&mut record, event);
        self.distort_cleanup(&mut record, event);
        if self.has(Fault::ApplyIgnoresExpiry) {
            record.expires_at = Timestamp::from_ms(u64::MAX);
        }
        Task::restore(record)
    }

    pub(super) fn distort_waiting(&self, record: &mut TaskRecord, event: &TaskEvent) {
        if !matches!(event, TaskEvent::Wake { .. }) {
            return;
        }
        let far = Timestamp::from_ms(u64::MAX);
        match (self.fault, &mut record.state) {
            (Fault::WakeMovesLater, State::Sleeping { until } | State::InputRequired { until: Some(until), .. }) => {
                *until = far;
            }
            (Fault::WakeCutsRetryShort, State::Sleeping { .. }) => record.failures = 0,
            (Fault::LaterStartMovedByWake, State::Sleeping { .. }) => record.attempt = record.attempt.max(1),
            (Fault::WakeWaitsForAnswers, State::InputRequired { until, .. }) => *until = Some(far),
            _ => {}
        }
    }

    pub(super) fn distort_cleanup(&self, record: &mut TaskRecord, event: &TaskEvent) {
        match (self.fault, event, record.cleanup) {
            (Fault::CleanupLeaseIgnored, TaskEvent::BeginCleanup { .. }, Cleanup::Armed { tries, .. }) => {
                record.cleanup = Cleanup::Armed { tries, lease: None };
            }
            (Fault::CleanupAfterAnyEnd, TaskEvent::BeginCleanup { .. }, Cleanup::Armed { .. })
                if matches!(record.state, State::Completed { .. }) =>
            {
                record.state = State::Cancelled;
            }
            (Fault::CleanupNotResent, TaskEvent::Resend { .. }, _) => record.cleanup = Cleanup::None,
            _ => {}
        }
    }

    pub(super) fn races(&self, event: &TaskEvent) -> bool {
        match event {
            TaskEvent::Claim { .. } => self.has(Fault::ClaimsRace),
            TaskEvent::Finish { .. } | TaskEvent::Cancel => self.has(Fault::EndsRace),
            TaskEvent::Heartbeat { .. } => self.has(Fault::ProgressRacesTheEnd),
            TaskEvent::BeginCleanup { .. } => self.has(Fault::CleanupsRace),
            _ => false,
        }
    }

    pub(super) fn decide(
        &self,
        tables: &mut Tables,
        key: &TaskKey,
        event: &TaskEvent,
        now: Timestamp,
    ) -> Result<Task, ApplyError> {
        if self.has(Fault::EventMakesTask) && !tables.tasks.contains_key(key) {
            let other = tables.first.values().next().cloned();
            let made = longhaul_testkit::given::task(&longhaul_testkit::SeededIds::new(1), key.owner, now);
            tables.tasks.insert(*key, other.unwrap_or(made));
        }
        let task = self.found(tables, key).ok_or(ApplyError::NotFound)?;
        if self.expired(&task, now, Fault::ApplyIgnoresExpiry) {
            return Err(ApplyError::NotFound);
        }
        match self.distorted_task(&task, event).apply(&self.distorted_event(&task, event), now) {
            Ok(next) => Ok(self.kept_after(&task, next)),
            Err(why) => self.refuse(tables, task, why),
        }
    }

    pub(super) fn kept_after(&self, before: &Task, next: Task) -> Task {
        let mut record = next.into_record();
        if self.has(Fault::ClaimForgetsQuestions) {
            record.asked.clear();
        }
        if self.has(Fault::LateEndMovesNoExpiry) {
            record.expires_at = before.expires_at;
        }
        if self.has(Fault::LaterStartNotCancelled) && before.not_before.is_some() && record.state == State::Cancelled {
            record.state = before.state.clone();
        }
        if self.has(Fault::FailuresNotStored) {
            record.failures = 0;
        }
        if self.has(Fault::ResendsNotStored) {
            record.resends = 0;
        }
        match (self.fault, record.cleanup) {
            (Fault::CleanupNotStored, _) => record.cleanup = Cleanup::None,
            (Fault::CleanupTriesNotStored, Cleanup::Armed { lease, .. }) => {
                record.cleanup = Cleanup::Armed { tries: 0, lease };
            }
            _ => {}
        }
        Task::restore(record)
    }

    pub(super) fn refuse(&self, tables: &mut Tables, task: Task, why: Refusal) -> Result<Task, ApplyError> {
        if self.has(Fault::RefusalAsSuccess) {
            return Ok(task);
        }
        if self.has(Fault::SlotReleasedByRefusals) && why == Refusal::Ended {
            tables.refunds += 1;
        }
        if self.has(Fault::RefusalWrites) {
            let mut record = task.record().clone();
            record.updated_at = record.updated_at.plus_ms(1);
            tables.tasks.insert(task.key(), Task::restore(record));
        }
        let first = tables.first.get(&task.key()).filter(|_| self.has(Fault::RefusalCarriesTheFirstRecord)).cloned();
        Err(ApplyError::Refused { current: Box::new(first.unwrap_or(task)), why })
    }

    pub(super) fn put_request(tables: &mut Tables, new: &NewTask) {
        if !new.request_parts.is_empty() {
            tables.parts.insert((new.task.key(), PartsName::Request.to_string()), new.request_parts.to_vec());
        }
    }

    pub(super) fn put_journal(&self, tables: &mut Tables, new: &NewTask) {
        let key = new.task.key();
        for NewEntry { entry, parts } in new.journal.iter() {
            tables.journal.insert(self.entry_key(&key, entry), entry.clone());
            if let Payload::Parts { name, .. } = &entry.value {
                tables.parts.insert(self.parts_name(&key, name), parts.clone());
            }
        }
    }

    pub(super) fn entry_key(&self, key: &TaskKey, entry: &Entry) -> (TaskKey, EntryKind, String) {
        let key = if self.has(Fault::EntriesOfAllTasks) {
            TaskKey::new(OwnerId::from_bytes([0; 32]), fixed_id())
        } else {
            *key
        };
        let kind = if self.has(Fault::EntriesByNameOnly) { EntryKind::Step } else { entry.kind };
        let lower = self.has(Fault::EntryNamesInLowerCase);
        (key, kind, if lower { entry.name.to_lowercase() } else { entry.name.clone() })
    }
}
