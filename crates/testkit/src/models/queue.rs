//! The model of a queue: at-least-once delivery in no particular order, with dead letters, and with one planted fault
//! on demand.

use std::task::Waker;

use longhaul_core::TaskKey;
use longhaul_core::ports::{Delivery, Message, Purpose};

use super::planted::PlantedFault;
use super::randomness::Randomness;

/// Messages.
pub struct QueueModel {
    messages: Vec<Held>,
    numbers: u64,
    receives_max: u32,
    planted: Option<PlantedFault>,
    /// Raised with every change that receivers wait for.
    pub version: u64,
    /// Receivers that wait.
    pub waiters: Vec<Waker>,
}

struct Held {
    number: u64,
    message: Message,
    visible_at_ms: u64,
    receives: u32,
    /// The receipt of the latest delivery.
    receipt: u64,
    dead: bool,
}

impl QueueModel {
    /// An empty queue that delivers a message `receives_max` times, with this planted fault.
    pub const fn new(receives_max: u32, planted: Option<PlantedFault>) -> Self {
        Self { messages: Vec::new(), numbers: 0, receives_max, planted, version: 0, waiters: Vec::new() }
    }

    fn has(&self, fault: PlantedFault) -> bool {
        self.planted == Some(fault)
    }

    /// Puts a message into the queue, to be delivered from `visible_at_ms` on.
    pub fn send(&mut self, message: &Message, visible_at_ms: u64) {
        self.numbers += 1;
        let message = message.clone();
        self.messages.push(Held { number: self.numbers, message, visible_at_ms, receives: 0, receipt: 0, dead: false });
    }

    /// Any one of the visible messages; `twice` leaves it visible.
    pub fn receive(&mut self, now_ms: u64, hidden_ms: u64, twice: bool, dice: &mut Randomness) -> Option<Delivery> {
        self.move_dead_letters(now_ms);
        let visible: Vec<usize> =
            (0..self.messages.len()).filter(|at| self.messages[*at].is_visible(now_ms, Dead::No)).collect();
        let at = *visible.get(dice.below(visible.len() as u64) as usize)?;
        self.deliver(at, if twice { now_ms } else { now_ms + hidden_ms })
    }

    /// One of the dead letters, hidden for `hidden_ms` from now on.
    pub fn receive_dead(&mut self, now_ms: u64, hidden_ms: u64) -> Option<Delivery> {
        self.move_dead_letters(now_ms);
        let at = self.messages.iter().position(|held| held.is_visible(now_ms, Dead::Yes))?;
        self.deliver(at, now_ms + hidden_ms)
    }

    fn move_dead_letters(&mut self, now_ms: u64) {
        let max = self.receives_max;
        for held in &mut self.messages {
            held.dead |= held.visible_at_ms <= now_ms && held.receives >= max;
        }
        if self.has(PlantedFault::DeadLettersVanish) {
            self.messages.retain(|held| !held.dead);
        }
    }

    fn deliver(&mut self, at: usize, visible_at_ms: u64) -> Option<Delivery> {
        self.numbers += 1;
        let receipt = self.numbers;
        let held = self.messages.get_mut(at)?;
        held.receives += 1;
        held.receipt = receipt;
        held.visible_at_ms = visible_at_ms;
        let delivery = Delivery {
            message: held.message.clone(),
            receipt: format!("{}.{receipt}", held.number),
            receives: held.receives,
            purpose: Purpose::Work,
        };
        if self.has(PlantedFault::ReceiveDeletes) {
            self.messages.swap_remove(at);
        }
        Some(delivery)
    }

    /// Hides a delivered message until `visible_at_ms`.
    pub fn extend(&mut self, receipt: &str, visible_at_ms: u64) {
        if let Some(at) = self.find(receipt) {
            self.messages[at].visible_at_ms = visible_at_ms;
        }
    }

    /// Deletes a delivered message.
    pub fn delete(&mut self, receipt: &str) {
        if let Some(at) = self.find(receipt).filter(|_| !self.has(PlantedFault::DeletedMessageStays)) {
            self.messages.swap_remove(at);
        }
    }

    /// Keeps one of the messages of a task that become visible at the same time.
    pub fn merge_copies(&mut self) {
        let mut kept = Vec::new();
        self.messages.retain(|held| {
            let copy = (held.message.task, held.visible_at_ms, held.dead);
            let is_first = !kept.contains(&copy);
            kept.push(copy);
            is_first
        });
    }

    fn find(&self, receipt: &str) -> Option<usize> {
        let (number, latest) = receipt.split_once('.')?;
        let (number, latest): (u64, u64) = (number.parse().ok()?, latest.parse().ok()?);
        self.messages.iter().position(|held| held.number == number && held.receipt == latest)
    }

    /// When the next message can be delivered.
    pub fn next_at_ms(&self) -> Option<u64> {
        self.messages.iter().filter(|held| !held.dead).map(|held| held.visible_at_ms).min()
    }

    /// Whether a task has a message that will be delivered, now or later.
    pub fn has_message(&self, task: &TaskKey) -> bool {
        self.messages.iter().any(|held| held.message.task == *task && !held.dead)
    }

    /// When the last of the messages can be delivered.
    pub fn last_at_ms(&self) -> Option<u64> {
        self.messages.iter().map(|held| held.visible_at_ms).max()
    }

    /// The messages that are still there, dead letters included.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().map(|held| &held.message)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dead {
    Yes,
    No,
}

impl Held {
    fn is_visible(&self, now_ms: u64, dead: Dead) -> bool {
        self.visible_at_ms <= now_ms && self.dead == (dead == Dead::Yes)
    }
}
