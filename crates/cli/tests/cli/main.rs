//! The verbs of `longhaul` as their users see them: against the demo and other servers, with kills of them, and at a
//! terminal.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

mod bridge;
mod browser;
mod command;
mod console;
mod deploy;
mod documented;
mod external;
mod ids;
mod kills;
mod login;
mod offers;
mod output;
mod resumed;
mod resuming;
mod save;
mod servers;
mod sessions;
mod stored;
mod terminal;
mod token;
mod verbose;
mod verbs;
