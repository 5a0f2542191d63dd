//! The model of the permits of running attempts, with one planted fault on demand.

use std::collections::BTreeMap;

use longhaul_core::ports::{AttemptPermit, Taken};
use longhaul_core::{PermitGroup, TaskKey, Timestamp};

use super::planted::PlantedFault;

/// How much too early a permit is free, if that is planted: less than an attempt may last where leases are long.
const EARLY_MS: u64 = 20_000;

/// The permits that tasks hold, and until when; with one planted fault on demand.
#[derive(Debug, Default)]
pub struct PermitsModel {
    permits: BTreeMap<(PermitGroup, TaskKey), AttemptPermit>,
    planted: Option<PlantedFault>,
}

impl PermitsModel {
    /// No permit is taken; with this planted fault.
    pub const fn with(planted: Option<PlantedFault>) -> Self {
        Self { permits: BTreeMap::new(), planted }
    }

    fn has(&self, fault: PlantedFault) -> bool {
        self.planted == Some(fault)
    }

    fn is_over(&self, permit: &AttemptPermit, now: Timestamp) -> bool {
        let early_ms = if self.has(PlantedFault::PermitFreeTooEarly) { EARLY_MS } else { 0 };
        permit.until <= now.plus_ms(early_ms) && !self.has(PlantedFault::DeadAttemptKeepsPermit)
    }

    /// Takes a permit for an attempt, if its group has one left.
    pub fn take(&mut self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Taken {
        match self.permits.get(&(permit.group, permit.task)) {
            Some(held) if !self.is_over(held, now) && held.lease == permit.lease => Taken::Permit,
            Some(held) if !self.is_over(held, now) => Taken::Held(*held),
            Some(_) | None => self.take_free(permit, attempts_max, now),
        }
    }

    /// Takes the permit of an earlier attempt of the same task, or a new one.
    pub fn take_over(
        &mut self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Taken {
        let taken = self.take(permit, attempts_max, now);
        if taken == Taken::Held(*held) {
            self.permits.insert((permit.group, permit.task), *permit);
            return Taken::Permit;
        }
        taken
    }

    fn take_free(&mut self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Taken {
        let is_other = |held: &&AttemptPermit| held.group == permit.group && held.task != permit.task;
        let (over, others): (Vec<AttemptPermit>, Vec<AttemptPermit>) =
            self.permits.values().copied().filter(|held| is_other(&held)).partition(|held| self.is_over(held, now));
        if others.len() >= attempts_max as usize && !self.has(PlantedFault::FullOwnerRuns) {
            return Taken::Full;
        }
        // Another worker's clock may be behind: it must not find the permit that this attempt got.
        for held in over {
            self.permits.remove(&(held.group, held.task));
        }
        self.permits.insert((permit.group, permit.task), *permit);
        Taken::Permit
    }

    /// Gives a permit back, if it is still that of this attempt.
    pub fn give_back(&mut self, permit: &AttemptPermit) {
        let of_another = self.has(PlantedFault::PermitOfAnotherGivenBack);
        if self.permits.get(&(permit.group, permit.task)).is_some_and(|held| of_another || held.lease == permit.lease) {
            self.permits.remove(&(permit.group, permit.task));
        }
    }
}
