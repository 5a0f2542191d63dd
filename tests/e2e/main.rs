//! The `local` binary as its users meet it: real clients, real HTTP, real kills.

mod abuse;
mod caller;
mod clients;
mod flows;
mod kills;
mod process;
mod startup;
