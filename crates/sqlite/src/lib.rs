//! Task store and work queue in one SQLite file, for the local mode: durable across restarts.
//!
//! One writer thread runs all waiting calls in one transaction and answers them after its commit. So many callers share
//! the wait for the disk, and calls without a promise do not wait for it. A few reader threads answer polls meanwhile.
//! An async caller's own thread never waits for the disk.

mod attachments;
mod backup;
mod database;
mod erase;
mod error;
mod file_system;
mod ground;
mod handle;
mod limits;
mod listing;
mod lock;
mod log;
mod mailboxes;
mod mark;
mod open;
mod outbox;
mod permissions;
mod permits;
mod purge;
mod queue;
mod quiet;
mod quota;
mod readers;
mod record;
mod schema;
mod settings;
mod sql;
mod store;
mod take_up;
mod tasks;
mod unfinished;
mod unreadable;
mod work_queue;
mod writer;

pub use backup::{Backup, BackupError, back_up};
pub use database::Database;
pub use erase::{EraseError, erase};
pub use error::{DatabaseError, OpenError};
pub use outbox::SqliteOutbox;
pub use purge::Purged;
pub use queue::backlog::Backlog;
pub use settings::{Durability, Notifications, Settings};
pub use store::SqliteStore;
pub use work_queue::SqliteQueue;
