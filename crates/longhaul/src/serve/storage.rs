//! Where a local server keeps its tasks and its work: the one place that reads `--store`, `--queue` and `--db`.

use std::path::{Path, PathBuf};

#[cfg(feature = "aws")]
use longhaul_core::settings::QueueAt;
use longhaul_core::settings::table::{self, Role};
use longhaul_core::settings::{SettingsError, StoreAt, Values};

/// A store and its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// Both in one file, which this process has alone.
    File(PathBuf),
    /// A DynamoDB table and an SQS queue, which processes share.
    #[cfg(feature = "aws")]
    Aws {
        /// The name of the table.
        table: String,
        /// The URL of the queue.
        queue_url: String,
    },
}

/// Whether the store is one that processes share.
pub(super) fn is_shared(values: &Values) -> Result<bool, SettingsError> {
    Ok(matches!(values.find(&table::STORE)?, Some(StoreAt::Dynamodb(_))))
}

impl Storage {
    /// Whether a file of this name means that nothing is kept.
    pub(super) fn is_memory(file: &Path) -> bool {
        file.as_os_str() == ":memory:"
    }

    /// The storage that `values` name.
    pub(super) fn of(values: &Values) -> Result<Self, SettingsError> {
        let (store, queue) = (values.find(&table::STORE)?, values.find(&table::QUEUE)?);
        if let (Some(store), true) = (&store, values.is_given(&table::DB)) {
            let why = "`db` says where tasks are stored, too: leave one of them out";
            return Err(values.refuse(&table::STORE, store, why));
        }
        match (store, queue) {
            #[cfg(feature = "aws")]
            (Some(StoreAt::Dynamodb(table)), Some(QueueAt::Sqs(queue_url))) => Ok(Self::Aws { table, queue_url }),
            #[cfg(not(feature = "aws"))]
            (Some(store @ StoreAt::Dynamodb(_)), Some(_)) => {
                let why =
                    "this program was built without DynamoDB and SQS: build it with the feature `aws` of `longhaul`";
                Err(values.refuse(&table::STORE, &store, why))
            }
            (Some(store @ StoreAt::Dynamodb(_)), None) => {
                let why = "a table needs a queue: name one with `--queue sqs:URL`";
                Err(values.refuse(&table::STORE, &store, why))
            }
            (_, Some(queue)) => {
                let why = "a file has its own queue: leave this out, or name a table with `--store dynamodb:TABLE`";
                Err(values.refuse(&table::QUEUE, &queue, why))
            }
            (Some(StoreAt::Sqlite(file)), None) => Self::file(values, file),
            (None, None) => Self::file(values, values.get(&table::DB)?),
        }
    }

    /// A file is of use only to a process that does everything.
    fn file(values: &Values, file: PathBuf) -> Result<Self, SettingsError> {
        match values.get(&table::ROLE)? {
            Role::All => Ok(Self::File(file)),
            role @ (Role::Http | Role::Worker) => {
                let why = "the other part would need the same tasks, and no other process can use this one's file: it \
                           must be `all`, or name a table with `--store dynamodb:TABLE`";
                Err(values.refuse(&table::ROLE, &role, why))
            }
        }
    }
}
