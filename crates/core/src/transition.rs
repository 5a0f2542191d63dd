//! The one place where a task's state changes.
//!
//! Every event is matched against every state by name, so that a new state or event does not compile until its
//! transitions are decided. Clocks may differ between callers: nothing here relies on `now` only increasing, and what
//! must not happen twice is fenced by the attempt.

use crate::{
    Admission, Advance, Ask, AttemptOutcome, Failure, FailureKind, Labels, Lease, Progress, Refusal, State, Suspension,
    Task, TaskEvent, TaskRecord, Timestamp,
};

mod cleanup;
mod repeated;

/// The recorded reason for the failure of an attempt that stopped renewing its lease.
const ATTEMPT_DIED: &str = "a worker died or lost its lease";

impl Task {
    /// The task after `event`, or why the event does not apply. Pure: a store is correct when it does the same in one
    /// atomic write.
    ///
    /// # Errors
    /// The [`Refusal`] that says why the event does not apply; the task is then unchanged.
    pub fn apply(&self, event: &TaskEvent, now: Timestamp) -> Result<Self, Refusal> {
        if self.has_expired(now) {
            return Err(Refusal::Expired);
        }
        let mut next = self.record().clone();
        match event {
            TaskEvent::Claim { token, lease_until, admission } => {
                self.claim(&mut next, Lease { until: *lease_until, token: *token }, now)?;
                self.must_be_admitted(*admission)?;
            }
            TaskEvent::Heartbeat { attempt, lease_until, progress, labels, advance } => {
                let lease = self.held_by(*attempt)?;
                next.state = State::Running { lease: Lease { until: *lease_until, ..lease } };
                note_reports(&mut next, progress.as_ref(), labels.as_ref(), now);
                match advance {
                    Advance::Recorded => reset_failures(&mut next),
                    Advance::NotYet => {}
                }
            }
            TaskEvent::SetVariables { attempt, variables } => {
                self.held_by(*attempt)?;
                next.variables = Some(variables.clone());
                next.updated_at = now;
            }
            TaskEvent::Suspend { attempt, suspension, progress, labels } => {
                self.held_by(*attempt)?;
                self.suspend(&mut next, suspension)?;
                next.attempts.end(*attempt, now, suspension.attempt_outcome());
                note_reports(&mut next, progress.as_ref(), labels.as_ref(), now);
                reset_failures(&mut next);
                note_sending(&mut next, now);
            }
            TaskEvent::Retry { attempt, not_before, reason } => {
                self.held_by(*attempt)?;
                self.fail_attempt(&mut next, reason, AttemptOutcome::failed(reason), now)?;
                next.state = State::Sleeping { until: *not_before };
                note_sending(&mut next, now);
            }
            TaskEvent::Finish { attempt, outcome, progress, labels } => {
                self.held_by(*attempt)?;
                note_reports(&mut next, progress.as_ref(), labels.as_ref(), now);
                end(&mut next, outcome.state(), now);
            }
            TaskEvent::Answer { keys } => self.answer(&mut next, keys, now)?,
            TaskEvent::Wake { at } => go_on(&mut next, self.woken(*at)?, now),
            TaskEvent::Cancel => {
                self.must_not_have_ended()?;
                self.end_from_outside(&mut next, State::Cancelled, now);
            }
            TaskEvent::Resend { not_since } => {
                self.could_start_or_be_cleaned(now)?;
                if self.sent_at > *not_since {
                    return Err(Refusal::SentAlready { at: self.sent_at });
                }
                next.sent_at = now;
                next.resends = self.resends.saturating_add(1);
            }
            TaskEvent::RetriesExhausted => {
                self.end_from_outside(&mut next, self.retries_exhausted_state(now)?, now);
            }
            TaskEvent::TimeOut => self.end_from_outside(&mut next, self.timed_out(now)?, now),
            TaskEvent::ExtendRetention { retention_ms } => self.extend_retention(&mut next, *retention_ms)?,
            TaskEvent::Forget if self.has_ended() => next.expires_at = now,
            TaskEvent::Forget => return Err(Refusal::NotEnded),
            // Whoever begins knows that no worker runs the tool.
            TaskEvent::BeginCleanup { lease } => {
                (next.cleanup, next.held_until) = (self.begin_cleanup(*lease, now)?, None);
            }
            TaskEvent::EndCleanup { token, end } => next.cleanup = self.end_cleanup(*token, *end)?,
        }
        Ok(Self::restore(next))
    }

    fn must_be_admitted(&self, admission: Admission) -> Result<(), Refusal> {
        let needs_permits = self.flow.is_some() && admission == Admission::Free;
        if needs_permits { Err(Refusal::NeedsPermits) } else { Ok(()) }
    }

