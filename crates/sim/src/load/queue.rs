//! The queue of the load: a standard queue without faults.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use async_trait::async_trait;
use futures::Future;
use longhaul_core::ports::{Delivery, Message, Purpose, QueueError, WorkQueue};

use super::super::kernel::Kernel;
use super::ports::{held, travel};

/// Messages, and receivers that wait for them.
#[derive(Default)]
pub(super) struct Waiting {
    numbers: u64,
    /// When each is visible. One that was hidden for another time, or deleted, has no effect here.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    messages: HashMap<u64, Held>,
    waiters: VecDeque<Waker>,
    /// Visible messages, at most.
    visible: usize,
    pub(super) visible_max: usize,
}

struct Held {
    message: Message,
    visible_at_ms: u64,
    receives: u32,
}

impl Waiting {
    fn hide(&mut self, number: u64, until_ms: u64, now_ms: u64) {
        if let Some(held) = self.messages.get_mut(&number) {
            held.visible_at_ms = until_ms;
            self.due.push(Reverse((until_ms, number)));
            if until_ms <= now_ms {
                self.visible += 1;
                self.visible_max = self.visible_max.max(self.visible);
            }
        }
    }

    fn send(&mut self, message: Message, visible_at_ms: u64, now_ms: u64) -> Option<Waker> {
        self.numbers += 1;
        let number = self.numbers;
        self.messages.insert(number, Held { message, visible_at_ms, receives: 0 });
        self.hide(number, visible_at_ms, now_ms);
        self.waiters.pop_front()
    }

    fn receive(&mut self, now_ms: u64, hidden_ms: u64) -> Option<Delivery> {
        while let Some(Reverse((at_ms, number))) = self.due.peek().copied().filter(|due| due.0.0 <= now_ms) {
            self.due.pop();
            let Some(held) = self.messages.get_mut(&number).filter(|held| held.visible_at_ms == at_ms) else {
                continue;
            };
            held.receives += 1;
            let (message, receives) = (held.message.clone(), held.receives);
            self.visible = self.visible.saturating_sub(1);
            self.hide(number, now_ms + hidden_ms, now_ms);
            return Some(Delivery { message, receipt: number.to_string(), receives, purpose: Purpose::Work });
        }
        None
    }

    /// Takes the receivers that still wait.
    pub(super) fn take_waiters(&mut self) -> VecDeque<Waker> {
        std::mem::take(&mut self.waiters)
    }
}

pub(super) struct LoadQueue {
    pub(super) waiting: Arc<Mutex<Waiting>>,
    pub(super) kernel: Arc<Kernel>,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkQueue for LoadQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        travel(&self.kernel).await;
        let now_ms = self.kernel.now_ms();
        let waiter = held(&self.waiting).send(message.clone(), now_ms + delay_ms, now_ms);
        waiter.into_iter().for_each(Waker::wake);
        Ok(())
    }

    async fn receive(&self, _max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        travel(&self.kernel).await;
        let mut is_first = true;
        let mut sleep = pin!(self.kernel.sleep(wait_ms));
        let taken = poll_fn(|context| {
            let now_ms = self.kernel.now_ms();
            let mut waiting = held(&self.waiting);
            if let Some(delivery) = waiting.receive(now_ms, visibility_ms) {
                return Poll::Ready(Some(delivery));
            }
            waiting.waiters.push_back(context.waker().clone());
            let next_ms = waiting.due.peek().map(|due| due.0.0);
            drop(waiting);
            if std::mem::take(&mut is_first)
                && let Some(next_ms) = next_ms.filter(|next_ms| *next_ms < now_ms + wait_ms)
            {
                self.kernel.wake_in(next_ms - now_ms, context);
            }
            sleep.as_mut().poll(context).map(|()| None)
        });
        Ok(taken.await.into_iter().collect())
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        travel(&self.kernel).await;
        let now_ms = self.kernel.now_ms();
        if let Ok(number) = receipt.parse() {
            held(&self.waiting).hide(number, now_ms + visibility_ms, now_ms);
        }
        Ok(())
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        travel(&self.kernel).await;
        if let Ok(number) = receipt.parse::<u64>() {
            held(&self.waiting).messages.remove(&number);
        }
        Ok(())
    }

    async fn receive_dead(&self, _max: usize, _visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        Ok(Vec::new())
    }
}
