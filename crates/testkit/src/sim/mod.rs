//! The simulation: the engine on a simulated store, queue, clock and workers; one seed is one run.
//!
//! [`Plan::of`] makes a world from a seed, [`run`] runs it, and [`shrink`] makes the world of a failing seed smaller
//! while it still fails. `docs/testing.md` says how to read a failure, and how to add a fault, a checker or an actor.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of a small world fit into every type used here, and nothing here runs in production"
)]

mod announcing;
mod calling;
mod checks;
mod clients;
mod fakes;
mod fault_profile;
mod kernel;
mod load;
mod lying;
mod metered;
mod outside;
mod partitions;
mod places;
mod places_port;
mod plan;
mod planted;
mod ports;
mod promise;
mod queue;
mod queue_port;
mod randomness;
mod roll;
mod run;
mod schedule_plan;
mod seeds;
mod sentences;
mod shrink;
mod store;
mod store_port;
mod story;
mod stream_records;
mod timed;
mod tools;
mod transition;
mod units;
mod workers;
mod world;
mod worlds;

pub use fakes::{FakePlaces, FakeQueue, FakeStore};
pub use fault_profile::{FaultProfile, InjectedFault};
pub use load::{Legs, LoadPlan, LoadReport, run_load};
pub use metered::MeteredStore;
pub use partitions::{Throughput, Usage};
pub use plan::{Act, After, CallPlan, Care, ClientPlan, Ending, Op, Plan, Slack, StoreAndQueue, Tool, WorkerPlan};
pub use planted::PlantedFault;
pub use promise::{Promise, Violation};
pub use run::{Real, Report, run, run_scheduled, run_with};
pub use schedule_plan::{Overlaps, SCHEDULED_TOOL, SchedulePlan};
pub use seeds::{SeedSearch, search};
pub use shrink::{Shrunk, shrink};
pub use story::{Line, StoryMode};
pub use timed::{Looks, MakeLooks};
pub use world::Injected;
