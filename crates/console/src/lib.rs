//! A console in the browser for the tasks of one MCP server: what runs, what waits for an answer, why something failed.
//!
//! [`Console::respond`] answers HTTP requests below [`PATH`], and [`serve`] does so on a listener of its own.
//! Everything comes from a [`Source`]; [`Remote`] is the one that is a client of a server, with the permissions of any
//! client.
//!
//! Pages are rendered here, work without script, and load nothing from elsewhere. Content from servers is inert
//! text.

#![expect(clippy::indexing_slicing, reason = "only values of `serde_json` are indexed: what is not there is null")]

mod answer;
mod ask;
mod clock;
mod console;
mod form;
mod guard;
mod limits;
mod live;
mod log_in;
mod page;
mod pages;
mod parts;
mod posted;
mod problem;
mod serve;
mod source;
mod state;
mod timeline;

pub use answer::Body;
pub use console::{Console, Setup};
pub use serve::serve;
pub use source::{Filter, Listed, Remote, Row, Source};
pub use state::{Act, Acts, OtherServer, Processes, Servers};

/// Where the pages of the console are.
pub const PATH: &str = "/console";
