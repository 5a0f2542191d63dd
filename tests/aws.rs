//! Whole programs on AWS: the deployed template, the gateway's functions, and the conformance suite's fixtures. AWS is
//! an emulator or the Runtime API host on this machine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, prints what it typed and did not run, and waits in real time"
)]

mod aws_e2e;
mod gateway_aws;