    /// Whether the attempt before the one that just claimed the task died without reporting anything. For statistics.
    #[must_use]
    pub fn follows_a_dead_attempt(&self) -> bool {
        self.last_failure.as_deref() == Some(ATTEMPT_DIED)
    }

    fn claim(&self, next: &mut TaskRecord, lease: Lease, now: Timestamp) -> Result<(), Refusal> {
        self.could_start(now)?;
        if now >= self.deadline() {
            return Err(Refusal::PastDeadline);
        }
        match &self.state {
            // The attempt before this one died.
            State::Running { lease } => self.fail_attempt(next, ATTEMPT_DIED, AttemptOutcome::Died, lease.until)?,
            State::InputRequired { asks, .. } => next.asked.clone_from(asks),
            State::Queued
            | State::Sleeping { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled => {}
        }
        next.state = State::Running { lease };
        next.attempts.begin(now);
        next.attempt = self.attempt.saturating_add(1);
        next.started_at = self.started_at.or(Some(now));
        next.resends = 0;
        next.updated_at = now;
        Ok(())
    }

    /// Ends the task, the process that holds it: that worker may not know before its lease expires.
    fn end_from_outside(&self, next: &mut TaskRecord, state: State, now: Timestamp) {
        next.held_until = if let State::Running { lease } = &self.state { Some(lease.until) } else { None };
        end(next, state, now);
    }

    /// Whether the task expires before the agreed time. An earlier write that arrives late must not bring it back.
    fn was_forgotten(&self) -> bool {
        let lives_until = self.due_at().plus_ms(self.terms.ttl_ms);
        let retained_until = self.ended_at.map(|ended_at| ended_at.plus_ms(self.terms.retention_ms));
        self.expires_at < lives_until || retained_until.is_some_and(|until| self.expires_at < until)
    }

    /// Retains the result for at least `retention_ms` after the end.
    fn extend_retention(&self, next: &mut TaskRecord, retention_ms: u64) -> Result<(), Refusal> {
        if self.was_forgotten() {
            return Err(Refusal::Expired);
        }
        next.terms.retention_ms = self.terms.retention_ms.max(retention_ms);
        let from = self.ended_at.unwrap_or_else(|| self.deadline());
        next.expires_at = self.expires_at.max(from.plus_ms(next.terms.retention_ms));
        Ok(())
    }

    /// Whether a worker could claim the task, apart from its deadline and its retries.
    fn could_start(&self, now: Timestamp) -> Result<(), Refusal> {
        match &self.state {
            State::Queued => Ok(()),
            State::Running { lease } if now >= lease.until => Ok(()),
            State::Running { lease } => Err(Refusal::Leased { until: lease.until }),
            State::Sleeping { until } if now >= *until => Ok(()),
            State::Sleeping { until } => Err(Refusal::NotDue { until: *until }),
            State::InputRequired { until: Some(until), .. } if now >= *until => Ok(()),
            State::InputRequired { .. } => Err(Refusal::WaitsForInput),
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => Err(Refusal::Ended),
        }
    }

    fn could_start_or_be_cleaned(&self, now: Timestamp) -> Result<(), Refusal> {
        if self.needs_cleanup() { Ok(()) } else { self.could_start(now) }
    }

    /// The lease of `attempt`, which stays valid until another worker claims the task, even after it ran out.
    fn held_by(&self, attempt: u32) -> Result<Lease, Refusal> {
        match &self.state {
            State::Running { lease } if self.attempt == attempt => Ok(*lease),
            State::Running { .. } | State::Queued | State::Sleeping { .. } | State::InputRequired { .. } => {
                Err(Refusal::Stale { current: self.attempt })
            }
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => Err(Refusal::Ended),
        }
    }

    fn must_not_have_ended(&self) -> Result<(), Refusal> {
        if self.has_ended() { Err(Refusal::Ended) } else { Ok(()) }
    }

    /// Suspends the task. It does not wait for questions that were answered while the attempt ran.
    fn suspend(&self, next: &mut TaskRecord, suspension: &Suspension) -> Result<(), Refusal> {
        next.state = suspension.state()?;
        match suspension {
            Suspension::Input { asks, until } => {
                next.state = waiting_for(unanswered(asks, &self.answered), *until);
                forget_questions(next);
            }
            // The tool may come back to its questions: it need not have polled every branch in this attempt.
            Suspension::Timer(_) | Suspension::Yield => {}
        }
        Ok(())
    }

    /// Closes questions. None is open while an attempt works next to them or is about to. Then the answers are noted:
    /// an attempt that has read the journal before may still suspend the task on them.
    fn answer(&self, next: &mut TaskRecord, keys: &[String], now: Timestamp) -> Result<(), Refusal> {
        self.must_not_have_ended()?;
        let now_answered: Vec<String> =
            self.answerable().filter(|ask| keys.contains(&ask.key)).map(|ask| ask.key.clone()).collect();
        if now_answered.is_empty() {
            return Err(Refusal::NotAsked);
        }
        match &self.state {
            State::InputRequired { asks, until } => {
                go_on(next, waiting_for(unanswered(asks, &now_answered), *until), now);
            }
            State::Queued
            | State::Running { .. }
            | State::Sleeping { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled => next.answered.extend(now_answered),
        }
        Ok(())
    }

    /// The time that the task waits for, unless it is the end of a delay before a retry, or a later start.
    fn waits_until(&self) -> Option<Timestamp> {
        let began_by_itself = !self.state.asks().is_empty() || self.failures == 0 && self.attempt > 0;
        self.wakes_at().filter(|_until| began_by_itself)
    }

    /// The same state, until `at`. A question alone has no time to which the tool would continue without an answer:
    /// then it waits for nothing else.
    fn woken(&self, at: Timestamp) -> Result<State, Refusal> {
        self.must_not_have_ended()?;
        if self.waits_until().is_none_or(|until| until <= at) {
            return Err(Refusal::NothingToWake);
        }
        let asks = self.state.asks().to_vec();
        Ok(if asks.is_empty() { State::Sleeping { until: at } } else { State::InputRequired { asks, until: Some(at) } })
    }

    fn fail_attempt(
        &self,
        next: &mut TaskRecord,
        reason: &str,
        end: AttemptOutcome,
        to: Timestamp,
    ) -> Result<(), Refusal> {
        if self.is_on_last_retry() {
            return Err(Refusal::RetriesExhausted);
        }
        next.failures = self.failures.saturating_add(1);
        next.last_failure = Some(reason.to_owned());
        next.attempts.end(self.attempt, to, end);
        Ok(())
    }

    fn retries_exhausted_state(&self, now: Timestamp) -> Result<State, Refusal> {
        match &self.state {
            State::Running { lease } if now < lease.until => Err(Refusal::Leased { until: lease.until }),
            State::Running { .. } if self.is_on_last_retry() => Ok(State::Failed { failure: self.retries_exhausted() }),
            State::Running { .. } | State::Queued | State::Sleeping { .. } => Err(Refusal::RetriesLeft),
            State::InputRequired { .. } => Err(Refusal::WaitsForInput),
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => Err(Refusal::Ended),
        }
    }

    fn retries_exhausted(&self) -> Failure {
        let last = self.last_failure.as_deref().unwrap_or("the worker died or was killed");
        let message =
            format!("no retries are left after {} failures in a row: {last}", self.failures.saturating_add(1));
        Failure { kind: FailureKind::RetriesExhausted, message, detail: None }
    }

    fn timed_out(&self, now: Timestamp) -> Result<State, Refusal> {
        self.must_not_have_ended()?;
        if now < self.deadline() {
            return Err(Refusal::BeforeDeadline);
        }
        let message = format!("did not end within the {} ms that the tool may take, waits included", self.terms.run_ms);
        Ok(State::Failed { failure: Failure { kind: FailureKind::TimedOut, message, detail: None } })
    }
}

fn unanswered(asks: &[Ask], answered: &[String]) -> Vec<Ask> {
    asks.iter().filter(|ask| !answered.contains(&ask.key)).cloned().collect()
}

/// The state of a task that waits for the answers to these, if there are any.
fn waiting_for(asks: Vec<Ask>, until: Option<Timestamp>) -> State {
    if asks.is_empty() { State::Queued } else { State::InputRequired { asks, until } }
}

fn forget_questions(next: &mut TaskRecord) {
    next.asked.clear();
    next.answered.clear();
}

fn end(next: &mut TaskRecord, state: State, now: Timestamp) {
    forget_questions(next);
    next.state = state;
    next.ended_at = Some(now);
    next.updated_at = now;
    next.expires_at = next.expires_at.max(now.plus_ms(next.terms.retention_ms));
}

fn note_reports(next: &mut TaskRecord, progress: Option<&Progress>, labels: Option<&Labels>, now: Timestamp) {
    if let Some(progress) = progress {
        next.progress = Some(progress.clone());
        next.updated_at = now;
    }
    if let Some(labels) = labels {
        next.labels.clone_from(labels);
        next.updated_at = now;
    }
}

fn reset_failures(next: &mut TaskRecord) {
    next.failures = 0;
    next.last_failure = None;
}

/// Leads to a state in which a message is due.
fn go_on(next: &mut TaskRecord, state: State, now: Timestamp) {
    next.state = state;
    note_sending(next, now);
}

const fn note_sending(next: &mut TaskRecord, now: Timestamp) {
    next.sent_at = now;
    next.resends = 0;
    next.updated_at = now;
}
