//! The shipped application: long-running tools, written as in any ordinary `rmcp` server.

mod server;
pub mod settings;
pub mod tools;

pub use server::{App, ServerError, server};
pub use settings::{Settings, ToolSet};
