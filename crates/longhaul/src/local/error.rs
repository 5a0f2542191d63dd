//! Why a local server does not run.

use std::net::SocketAddr;

use longhaul_settings::SettingsError;
use longhaul_sqlite::{DatabaseError, OpenError};

/// Why a local server does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A setting that is out of range, or that another one does not allow.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No runtime for async code.
    #[error("the process could not start its threads")]
    Runtime(#[source] std::io::Error),
    /// The database cannot be opened.
    #[error("the database cannot be opened; choose another file with --db, or `:memory:` to keep nothing")]
    Open(#[source] OpenError),
    /// The database was opened and does not answer.
    #[error("the database does not answer")]
    Database(#[source] DatabaseError),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
}
