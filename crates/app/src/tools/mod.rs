//! The tools, one module each.

pub mod access_codes;
pub mod diagnostics;
pub mod profile_dataset;

use longhaul::rmcp::ErrorData;

/// The error for arguments that a tool refuses; its text says what to change.
pub(crate) fn refused(error: impl std::error::Error) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}
