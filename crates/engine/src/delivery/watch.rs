//! Watching an attempt while its tool runs: heartbeats at a steady interval, progress as soon as its own interval
//! allows, deadlines, and requests to stop.

use std::pin::pin;

use futures::future::{Either, select};
use longhaul_core::ports::{ApplyError, Delivery};
use longhaul_core::{Refusal, ResultKind, TaskEvent, Timestamp, limits};

use crate::attempt::{NewUpdates, News};
use crate::suspension::{Reason, Suspended};
use crate::{Attempt, AttemptEnd, Engine, Settings, ToolRunner, WorkerSignals};

pub(crate) enum End {
    /// The tool ended or waits.
    Tool(AttemptEnd),
    /// The record says that this attempt may no longer write.
    Lost(Refusal),
    /// The task's parent has ended otherwise than by a result.
    ParentEnded,
    PastDeadline,
    /// The attempt's time has elapsed, and the tool did not reach a step boundary.
    Overran,
    Stopped,
}

impl End {
    /// Whether the task ends with success, unless it has ended before.
    pub(crate) const fn is_success(&self) -> bool {
        match self {
            Self::Tool(AttemptEnd::Completed { result, kind: ResultKind::Success }) => {
                result.len() <= limits::RESULT_BYTES_MAX
            }
            Self::Tool(_) | Self::Lost(_) | Self::ParentEnded | Self::PastDeadline | Self::Overran | Self::Stopped => {
                false
            }
        }
    }

    /// Whether the attempt gives the task back, for another attempt to continue.
    pub(crate) const fn is_followed_by_another(&self) -> bool {
        match self {
            Self::Stopped | Self::Tool(AttemptEnd::NoSuchTool | AttemptEnd::NoMemory) => true,
            Self::Tool(AttemptEnd::Suspended(Suspended(reason))) => matches!(reason, Reason::Suspend { .. }),
            Self::Tool(AttemptEnd::Completed { .. } | AttemptEnd::Failed { .. } | AttemptEnd::Crashed { .. })
            | Self::Lost(_)
            | Self::ParentEnded
            | Self::PastDeadline
            | Self::Overran => false,
        }
    }
}

/// A wake-up of the watch, other than by the tool.
enum Wakeup {
    TimePassed,
    News,
    StopRequested,
}

impl Engine {
    /// Runs the tool and watches it. When this returns, the tool's future has been dropped, and its cancellation token
    /// has fired unless the tool ended on its own. A tool that blocks its thread may continue. The
    /// watch waits no longer for it than for one whose worker stops.
    pub(crate) async fn watch(
        &self,
        attempt: &Attempt,
        delivery: &Delivery,
        runner: &dyn ToolRunner,
        signals: &WorkerSignals,
    ) -> End {
        let end = {
            let tool = pin!(runner.run(attempt.clone()));
            let guard = pin!(self.guard(attempt, delivery, signals));
            // The tool comes first: a result that it reached is not discarded because a deadline passed at the same
            // time.
            match select(tool, guard).await {
                Either::Left((end, _)) => return End::Tool(end),
                Either::Right((end, _)) => end,
            }
        };
        attempt.cancelled().cancel();
        let over = self.ports.clock.sleep_ms(self.settings.stop_grace_ms);
        if let Either::Right(_) = select(pin!(attempt.gone()), over).await {
            tracing::warn!(task_id = %attempt.task().id, attempt = attempt.task().attempt, "the tool does not stop");
        }
        end
    }

    /// Renews the lease and writes progress until something ends the attempt from outside.
    async fn guard(&self, attempt: &Attempt, delivery: &Delivery, signals: &WorkerSignals) -> End {
        let mut pace = Pace::new(&self.settings, self.now());
        let mut stopped_at: Option<Timestamp> = None;
        loop {
            // Taken before anything is decided: what comes later ends the wait below.
            let news = attempt.shared().pending.news();
            let now = self.now();
            let grace_ends = stopped_at.map(|at| at.plus_ms(self.settings.stop_grace_ms));
            if now >= attempt.task().deadline() {
                return End::PastDeadline;
            }
            if now >= attempt.ends_at() {
                return End::Overran;
            }
            if grace_ends.is_some_and(|ends| now >= ends) {
                return End::Stopped;
            }
            let polls_parent = attempt.task().parent.is_some() && pace.polls_parent(now);
            if polls_parent && self.has_parent_ended(attempt.task()).await {
                return End::ParentEnded;
            }
            if let Some(due) = pace.due(now, news) {
                let written = match due {
                    Due::Heartbeat => self.heartbeat(attempt, delivery, signals).await,
                    Due::Progress => self.renew_lease(attempt, signals).await,
                };
                match written {
                    Err(why) => return End::Lost(why),
                    Ok(()) => pace.wrote(due, self.now(), news),
                }
                continue;
            }
            let due_at = pace.next_at(news);
            let wake_at = due_at.min(attempt.ends_at()).min(grace_ends.unwrap_or(due_at));
            match self.next_wakeup(attempt, signals, (news, wake_at.since_ms(now)), stopped_at).await {
                Wakeup::TimePassed | Wakeup::News => {}
                Wakeup::StopRequested => {
                    stopped_at = Some(self.now());
                    attempt.stop();
                }
            }
        }
    }

