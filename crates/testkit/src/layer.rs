//! Stores that do something around the calls of another one.

use std::ops::Deref;

use async_trait::async_trait;
use longhaul_core::ports::{ApplyError, CreateError, Created, Left, NewTask, Page, Recorded, StoreError, TaskStore};
use longhaul_core::{Entry, MailboxId, OwnerId, PartsName, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp};

/// A call to a store, as those see it who do something around it.
#[derive(Clone, Copy, Debug)]
pub enum StoreCall<'a> {
    /// [`TaskStore::create`]
    Create(&'a NewTask),
    /// [`TaskStore::get`]
    Get(&'a TaskKey),
    /// [`TaskStore::apply`]
    Apply(&'a TaskKey, &'a TaskEvent),
    /// [`TaskStore::list`] and [`TaskStore::list_filtered`]
    List(&'a OwnerId),
    /// [`TaskStore::record`]
    Record(&'a TaskKey, &'a Entry),
    /// [`TaskStore::journal`]
    Journal(&'a TaskKey),
    /// [`TaskStore::put_parts`]
    PutParts(&'a TaskKey, &'a PartsName, &'a [&'a str]),
    /// [`TaskStore::parts`], with the number of parts
    Parts(&'a TaskKey, &'a PartsName, u32),
    /// [`TaskStore::leave`], with the text
    Leave(&'a OwnerId, &'a MailboxId, &'a str),
    /// [`TaskStore::collect`]
    Collect(&'a OwnerId, &'a MailboxId),
}

/// The store that a layer makes of the one inside.
pub struct Layered<L>(pub L);

impl<L> Deref for Layered<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

/// Each call of a store: its arguments, its answer, and how a layer sees it. `create` owns its argument, and is written
/// out below.
macro_rules! store_calls {
    ($($verb:ident($($name:ident: $type:ty),*) -> $answer:ty as $call:expr;)+) => {
        /// A layer around the calls of a store. A call that the layer does not override passes through
        /// [`around`](Self::around).
        #[async_trait]
        pub trait StoreLayer: Send + Sync {
            /// The store inside.
            fn inner(&self) -> &dyn TaskStore;

            /// Makes the call `real` of the store inside, or does something else.
            async fn around<T: Send, E: From<StoreError> + Send>(
                &self,
                _call: StoreCall<'_>,
                real: impl Future<Output = Result<T, E>> + Send,
            ) -> Result<T, E> {
                real.await
            }

            /// [`TaskStore::create`]
            async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
                let seen = new.clone();
                self.around(StoreCall::Create(&seen), self.inner().create(new, now)).await
            }

            /// [`TaskStore::list_of_all_owners`]
            async fn list_of_all_owners(
                &self,
                filter: &TaskFilter,
                before: Option<TaskId>,
                limit: usize,
                now: Timestamp,
            ) -> Result<Option<Page>, StoreError> {
                self.inner().list_of_all_owners(filter, before, limit, now).await
            }

            $(
                #[doc = concat!("[`TaskStore::", stringify!($verb), "`]")]
                async fn $verb(&self, $($name: $type),*) -> $answer {
                    self.around($call, self.inner().$verb($($name),*)).await
                }
            )+
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<L: StoreLayer> TaskStore for Layered<L> {
            async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
                self.0.create(new, now).await
            }

            $(
                async fn $verb(&self, $($name: $type),*) -> $answer {
                    self.0.$verb($($name),*).await
                }
            )+

            async fn list_of_all_owners(
                &self,
                filter: &TaskFilter,
                before: Option<TaskId>,
                limit: usize,
                now: Timestamp,
            ) -> Result<Option<Page>, StoreError> {
                self.0.list_of_all_owners(filter, before, limit, now).await
            }
        }
    };
}

store_calls! {
    get(key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> as StoreCall::Get(key);
    apply(key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> as StoreCall::Apply(key, event);
    list(owner: &OwnerId, before: Option<TaskId>, limit: usize, now: Timestamp) -> Result<Page, StoreError>
        as StoreCall::List(owner);
    list_filtered(owner: &OwnerId, filter: &TaskFilter, before: Option<TaskId>, limit: usize, now: Timestamp)
        -> Result<Page, StoreError> as StoreCall::List(owner);
    record(key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> as StoreCall::Record(key, entry);
    journal(key: &TaskKey) -> Result<Vec<Entry>, StoreError> as StoreCall::Journal(key);
    put_parts(key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError>
        as StoreCall::PutParts(key, name, parts);
    parts(key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError>
        as StoreCall::Parts(key, name, count);
    leave(owner: &OwnerId, mailbox: &MailboxId, text: &str, expires_at: Timestamp, now: Timestamp)
        -> Result<Left, StoreError> as StoreCall::Leave(owner, mailbox, text);
    collect(owner: &OwnerId, mailbox: &MailboxId, now: Timestamp) -> Result<Option<String>, StoreError>
        as StoreCall::Collect(owner, mailbox);
}
