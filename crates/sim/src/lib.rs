//! The simulation: the engine on a simulated store, queue, clock and workers; one seed is one run.
//!
//! [`Plan::of`] makes a world from a seed, [`run`] runs it, and [`shrink`] makes the world of a failing seed smaller
//! while it still fails. `docs/testing.md` says how to read a failure, and how to add a fault, a checker or an actor.
//! The models of store, queue and permits, and the faults that can be planted in them, are in
//! `longhaul_testkit::models`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of a small world fit into every type used here, and nothing here runs in production"
)]

mod beside;
mod call_plan;
mod calling;
mod checks;
mod clients;
mod fault_profile;
mod filtered_lists;
mod kernel;
mod load;
mod lying;
mod metered;
mod outside;
mod partitions;
mod permits_port;
mod plan;
mod ports;
mod publishing;
mod queue_port;
mod racing;
mod resuming;
mod roll;
mod run;
mod schedule_plan;
mod seeds;
mod sentences;
mod shrink;
mod store_port;
mod story;
mod stream_records;
mod timed;
mod tools;
mod undoing;
mod units;
mod workers;
mod world;
mod worlds;

pub use fault_profile::{FaultProfile, InjectedFault};
pub use load::{Attempts, LoadPlan, LoadReport, run_load};
pub use longhaul_testkit::models::{PlantedFault, Promise, SCHEDULED_TOOL, ShowsIn, Violation};
pub use metered::MeteredStore;
pub use partitions::{Throughput, Usage};
pub use plan::{
    Act, After, Beside, CallPlan, Care, ClientPlan, Ending, Op, Plan, Racers, Slack, StoreAndQueue, Tool, WorkerPlan,
};
pub use run::{Real, Report, run, run_scheduled, run_with};
pub use schedule_plan::{Overlaps, SchedulePlan};
pub use seeds::{SeedSearch, search};
pub use shrink::{Shrunk, shrink};
pub use story::{Line, StoryMode};
pub use timed::{MakePolls, Polls};
pub use world::Injected;