    async fn next_wakeup(
        &self,
        attempt: &Attempt,
        signals: &WorkerSignals,
        (news, wait_ms): (News, u64),
        stopped_at: Option<Timestamp>,
    ) -> Wakeup {
        let time = self.ports.clock.sleep_ms(wait_ms);
        let news = pin!(attempt.shared().pending.news_after(news));
        let stop = pin!(async {
            match stopped_at {
                None => signals.stop.cancelled().await,
                Some(_) => std::future::pending().await,
            }
        });
        match select(time, select(news, stop)).await {
            Either::Left(_) => Wakeup::TimePassed,
            Either::Right((Either::Left(_), _)) => Wakeup::News,
            Either::Right((Either::Right(_), _)) => Wakeup::StopRequested,
        }
    }

    /// One heartbeat: renews the lease and the message's invisibility.
    async fn heartbeat(&self, attempt: &Attempt, delivery: &Delivery, signals: &WorkerSignals) -> Result<(), Refusal> {
        self.renew_lease(attempt, signals).await?;
        if let Err(error) = self.queue().extend(&delivery.receipt, self.settings.lease_ms).await {
            let (task, error) = (attempt.task(), &error as &dyn std::error::Error);
            tracing::warn!(task_id = %task.id, error, "the message was not extended");
        }
        Ok(())
    }

    /// Renews the lease, flushes the pending updates, and learns whether the work is still wanted. If the store does
    /// not answer, the next write tries again.
    async fn renew_lease(&self, attempt: &Attempt, signals: &WorkerSignals) -> Result<(), Refusal> {
        let task = attempt.task();
        // A tool that ends during this write drops it: the updates then stay pending for the write of the end.
        let flush = attempt.shared().pending.flush();
        let lease_until = self.lease_until(signals);
        let NewUpdates { progress, labels, advance } = flush.new.clone();
        let heartbeat = TaskEvent::Heartbeat { attempt: task.attempt, lease_until, progress, labels, advance };
        match self.apply_once(&task.key(), &heartbeat).await {
            Ok(_) => flush.written(),
            Err(ApplyError::Refused { why, .. }) => return Err(why),
            Err(ApplyError::NotFound) => return Err(Refusal::Expired),
            Err(ApplyError::Store(error)) => {
                tracing::warn!(task_id = %task.id, error = &error as &dyn std::error::Error, "the heartbeat was not \
                    written");
            }
        }
        Ok(())
    }
}

/// A write that is due. Both renew the lease and write what is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A heartbeat, which also renews the message's invisibility.
    Heartbeat,
    Progress,
}

/// The times of the next writes of one attempt.
pub(crate) struct Pace {
    heartbeat_ms: u64,
    progress_ms: u64,
    /// When the next heartbeat is due.
    beat_at: Timestamp,
    /// From when on progress may be written again.
    progress_from: Timestamp,
    /// When the attempt of a child polls its parent next.
    parent_at: Timestamp,
}

impl Pace {
    /// The times of an attempt that begins at `now`. Its first progress is written at once.
    pub(crate) const fn new(settings: &Settings, now: Timestamp) -> Self {
        let (heartbeat_ms, progress_ms) = (settings.heartbeat_ms, settings.progress_ms);
        let parent_at = now.plus_ms(limits::PARENT_POLL_MS);
        Self { heartbeat_ms, progress_ms, beat_at: now.plus_ms(heartbeat_ms), progress_from: now, parent_at }
    }

    /// Whether the attempt of a child polls its parent now. That is decided at its heartbeats, and at other writes.
    fn polls_parent(&mut self, now: Timestamp) -> bool {
        let is_time = now >= self.parent_at;
        if is_time {
            self.parent_at = now.plus_ms(limits::PARENT_POLL_MS);
        }
        is_time
    }

    /// When the next write is due; this may be in the past.
    pub(crate) fn next_at(&self, news: News) -> Timestamp {
        if news.flush_requested {
            return Timestamp::from_ms(0);
        }
        if news.has_progress { self.progress_from.min(self.beat_at) } else { self.beat_at }
    }

    /// The write that is due at `now`. A heartbeat that would follow before the next progress is brought forward. So
    /// heartbeats cost no additional writes while there is progress.
    pub(crate) fn due(&self, now: Timestamp, news: News) -> Option<Due> {
        if now < self.next_at(news) {
            return None;
        }
        let beats = news.flush_requested || now.plus_ms(self.progress_ms) >= self.beat_at;
        Some(if beats { Due::Heartbeat } else { Due::Progress })
    }

    /// Notes a write that ended at `now`, successful or not.
    pub(crate) fn wrote(&mut self, due: Due, now: Timestamp, news: News) {
        if due == Due::Heartbeat {
            self.beat_at = now.plus_ms(self.heartbeat_ms);
        }
        if news.has_progress {
            self.progress_from = now.plus_ms(self.progress_ms);
        }
    }
}
