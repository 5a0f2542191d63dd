//! The model of the permits of running attempts, with one planted fault on demand.

use std::collections::BTreeMap;

use longhaul_core::ports::{AttemptPermit, Taken};
use longhaul_core::{GroupPermits, PermitGroup, TaskKey, Timestamp};

use super::planted::PlantedFault;

/// How much too early a permit is free, if that is planted: less than an attempt may last where leases are long.
const EARLY_MS: u64 = 20_000;

/// The permits that tasks hold, and until when; with one planted fault on demand.
#[derive(Debug, Default)]
pub struct PermitsModel {
    groups: BTreeMap<PermitGroup, GroupPermits>,
    planted: Option<PlantedFault>,
}

impl PermitsModel {
    /// No permit is taken; with this planted fault.
    pub const fn with(planted: Option<PlantedFault>) -> Self {
        Self { groups: BTreeMap::new(), planted }
    }

    fn has(&self, fault: PlantedFault) -> bool {
        self.planted == Some(fault)
    }

    /// The time by which permits expire.
    fn expiry(&self, now: Timestamp) -> Timestamp {
        if self.has(PlantedFault::DeadAttemptKeepsPermit) {
            return Timestamp::from_ms(0);
        }
        now.plus_ms(if self.has(PlantedFault::PermitFreeTooEarly) { EARLY_MS } else { 0 })
    }

    /// Takes a permit for an attempt, if its group has one left. It may be that of an earlier attempt of the task, if
    /// that is `yielded`.
    pub fn take(
        &mut self,
        permit: &AttemptPermit,
        yielded: Option<&AttemptPermit>,
        attempts_max: u32,
        now: Timestamp,
    ) -> Taken {
        let attempts_max = if self.has(PlantedFault::FullOwnerRuns) { u32::MAX } else { attempts_max };
        let now = self.expiry(now);
        self.groups.entry(permit.group).or_default().take(permit, yielded, attempts_max, now)
    }

    /// Gives a permit back, if it is still that of this attempt. Returns the task whose turn it is next.
    pub fn give_back(&mut self, permit: &AttemptPermit, now: Timestamp) -> Option<TaskKey> {
        let (of_another, now) = (self.has(PlantedFault::PermitOfAnotherGivenBack), self.expiry(now));
        let group = self.groups.get_mut(&permit.group)?;
        let held = group.taken.iter().find(|held| of_another && held.task == permit.task).copied();
        group.give_back(&held.unwrap_or(*permit), now)
    }
}
