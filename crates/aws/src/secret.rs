//! Secrets that all instances over a table share: made up by the first, read by the others. The table is encrypted, and
//! only those who may read every task may read them.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_core::IdSource;
use longhaul_core::ports::StoreError;

use crate::error::{Unexpected, Written};
use crate::item::{Item, Unreadable};
use crate::store::DynamoStore;
use crate::{expressions, keys};

/// The attribute that holds the secret.
const SECRET: &str = "secret";

impl DynamoStore {
    /// Makes the connection that later calls use, and finds out whether the table may be read: one read of a small item.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn connect(&self) -> Result<(), StoreError> {
        self.table.get(&keys::secret("-")).await.map(drop)
    }

    /// The secret called `name`: one read, and one write where nobody made it up yet. Once it returns, every instance
    /// gets the same. Whoever deletes the item (`pk` is `s#` and the name) makes a new one come about, which instances
    /// use as they start.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn secret(&self, name: &str, ids: &dyn IdSource) -> Result<[u8; 32], StoreError> {
        let key = keys::secret(name);
        if let Some(item) = self.table.get(&key).await? {
            return read(&item);
        }
        let mut secret = [0; 32];
        ids.fill(&mut secret);
        let item = key.with(Item::from([(SECRET.to_owned(), AttributeValue::B(Blob::new(secret)))]));
        match self.table.put(item, expressions::new_item()).await? {
            Written::Done(()) => Ok(secret),
            // Another instance was quicker, or this one's own write was applied before its answer was lost.
            Written::Refused(Some(item)) => read(&item),
            Written::Refused(None) => Err(Unexpected::Contended.into()),
        }
    }
}

fn read(item: &Item) -> Result<[u8; 32], StoreError> {
    let secret = item.get(SECRET).and_then(|value| value.as_b().ok()).and_then(|blob| blob.as_ref().try_into().ok());
    Ok(secret.ok_or(Unreadable { attribute: SECRET })?)
}
