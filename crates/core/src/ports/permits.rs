//! The permits of attempts.

use async_trait::async_trait;

use super::error::StoreError;
use crate::{LeaseToken, PermitGroup, TaskKey, Timestamp, Turn};

/// One of the attempts that a group may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptPermit {
    /// In which group.
    pub group: PermitGroup,
    /// Whose attempt it is. A task has one permit of a group at most.
    pub task: TaskKey,
    /// The lease that the attempt claims, which tells it from other attempts of the same task.
    pub lease: LeaseToken,
    /// Since when it is taken.
    pub since: Timestamp,
    /// When the attempt can no longer run, whether its worker lives or not: from then on, the permit is free.
    pub until: Timestamp,
    /// The turn of its task, which is noted if there is no permit; `None` for a group without turns. Permits that a
    /// store returns have none.
    pub turn: Option<Turn>,
}

impl AttemptPermit {
    /// The permit as a store returns it.
    #[must_use]
    pub const fn stored(self) -> Self {
        Self { turn: None, ..self }
    }
}

/// The result of taking a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The attempt has a permit.
    Permit,
    /// It has none, because another attempt of the same task has this one.
    Held(AttemptPermit),
    /// It has none, because the group has as many as it may, or other tasks come first.
    Full,
}

/// The permits of attempts, where the number of those of a group is limited. No store needs them: without them, an
/// engine has no limit of an owner's attempts, and no tool may have [flow control](crate::FlowControl).
#[async_trait]
pub trait AttemptPermits: Send + Sync {
    /// Takes a permit for an attempt, unless another attempt of its task has one, or the group has `attempts_max` of
    /// them. An expired permit counts as free, and is gone once another task has got it, even for a clock that is
    /// behind. Once it returns `Place`, all that take a permit later count it, until it is given back or expires. A
    /// permit that is taken twice is one permit. The rules are those of [`GroupPermits`](crate::GroupPermits).
    ///
    /// # Errors
    /// [`StoreError`]; the permit may be taken.
    async fn take(&self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Result<Taken, StoreError>;

    /// Takes the permit `held` of another attempt of the same task, whose lease has expired. If this task has no permit
    /// any longer, takes one as [`take`](Self::take) does. Returns `Held` if a third attempt has it by now.
    ///
    /// # Errors
    /// [`StoreError`]; the permit may be taken.
    async fn take_over(
        &self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError>;

    /// Gives a permit back. Does nothing if the attempt does not have it, or no longer. Returns the task whose turn is
    /// next, if one waits. That one is not noted any more: it gets the next permit if it comes before others.
    ///
    /// # Errors
    /// [`StoreError`]; the permit may be free.
    async fn give_back(&self, permit: &AttemptPermit, now: Timestamp) -> Result<Option<TaskKey>, StoreError>;
}
