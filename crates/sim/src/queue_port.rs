//! The queue of an instance of the simulation: delay, injected fault, and the model or a real queue.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use async_trait::async_trait;
use futures::executor::block_on;
use longhaul_core::ports::{Delivery, Message, QueueError, WorkQueue};

use super::fault_profile::InjectedFault;
use super::world::{InjectedError, World};

/// The queue, as the actors of `world` reach it.
pub(crate) fn queue_port(world: &Arc<World>) -> Arc<dyn WorkQueue> {
    Arc::new(SimQueue { world: Arc::clone(world) })
}

struct SimQueue {
    world: Arc<World>,
}

impl SimQueue {
    async fn travel(&self) {
        let latency_ms = self.world.plan.latency_ms;
        let ms = self.world.kernel.draw(|dice| dice.below(latency_ms + 1));
        self.world.kernel.sleep(ms).await;
    }

    /// Returns when the queue holds something new, and after `ms` in any case.
    async fn something_new(&self, ms: u64) {
        let seen = self.world.lock().queue.version;
        let mut sleep = pin!(self.world.kernel.sleep(ms));
        poll_fn(|context| {
            let mut state = self.world.lock();
            if state.queue.version != seen {
                return Poll::Ready(());
            }
            state.queue.waiters.push(context.waker().clone());
            drop(state);
            sleep.as_mut().poll(context)
        })
        .await;
    }

    /// Wakes the waiting receivers because the queue changed.
    fn wake_receivers(&self) {
        let waiters = {
            let mut state = self.world.lock();
            state.queue.version += 1;
            std::mem::take(&mut state.queue.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    /// A real queue uses the world's clock too, and is never asked to wait.
    fn now_ms(&self) -> u64 {
        self.world.kernel.now_ms()
    }

    fn failed() -> QueueError {
        QueueError(Box::new(InjectedError))
    }

    fn fails(&self, verb: &str) -> bool {
        let fails = self.world.injects(InjectedFault::QueueFails);
        if fails {
            self.world.disturb(0);
            self.world.kernel.tell(|| format!("gets no answer from the queue to {verb}"));
        }
        fails
    }

    fn take(&self, hidden_ms: u64) -> Option<Delivery> {
        let twice = self.world.injects(InjectedFault::Double);
        let now_ms = self.now_ms();
        let mut state = self.world.lock();
        let delivery = match state.real_queue.clone() {
            None => self.world.kernel.draw(|dice| state.queue.receive(now_ms, hidden_ms, twice, dice)),
            Some(queue) => {
                let mut taken = block_on(queue.receive(1, hidden_ms, 0)).unwrap_or_default();
                if let (true, Some(delivery)) = (twice, taken.first()) {
                    let _kept = block_on(queue.extend(&delivery.receipt, 0));
                }
                taken.pop()
            }
        };
        if let Some(delivery) = &delivery {
            let name = state.name(&delivery.message.task);
            let doubled = if twice { ", and the queue will deliver it again at once" } else { "" };
            self.world
                .kernel
                .tell(|| format!("receives the message for {name} (delivery {}){doubled}", delivery.receives));
        }
        delivery
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkQueue for SimQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        self.travel().await;
        let world = &self.world;
        let now_ms = self.now_ms();
        world.lock().checks.sent(&message.task);
        let name = world.lock().name(&message.task);
        if world.injects(InjectedFault::SendBefore) {
            world.kernel.tell(|| format!("cannot send a message for {name}"));
            return Err(Self::failed());
        }
        let slow_ms = if world.injects(InjectedFault::SendSlow) {
            world.kernel.draw(|dice| dice.between(1, world.plan.settings.lease_ms * 2))
        } else {
            0
        };
        if world.injects(InjectedFault::SendLost) {
            world.kernel.tell(|| format!("sends a message for {name}, and the queue loses it"));
            return Ok(());
        }
        world.kernel.tell(|| format!("sends a message for {name}, visible in {} ms", delay_ms + slow_ms));
        {
            let mut state = world.lock();
            // An adapter with a longest delay shortens longer ones.
            let delay_ms = delay_ms.min(world.plan.delay_ms_max) + slow_ms;
            match state.real_queue.clone() {
                Some(queue) => block_on(queue.send(message, delay_ms))?,
                None => state.queue.send(message, now_ms + delay_ms),
            }
        }
        self.wake_receivers();
        if world.injects(InjectedFault::SendAfter) {
            world.kernel.tell(|| "gets no answer from the queue".to_owned());
            return Err(Self::failed());
        }
        self.travel().await;
        Ok(())
    }

    async fn receive(&self, _max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.travel().await;
        if self.fails("the request for messages") {
            return Err(Self::failed());
        }
        let ends_ms = self.now_ms() + wait_ms;
        loop {
            if let Some(delivery) = self.take(visibility_ms) {
                self.travel().await;
                return Ok(vec![delivery]);
            }
            let now_ms = self.now_ms();
            if now_ms >= ends_ms {
                return Ok(Vec::new());
            }
            let next_ms = {
                let state = self.world.lock();
                // A real queue does not report when its next message is due.
                let poll_ms = state.real_queue.is_some().then_some(now_ms + self.world.plan.settings.lease_ms / 10);
                poll_ms.or_else(|| state.queue.next_at_ms()).unwrap_or(ends_ms).clamp(now_ms + 1, ends_ms)
            };
            self.something_new(next_ms - now_ms).await;
        }
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        self.travel().await;
        if self.fails("a change of visibility") {
            return Err(Self::failed());
        }
        let visible_at_ms = self.now_ms() + visibility_ms;
        let real = {
            let mut state = self.world.lock();
            state.queue.extend(receipt, visible_at_ms);
            state.real_queue.clone()
        };
        self.wake_receivers();
        real.map_or(Ok(()), |queue| block_on(queue.extend(receipt, visibility_ms)))
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.travel().await;
        if self.fails("a deletion") {
            return Err(Self::failed());
        }
        let mut state = self.world.lock();
        state.queue.delete(receipt);
        match state.real_queue.clone() {
            Some(queue) => block_on(queue.delete(receipt)),
            None => Ok(()),
        }
    }

    async fn receive_dead(&self, _max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.travel().await;
        if self.fails("the request for dead letters") {
            return Err(Self::failed());
        }
        let now_ms = self.now_ms();
        let mut state = self.world.lock();
        let letter = match state.real_queue.clone() {
            Some(queue) => block_on(queue.receive_dead(1, visibility_ms))?.pop(),
            None => state.queue.receive_dead(now_ms, visibility_ms),
        };
        if let Some(letter) = &letter {
            let name = state.name(&letter.message.task);
            self.world.kernel.tell(|| format!("receives a dead letter for {name}"));
        }
        Ok(letter.into_iter().collect())
    }
}
