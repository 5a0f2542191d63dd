//! Why a call to the database failed, and which error of the ports that is.

use std::sync::Arc;

use longhaul_core::ports::{QueueError, StoreError};

/// Why a call to the database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite reported an error. Nothing of the call was applied.
    #[error("SQLite reported an error")]
    Sqlite(#[from] rusqlite::Error),
    /// The transaction that the call was part of did not commit.
    #[error("the transaction did not commit")]
    NotCommitted(#[source] Arc<rusqlite::Error>),
    /// The call was part of a transaction that another call's error ended.
    #[error("the transaction was rolled back")]
    RolledBack,
    /// A stored value cannot be read.
    #[error("a stored value cannot be read")]
    Corrupt(#[from] serde_json::Error),
    /// The call panicked, and was rolled back.
    #[error("the call panicked inside the database thread")]
    Panicked,
    /// The database is closed.
    #[error("the database is closed")]
    Closed,
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Corrupt(_) => Self::Corrupt(error.into()),
            DatabaseError::Sqlite(_)
            | DatabaseError::NotCommitted(_)
            | DatabaseError::RolledBack
            | DatabaseError::Panicked
            | DatabaseError::Closed => Self::Unavailable(error.into()),
        }
    }
}

impl From<DatabaseError> for QueueError {
    fn from(error: DatabaseError) -> Self {
        Self(error.into())
    }
}
