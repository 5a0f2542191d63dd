//! The adapters against the emulator: the contracts of the ports, the calls that they cost, and what faults do.
#![allow(missing_docs, reason = "a test binary has no readers of its documentation")]

mod contract;
mod counts;
mod emulator;
mod faults;
mod lifetimes;
mod meter;
mod unreadable;
mod wire;
