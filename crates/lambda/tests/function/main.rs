//! The functions as Lambda sees them: an event in, an answer out. The events are the files of `infra/events`, which
//! `sam local` takes too.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]
#![expect(clippy::future_not_send, reason = "a test runs on one thread, as the API function does")]

mod allocations;
mod answering;
mod answering_in_time;
mod audit;
mod bearer;
mod costs;
mod dead_letters;
mod logs;
mod metrics;
mod oauth;
mod publishing;
#[expect(dead_code, reason = "the count of instructions needs more of it")]
mod requests;
mod rest_api;
mod scale;
mod template;
mod unclaimed;
mod working;
mod world;
