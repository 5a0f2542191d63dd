//! The model of the places of running legs, with one planted fault on demand.

use std::collections::BTreeMap;

use longhaul_core::ports::{LegPlace, Taken};
use longhaul_core::{TaskKey, Timestamp};

use super::planted::PlantedFault;

/// How much too early a place is free, if that is planted: less than a leg may last where leases are long.
const EARLY_MS: u64 = 20_000;

/// Who has which place, and until when; with one planted fault on demand.
#[derive(Debug, Default)]
pub struct PlacesModel {
    places: BTreeMap<TaskKey, LegPlace>,
    planted: Option<PlantedFault>,
}

impl PlacesModel {
    /// No place is taken; with this planted fault.
    pub const fn with(planted: Option<PlantedFault>) -> Self {
        Self { places: BTreeMap::new(), planted }
    }

    fn has(&self, fault: PlantedFault) -> bool {
        self.planted == Some(fault)
    }

    fn is_over(&self, place: &LegPlace, now: Timestamp) -> bool {
        let early_ms = if self.has(PlantedFault::PlaceFreeTooEarly) { EARLY_MS } else { 0 };
        place.until <= now.plus_ms(early_ms) && !self.has(PlantedFault::DeadLegKeepsPlace)
    }

    /// Takes a place for a leg, if its owner has one left.
    pub fn take(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        match self.places.get(&place.task) {
            Some(held) if !self.is_over(held, now) && held.lease == place.lease => Taken::Place,
            Some(held) if !self.is_over(held, now) => Taken::Held(*held),
            Some(_) | None => self.take_free(place, legs_max, now),
        }
    }

    /// Takes the place of an earlier leg of the same task, or a new one.
    pub fn take_over(&mut self, place: &LegPlace, held: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        let taken = self.take(place, legs_max, now);
        if taken == Taken::Held(*held) {
            self.places.insert(place.task, *place);
            return Taken::Place;
        }
        taken
    }

    fn take_free(&mut self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Taken {
        let is_other = |held: &&LegPlace| held.task.owner == place.task.owner && held.task != place.task;
        let (over, others): (Vec<LegPlace>, Vec<LegPlace>) =
            self.places.values().copied().filter(|held| is_other(&held)).partition(|held| self.is_over(held, now));
        if others.len() >= legs_max as usize && !self.has(PlantedFault::FullOwnerRuns) {
            return Taken::Full;
        }
        // Another worker's clock may be behind: it must not find the place that this leg got.
        for held in over {
            self.places.remove(&held.task);
        }
        self.places.insert(place.task, *place);
        Taken::Place
    }

    /// Gives a place back, if it is still that of this leg.
    pub fn give_back(&mut self, place: &LegPlace) {
        let of_another = self.has(PlantedFault::PlaceOfAnotherGivenBack);
        if self.places.get(&place.task).is_some_and(|held| of_another || held.lease == place.lease) {
            self.places.remove(&place.task);
        }
    }
}
