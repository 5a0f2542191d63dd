//! Why a local server does not run.

use std::net::SocketAddr;

use longhaul_sqlite::{DatabaseError, OpenError};

/// Why a local server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
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
