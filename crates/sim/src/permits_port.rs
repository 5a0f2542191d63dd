//! The permits of running attempts, as an instance of the simulation reaches them: delay, injected fault, the model,
//! the checkers.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, StoreError, Taken};
use longhaul_core::{TaskKey, Timestamp};

use super::world::{InjectedError, OutcomeKind, State, World};

/// The permits, as the workers of `world` reach them.
pub(crate) struct SimPermits {
    pub(crate) world: Arc<World>,
}

impl SimPermits {
    async fn call<T: Send>(
        &self,
        verb: &'static str,
        act: impl FnOnce(&mut State) -> T + Send,
    ) -> Result<T, StoreError> {
        let (world, outcome) = (&self.world, self.world.outcome());
        world.kernel.sleep(outcome.there_ms).await;
        let done = match outcome.kind {
            OutcomeKind::FailsBefore | OutcomeKind::LandsLate(_) => None,
            OutcomeKind::FailsAfter => {
                act(&mut world.lock());
                None
            }
            OutcomeKind::Succeeds => Some(act(&mut world.lock())),
        };
        if done.is_none() {
            world.kernel.tell(|| format!("gets no answer when it wants to {verb} a permit"));
        }
        if let Some(back_ms) = outcome.back_ms {
            world.kernel.sleep(back_ms).await;
        }
        done.ok_or_else(|| StoreError::Unavailable(Box::new(InjectedError)))
    }

    /// Tells the checkers what was taken, and what is not known.
    fn tell(&self, permit: &AttemptPermit, taken: Result<Taken, StoreError>) -> Result<Taken, StoreError> {
        let mut state = self.world.lock();
        let name = state.name(&permit.task);
        match &taken {
            Ok(Taken::Permit) => state.checks.permit_is_taken(permit),
            Ok(Taken::Held(_) | Taken::Full) => {}
            Err(_) => state.checks.permit_is_unknown(permit.lease),
        }
        drop(state);
        self.world.kernel.tell(|| format!("wants a permit for {name}: {taken:?}"));
        taken
    }
}

#[async_trait]
impl AttemptPermits for SimPermits {
    async fn take(&self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        let taken = self.call("take", |state| state.permits.take(permit, None, attempts_max, now)).await;
        self.tell(permit, taken)
    }

    async fn take_over(
        &self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let taken = self.call("take over", |state| state.permits.take(permit, Some(held), attempts_max, now)).await;
        self.tell(permit, taken)
    }

    async fn give_back(&self, permit: &AttemptPermit, now: Timestamp) -> Result<Option<TaskKey>, StoreError> {
        self.call("give back", |state| state.permits.give_back(permit, now)).await
    }
}
