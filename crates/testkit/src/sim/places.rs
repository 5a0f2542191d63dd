//! The places of running legs: the model, and the port of an instance of the simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{LegPlace, LegPlaces, StoreError, Taken};
use longhaul_core::{LeaseToken, TaskKey, Timestamp};

use super::world::{InjectedError, OutcomeKind, State, World};

/// Who has which place, and until when.
#[derive(Debug, Default)]
pub(crate) struct PlacesModel {
    places: BTreeMap<TaskKey, (LeaseToken, Timestamp)>,
}

impl PlacesModel {
    pub(crate) fn take(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        match self.places.get(&place.task) {
            Some((lease, until)) if *until > now && *lease == place.lease => Taken::Place,
            Some((_, until)) if *until > now => Taken::Held,
            Some(_) | None => self.take_free(place, legs_max, now),
        }
    }

    pub(crate) fn take_over(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        if self.places.get(&place.task).is_some_and(|(_, until)| *until > now) {
            self.places.insert(place.task, (place.lease, place.until));
            return Taken::Place;
        }
        self.take_free(place, legs_max, now)
    }

    fn take_free(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        let others = self
            .places
            .iter()
            .filter(|(task, (_, until))| task.owner == place.task.owner && **task != place.task && *until > now);
        if others.count() >= legs_max as usize {
            return Taken::Full;
        }
        self.places.insert(place.task, (place.lease, place.until));
        Taken::Place
    }

    pub(crate) fn give_back(&mut self, place: &LegPlace) {
        if self.places.get(&place.task).is_some_and(|(lease, _)| *lease == place.lease) {
            self.places.remove(&place.task);
        }
    }
}

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
            Ok(Taken::Held | Taken::Full) => {}
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

    async fn take_over(&self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        let taken = self.call("take over", |state| state.places.take_over(place, legs_max, now)).await;
        self.tell(place, taken)
    }

    async fn give_back(&self, place: &LegPlace) -> Result<(), StoreError> {
        self.call("give back", |state| state.places.give_back(place)).await
    }
}
