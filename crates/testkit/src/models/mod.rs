//! The models of a store, a queue and the permits of running attempts, and ports that answer from them at once.
//!
//! `longhaul-sim` simulates the same models, with one of the planted faults on demand. The fakes have none.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the numbers of a small world fit into every type used here, and nothing here runs in production"
)]

mod damage;
mod fakes;
mod permits;
mod planted;
mod promise;
mod queue;
mod randomness;
mod store;
mod transition;

pub use damage::Damage;
pub use fakes::{FakePermits, FakeQueue, FakeStore, FakeUnfinished};
pub use permits::PermitsModel;
pub use planted::{PlantedFault, ShowsIn};
pub use promise::{Promise, Violation};
pub use queue::QueueModel;
pub use randomness::{Randomness, mix};
pub use store::{Change, SCHEDULED_TOOL, StoreModel};
