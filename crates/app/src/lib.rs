//! The shipped application: tools that run for long, as an ordinary `rmcp` server would write them.

#[cfg(feature = "lambda")]
mod function;
mod server;
pub mod tools;

pub use server::{App, ServerError, Settings, ToolSet, server};
