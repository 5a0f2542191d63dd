//! The shipped application: long-running tools, written as in any ordinary `rmcp` server.

mod server;
pub mod settings;
pub mod tools;

pub use server::server;
pub use settings::{Settings, ToolSet};
pub use tools::{App, ServerError};
