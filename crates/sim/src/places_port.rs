//! The places of running legs, as an instance of the simulation reaches them: delay, injected fault, the model, the
//! checkers.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::Timestamp;
use longhaul_core::ports::{LegPlace, LegPlaces, StoreError, Taken};

use super::world::{InjectedError, OutcomeKind, State, World};

/// The places, as the workers of `world` reach them.
pub(crate) struct SimPlaces {
    pub(crate) world: Arc<World>,
}

impl SimPlaces {
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
            world.kernel.tell(|| format!("gets no answer when it wants to {verb} a place"));
        }
        if let Some(back_ms) = outcome.back_ms {
            world.kernel.sleep(back_ms).await;
        }
        done.ok_or_else(|| StoreError::Unavailable(Box::new(InjectedError)))
    }

    /// Tells the checkers what was taken, and what is not known.
    fn tell(&self, place: &LegPlace, taken: Result<Taken, StoreError>) -> Result<Taken, StoreError> {
        let mut state = self.world.lock();
        let name = state.name(&place.task);
        match &taken {
            Ok(Taken::Place) => state.checks.place_is_taken(place),
            Ok(Taken::Held(_) | Taken::Full) => {}
            Err(_) => state.checks.place_is_unknown(place.lease),
        }
        drop(state);
        self.world.kernel.tell(|| format!("wants a place for {name}: {taken:?}"));
        taken
    }
}

#[async_trait]
impl LegPlaces for SimPlaces {
    async fn take(&self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        let taken = self.call("take", |state| state.places.take(place, legs_max, now)).await;
        self.tell(place, taken)
    }

    async fn take_over(
        &self,
        place: &LegPlace,
        held: &LegPlace,
        legs_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let taken = self.call("take over", |state| state.places.take_over(place, held, legs_max, now)).await;
        self.tell(place, taken)
    }

    async fn give_back(&self, place: &LegPlace) -> Result<(), StoreError> {
        self.call("give back", |state| state.places.give_back(place)).await
    }
}
