//! Extending the TTL of attachments if their task is kept longer than was known when they were written.
//!
//! Journal entries are not extended: they are needed until the task ends, and nothing moves its deadline.

use futures::future::try_join_all;
use longhaul_core::ports::StoreError;
use longhaul_core::{Task, Timestamp};

use crate::error::Unexpected;
use crate::item::{Fields, PK, SK, TTL, seconds, text};
use crate::keys::{self, ItemKey};
use crate::record::Stored;
use crate::store::DynamoStore;
use crate::{expressions, lifetimes};

/// How many writes run at the same time.
const WRITES_MAX: usize = 16;

/// Pages of parts: each has 1 MB or is the last, so this is more than a task may have.
const PAGES_MAX: usize = 4_096;

impl DynamoStore {
    /// Extends all parts of the task that would be deleted before it.
    pub(crate) async fn extend_retention(&self, task: &Task) -> Result<(), StoreError> {
        let (until, mut from) = (lifetimes::of(task), None);
        for _ in 0..PAGES_MAX {
            let query = self
                .table
                .query()
                .key_condition_expression("#pk = :pk AND begins_with(#sk, :parts)")
                .filter_expression(expressions::TTL_IS_BEFORE)
                .projection_expression("#pk, #sk")
                .expression_attribute_names("#pk", PK)
                .expression_attribute_names("#sk", SK)
                .expression_attribute_names("#ttl", TTL)
                .expression_attribute_values(":pk", text(keys::attachments(&task.key())))
                .expression_attribute_values(":parts", text(keys::PARTS))
                .expression_attribute_values(":ttl", seconds(until))
                .set_exclusive_start_key(from);
            let page = self.table.page(query).await?;
            let mut found = Vec::new();
            for item in &page.items {
                let fields = Fields(item);
                found.push(ItemKey { pk: fields.text(PK)?.to_owned(), sk: fields.text(SK)?.to_owned() });
            }
            self.extend_items(&found, until).await?;
            from = page.rest;
            if from.is_none() {
                return Ok(());
            }
        }
        Err(Unexpected::Endless("a query for parts").into())
    }

    /// Extends the idempotency key of the task, if any.
    pub(crate) async fn extend_key(&self, seen: &Stored, next: &Task) -> Result<(), StoreError> {
        match seen.idempotency {
            Some(hash) => self.extend_items(&[keys::idempotency(&next.owner, &hash)], lifetimes::of(next)).await,
            None => Ok(()),
        }
    }

    /// A missing item stays missing: its readers notice.
    async fn extend_items(&self, items: &[ItemKey], until: Timestamp) -> Result<(), StoreError> {
        for some in items.chunks(WRITES_MAX) {
            let writes = some.iter().map(|key| self.table.update(key, expressions::extend_ttl(until)));
            let _extended_or_long_enough_or_missing = try_join_all(writes).await?;
        }
        Ok(())
    }
}
