//! The shipped application: long-running tools, written as in any ordinary `rmcp` server.

mod handler;
mod server;
pub mod settings;
pub mod tools;

pub use handler::{App, ServerError};
pub use server::server;
pub use settings::{Settings, ToolSet};
