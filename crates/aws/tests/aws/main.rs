//! The adapters against the emulator: the contracts of the ports, the calls that they cost, and the effects of faults.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]
#![expect(clippy::print_stdout, reason = "the measured costs are printed for the reader")]

mod batches;
mod conflicts;
mod contract;
mod counts;
mod creating;
mod faults;
mod filled;
mod items;
mod keys;
mod lifetimes;
mod meter;
mod permits;
mod quota;
mod redrive;
mod secrets;
mod units;
mod unreadable;
mod wire;
