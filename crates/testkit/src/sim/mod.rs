//! The simulation: the engine on a simulated store, queue, clock and workers; one seed is one run.
//!
//! [`Plan::of`] makes a world from a seed, [`run`] runs it, and [`shrink`] makes the world of a failing seed smaller
//! while it still fails. `docs/testing.md` says how to read a failure, and how to add a mishap, a checker or an actor.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of a small world fit wherever they go, and nothing here runs in production"
)]

mod chance;
mod checks;
mod clients;
mod defect;
mod fakes;
mod hunt;
mod kernel;
mod plan;
mod ports;
mod queue;
mod queue_port;
mod roll;
mod run;
mod shrink;
mod store;
mod story;
mod tools;
mod weather;
mod words;
mod workers;
mod world;

pub use checks::{Promise, Violation};
pub use defect::Defect;
pub use fakes::{FakeQueue, FakeStore};
pub use hunt::{Hunt, hunt};
pub use plan::{Act, After, CallPlan, Care, ClientPlan, Ending, Op, Plan, Slack, Tool, WorkerPlan};
pub use run::{Real, Report, Telling, run, run_with};
pub use shrink::{Shrunk, shrink};
pub use story::Line;
pub use weather::{Mishap, Weather};
pub use world::Fired;
