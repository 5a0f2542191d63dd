//! The adapters against the emulator: the contracts of the ports, the calls that they cost, and the effects of faults.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]
#![expect(clippy::print_stdout, reason = "the measured costs are printed for the reader")]

mod batches;
mod conflicts;
mod contract;
mod counts;
mod counts_of_sizes;
mod creating;
mod damage;
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

/// The clients of the emulator, and a table of its own for a test.
async fn fresh() -> (longhaul_aws::clients::Clients, String) {
    let clients = longhaul_aws::clients::Clients::new(&harness::emulator::config());
    let table = harness::emulator::table(&clients).await;
    (clients, table)
}
