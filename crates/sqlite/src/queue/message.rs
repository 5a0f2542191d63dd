//! Messages that wait, whose they are, and what identifies their deliveries.

use longhaul_core::ports::{Delivery, Message, Purpose};
use longhaul_core::{OwnerId, Timestamp};

use crate::DatabaseError;

/// A message that waits for its delivery.
pub(crate) struct Waiting {
    /// Its number: of one in memory below zero.
    pub(crate) number: i64,
    /// The number of its latest delivery.
    pub(crate) turn: i64,
    pub(crate) receives: u32,
    pub(crate) visible_at: Timestamp,
    pub(crate) message: Message,
}

impl Waiting {
    pub(crate) const fn is_in_memory(&self) -> bool {
        self.number < 0
    }
}

pub(crate) fn delivery(waiting: Waiting, turn: i64) -> Delivery {
    Delivery {
        message: waiting.message,
        receipt: format!("{}-{turn}", waiting.number),
        receives: waiting.receives.saturating_add(1),
        purpose: Purpose::Work,
    }
}

/// The owners of messages in one place.
pub(crate) trait Owners {
    /// The owners of up to `max` visible messages; first what has been visible longest.
    fn waiting(&self, now: Timestamp, max: usize) -> Result<Vec<OwnerId>, DatabaseError>;

    /// The next owner that has messages, and when the first of them is visible.
    fn next_owner(&self, after: Option<&OwnerId>) -> Result<Option<(OwnerId, Timestamp)>, DatabaseError>;
}

/// Identifies one delivery: the message, and a number that is the delivery's alone and grows from one to the next.
#[derive(Clone, Copy)]
pub(crate) struct Receipt {
    pub(crate) number: i64,
    pub(crate) turn: i64,
}

impl Receipt {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The message's number may be below zero, the delivery's is not.
        let (number, turn) = text.rsplit_once('-')?;
        Some(Self { number: number.parse().ok()?, turn: turn.parse().ok()? })
    }

    pub(crate) const fn is_in_memory(self) -> bool {
        self.number < 0
    }
}
