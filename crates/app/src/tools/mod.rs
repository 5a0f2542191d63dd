//! The tools, one module each.

pub mod access_codes;
pub mod diagnostics;
pub mod profile_dataset;

use longhaul::rmcp::ErrorData;

/// Arguments that a tool does not take: the reason says what to change.
pub(crate) fn refused(error: impl std::error::Error) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}
