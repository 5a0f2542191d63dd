//! The places of running legs: the model, and the port of an instance of the simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{LegPlace, LegPlaces, StoreError, Taken};
use longhaul_core::{TaskKey, Timestamp};

use super::planted::PlantedFault;
use super::world::{InjectedError, OutcomeKind, State, World};

/// How much too early a place is free, if that is planted: less than a leg may last where leases are long.
const EARLY_MS: u64 = 20_000;

/// Who has which place, and until when; with one planted fault on demand.
#[derive(Debug, Default)]
pub(crate) struct PlacesModel {
    places: BTreeMap<TaskKey, LegPlace>,
    planted: Option<PlantedFault>,
}

impl PlacesModel {
    pub(crate) const fn with(planted: Option<PlantedFault>) -> Self {
        Self { places: BTreeMap::new(), planted }
    }

    fn has(&self, fault: PlantedFault) -> bool {
        self.planted == Some(fault)
    }

    fn is_over(&self, place: &LegPlace, now: Timestamp) -> bool {
        let early_ms = if self.has(PlantedFault::PlaceFreeTooEarly) { EARLY_MS } else { 0 };
        place.until <= now.plus_ms(early_ms) && !self.has(PlantedFault::DeadLegKeepsPlace)
    }

    pub(crate) fn take(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        match self.places.get(&place.task) {
            Some(held) if !self.is_over(held, now) && held.lease == place.lease => Taken::Place,
            Some(held) if !self.is_over(held, now) => Taken::Held,
            Some(_) | None => self.take_free(place, legs_max, now),
        }
    }

    pub(crate) fn take_over(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        if self.places.get(&place.task).is_some_and(|held| !self.is_over(held, now)) {
            self.places.insert(place.task, *place);
            return Taken::Place;
        }
        self.take_free(place, legs_max, now)
    }

    fn take_free(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        let is_other = |held: &&LegPlace| held.task.owner == place.task.owner && held.task != place.task;
        let others = self.places.values().filter(is_other).filter(|held| !self.is_over(held, now)).count();
        if others >= legs_max as usize && !self.has(PlantedFault::FullOwnerRuns) {
            return Taken::Full;
        }
        self.places.insert(place.task, *place);
        Taken::Place
    }

    pub(crate) fn give_back(&mut self, place: &LegPlace) {
        let of_another = self.has(PlantedFault::PlaceOfAnotherGivenBack);
        if self.places.get(&place.task).is_some_and(|held| of_another || held.lease == place.lease) {
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
