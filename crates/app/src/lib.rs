//! The shipped application: tools that run for long, as an ordinary `rmcp` server would write them.

mod server;
pub mod settings;
pub mod tools;

pub use server::{App, ServerError, server};
pub use settings::{Settings, ToolSet};
