//! The adapters against the emulator: the contracts of the ports, the calls that they cost, and what they keep.
#![allow(missing_docs, reason = "a test binary has no readers of its documentation")]

mod contract;
mod emulator;
