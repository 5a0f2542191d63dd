//! A table and a queue on AWS, which several processes share, and functions too.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode, SECRET, SqsQueue};
use longhaul_core::ports::{QueueError, StoreError};
use longhaul_core::settings::table::Role;
use longhaul_core::{Clock, IdSource, with_causes};

use super::health::{Probe, Unready};
use super::{Backend, ServeError};
use crate::{OsIds, SystemClock};

/// The table and the queue as they were named.
pub(super) struct Shared {
    clients: Clients,
    table: String,
    queue_url: String,
    role: Role,
}

/// Why they cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error(
        "the table `{table}` cannot be used: is its name in --store right, is it in this account and region, and may \
         this process read and write it?"
    )]
    Table {
        table: String,
        #[source]
        cause: StoreError,
    },
    #[error(
        "the queue {url} cannot be used: is its URL in --queue right, is the queue there, and may this process call \
         sqs:GetQueueAttributes?"
    )]
    Queue {
        url: String,
        #[source]
        cause: QueueError,
    },
}

impl Unusable {
    /// All causes, from the call that failed to the message of the service. The operator who starts a server needs the
    /// last one.
    pub(super) fn cause(&self) -> String {
        self.source().map(with_causes).unwrap_or_default()
    }
}

impl Shared {
    /// Neither of them is called yet.
    pub(super) async fn new(table: &str, queue_url: &str, role: Role) -> Result<Self, ServeError> {
        let clients = Clients::from_environment().await;
        if !clients.have_region() {
            return Err(ServeError::NoRegion);
        }
        Ok(Self { clients, table: table.to_owned(), queue_url: queue_url.to_owned(), role })
    }

    /// A backend on them, and what says whether they still answer. Calls both.
    pub(super) async fn open(&self) -> Result<(Backend, Arc<dyn Probe>), Unusable> {
        let store = DynamoStore::new(self.clients.dynamo.clone(), &self.table)
            .with_quota(QuotaMode::Counted)
            .with_pauses(Arc::new(SystemClock), Arc::new(OsIds));
        let signing_key = self.signing_key(&store).await;
        let signing_key = signing_key.map_err(|cause| Unusable::Table { table: self.table.clone(), cause })?;
        let queue = SqsQueue::with_its_dead_letters(self.clients.sqs.clone(), &self.queue_url).await;
        let queue = queue.map_err(|cause| Unusable::Queue { url: self.queue_url.clone(), cause })?;
        if !queue.has_dead_letters() {
            tracing::warn!(
                queue = self.queue_url,
                "the queue has no redrive policy: a message that cannot be read comes back until the queue drops it"
            );
        }
        let probe = Arc::new(Both { store: store.clone(), queue: queue.clone() });
        let store = Arc::new(store);
        let backend = Backend::new(Arc::<DynamoStore>::clone(&store), Arc::new(queue)).permits(store);
        Ok((backend.signing_key(signing_key), probe))
    }

    /// The key that all instances share. A worker answers no requests and so signs nothing: it may not read it, and
    /// gets a random one.
    async fn signing_key(&self, store: &DynamoStore) -> Result<[u8; 32], StoreError> {
        match self.role {
            Role::All | Role::Http => store.secret(SECRET, &OsIds).await,
            Role::Worker => {
                store.connect().await?;
                let mut key = [0; 32];
                OsIds.fill(&mut key);
                Ok(key)
            }
        }
    }
}

struct Both {
    store: DynamoStore,
    queue: SqsQueue,
}

#[async_trait]
impl Probe for Both {
    async fn probe(&self) -> Result<(), Unready> {
        let (store, queue) = tokio::join!(self.store.connect(), self.queue.check());
        store.map_err(|error| Unready::store(&error))?;
        queue.map_err(|error| Unready::queue(&error))
    }

    fn unreadable_tasks(&self) -> usize {
        self.store.unreadable_tasks(SystemClock.now())
    }
}
