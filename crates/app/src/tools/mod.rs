//! The tools, one module each.

pub mod access_codes;
mod app;
pub mod diagnostics;
pub mod profile_dataset;

pub use app::{App, ServerError};
use longhaul::rmcp::ErrorData;

/// The error for arguments that a tool refuses; its text says what to change.
pub(crate) fn refused(error: impl std::error::Error) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}
