//! The outside system that records the signals that tools wait for. It may record a signal at any time after the tool's
//! request, even before the tool waits.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use longhaul_core::EntryKind;
use longhaul_engine::SignalError;

use super::clients::Client;
use super::world::{HandedOut, World};

/// Records the signals that are due, until they are recorded. A process that dies after the record does not come back,
/// so the task then has to poll.
pub(crate) async fn record_signals(world: Arc<World>, client: Client) {
    loop {
        let next_ms = told(&world).await;
        let now_ms = world.kernel.now_ms();
        if next_ms > now_ms {
            // In short steps: a new signal may be due sooner than the known ones.
            world.kernel.sleep((next_ms - now_ms).min(world.plan.settings.lease_ms / 20)).await;
            continue;
        }
        let (due, later) =
            std::mem::take(&mut world.lock().handed_out).into_iter().partition(|signal| signal.due_ms <= now_ms);
        world.lock().handed_out = later;
        let due: Vec<HandedOut> = due;
        for mut signal in due {
            if client.record_signal(&signal).await {
                continue;
            }
            let is_on_record = world.lock().store.entry(&signal.key, EntryKind::Signal, &signal.name).is_some();
            if !is_on_record {
                signal.due_ms = world.kernel.now_ms() + world.plan.settings.lease_ms / 4;
                world.lock().handed_out.push(signal);
            }
        }
    }
}

/// The time at which the next signal is due, as soon as there is one.
async fn told(world: &World) -> u64 {
    poll_fn(|context| {
        let mut state = world.lock();
        let next_ms = state.handed_out.iter().map(|signal| signal.due_ms).min();
        if next_ms.is_none() {
            state.listener = Some(context.waker().clone());
        }
        next_ms.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

impl Client {
    /// Records a signal. Whether that was answered.
    async fn record_signal(&self, signal: &HandedOut) -> bool {
        self.world
            .kernel
            .tell(|| format!("records the signal `{}` of {}", signal.name, self.world.lock().name(&signal.key)));
        let answer =
            self.request(async |engine| engine.record_signal(&signal.key, &signal.name, "\"there\"").await).await;
        match answer {
            Some((_, Ok(_) | Err(SignalError::Ended | SignalError::NotFound))) => true,
            Some((_, Err(_))) | None => false,
        }
    }
}
