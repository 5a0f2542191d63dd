//! Watching a leg while its tool runs: heartbeats, the deadlines, the wish to stop.

use std::pin::pin;

use futures::future::{Either, select};
use longhaul_core::planted::{Fault, planted};
use longhaul_core::ports::{ApplyError, Delivery};
use longhaul_core::{Refusal, TaskEvent, Timestamp};

use crate::{Engine, Leg, LegEnd, ToolRunner, WorkerSignals};

/// How the watch over a leg ended.
pub(crate) enum End {
    /// The tool ended or waits.
    Tool(LegEnd),
    /// The record says that this attempt has nothing to write any more.
    Lost(Refusal),
    /// The task is past its deadline.
    PastDeadline,
    /// The leg's time is over, and the tool came to no step boundary.
    Overran,
    /// The worker stops.
    Stopped,
}

/// What a turn of the watch waits for besides the tool.
enum Turn {
    TimePassed,
    Urgent,
    Stop,
}

impl Engine {
    /// Runs the tool and watches it. When this returns, the tool's future is dropped, and its cancellation token has
    /// fired unless it ended by itself.
    pub(crate) async fn watch(
        &self,
        leg: &Leg,
        delivery: &Delivery,
        runner: &dyn ToolRunner,
        signals: &WorkerSignals,
    ) -> End {
        let tool = pin!(runner.run(leg.clone()));
        let warden = pin!(self.guard(leg, delivery, signals));
        // The tool comes first: an end that it reached is not thrown away because a moment is over.
        match select(tool, warden).await {
            Either::Left((end, _)) => End::Tool(end),
            Either::Right((end, _)) => {
                leg.cancelled().cancel();
                end
            }
        }
    }

    /// Renews the lease until something ends the leg from outside.
    async fn guard(&self, leg: &Leg, delivery: &Delivery, signals: &WorkerSignals) -> End {
        let mut beat_at = self.now().plus_ms(self.settings.heartbeat_ms);
        let mut stopped_at: Option<Timestamp> = None;
        loop {
            let now = self.now();
            let grace_ends = stopped_at.map(|at| at.plus_ms(self.settings.stop_grace_ms));
            if now >= leg.task().deadline() && !planted(Fault::DeadlineIgnored) {
                return End::PastDeadline;
            }
            if now >= leg.ends_at() && !planted(Fault::DeadlineIgnored) {
                return End::Overran;
            }
            if grace_ends.is_some_and(|ends| now >= ends) {
                return End::Stopped;
            }
            if now >= beat_at {
                match self.beat(leg, delivery, signals).await {
                    Err(why) => return End::Lost(why),
                    Ok(()) => beat_at = self.now().plus_ms(self.settings.heartbeat_ms),
                }
                continue;
            }
            let wake_at = beat_at.min(leg.ends_at()).min(grace_ends.unwrap_or(beat_at));
            match self.turn(leg, signals, wake_at.since_ms(now), stopped_at).await {
                Turn::TimePassed => {}
                Turn::Urgent => beat_at = self.now(),
                Turn::Stop => {
                    stopped_at = Some(self.now());
                    leg.stop();
                }
            }
        }
    }

    async fn turn(&self, leg: &Leg, signals: &WorkerSignals, wait_ms: u64, stopped_at: Option<Timestamp>) -> Turn {
        let time = self.ports.clock.sleep_ms(wait_ms);
        let urgent = pin!(leg.shared().news.urgent());
        let stop = pin!(async {
            match stopped_at {
                None => signals.stop.cancelled().await,
                Some(_) => std::future::pending().await,
            }
        });
        match select(time, select(urgent, stop)).await {
            Either::Left(_) => Turn::TimePassed,
            Either::Right((Either::Left(_), _)) => Turn::Urgent,
            Either::Right((Either::Right(_), _)) => Turn::Stop,
        }
    }

    /// One heartbeat: renews the lease and the message's invisibility, tells the news, and learns whether the work
    /// is still wanted. A store that does not answer is asked again next time.
    pub(crate) async fn beat(&self, leg: &Leg, delivery: &Delivery, signals: &WorkerSignals) -> Result<(), Refusal> {
        let task = leg.task();
        if planted(Fault::LeaseNotRenewed) {
            return Ok(());
        }
        // A tool that ends while this is on its way drops it: then whoever writes the end tells the news.
        let news = leg.shared().news.telling();
        let lease_until = self.lease_until(signals);
        let (progress, advance) = (news.progress.clone(), news.advance);
        let beat = TaskEvent::Heartbeat { attempt: task.attempt, lease_until, progress, advance };
        match self.store().apply(&task.key(), &beat, self.now()).await {
            Ok(_) => news.are_told(),
            Err(ApplyError::Refused { why: Refusal::Ended, .. }) if planted(Fault::CancelIgnored) => {}
            Err(ApplyError::Refused { why, .. }) => return Err(why),
            Err(ApplyError::NotFound) => return Err(Refusal::Expired),
            Err(ApplyError::Store(error)) => {
                tracing::warn!(task_id = %task.id, error = &error as &dyn std::error::Error, "a heartbeat was not written");
            }
        }
        if let Err(error) = self.queue().extend(&delivery.receipt, self.settings.lease_ms).await {
            tracing::warn!(task_id = %task.id, error = &error as &dyn std::error::Error, "a message was not extended");
        }
        Ok(())
    }
}
