//! The shipped application: tools that run for long, as an ordinary `rmcp` server would write them.

mod server;
pub mod tools;

pub use server::{App, ServerError, Settings, ToolSet, server};
