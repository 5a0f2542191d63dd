//! The calls to DynamoDB: consistent reads, conditional writes that return the item, and the pauses between tries.

use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem};
use longhaul_core::ports::StoreError;
use longhaul_core::{Clock, IdSource};

use crate::change::{Change, Condition};
use crate::error::{NotWritten, Unexpected, Written, refused_put, refused_transaction, refused_update, unavailable};
use crate::item::Item;
use crate::keys::ItemKey;

/// How often a write is sent that conflicts with other writes to the same item. With the pauses between them, the last
/// try is some two seconds after the first.
const CONFLICT_TRIES_MAX: u32 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Table {
    client: Client,
    name: String,
    pauses: Pauses,
}

pub(crate) struct Items {
    pub(crate) items: Vec<Item>,
    /// Where the next page begins; `None` if this is the last.
    pub(crate) rest: Option<Item>,
}

impl Table {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name, pauses: Pauses::default() }
    }

    pub(crate) fn with_pauses(self, pauses: Pauses) -> Self {
        Self { pauses, ..self }
    }

    pub(crate) const fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The item, as of the latest finished write.
    pub(crate) async fn get(&self, key: &ItemKey) -> Result<Option<Item>, StoreError> {
        let request = self.client.get_item().table_name(&self.name).set_key(Some(key.to_item())).consistent_read(true);
        Ok(request.send().await.map_err(|error| unavailable("GetItem", error))?.item)
    }

    pub(crate) async fn put(&self, item: Item, condition: Condition) -> Result<Written<()>, StoreError> {
        let expression = condition.into_expression();
        let request = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item))
            .set_expression_attribute_values(expression.values())
            .set_expression_attribute_names(Some(expression.names))
            .condition_expression(expression.condition)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        self.without_conflict(async || match request.clone().send().await {
            Ok(_written) => Ok(Written::Done(())),
            Err(error) => refused_put(error),
        })
        .await
    }

    pub(crate) async fn update(&self, key: &ItemKey, change: Change) -> Result<Written<Item>, StoreError> {
        let expression = change.into_expression();
        let request = self
            .client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(key.to_item()))
            .set_expression_attribute_values(expression.values())
            .set_expression_attribute_names(Some(expression.names))
            .set_update_expression(expression.update)
            .condition_expression(expression.condition)
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        self.without_conflict(async || match request.clone().send().await {
            Ok(updated) => match updated.attributes {
                Some(item) => Ok(Written::Done(item)),
                None => Err(NotWritten::Failed(Unexpected::Incomplete("UpdateItem").into())),
            },
            Err(error) => refused_update(error),
        })
        .await
    }

    /// Writes all or nothing. A refusal says which member was refused, the first if several were, and its item. The
    /// SDK gives every call its own token, so that a try whose answer was lost is not applied twice.
    pub(crate) async fn transact(
        &self,
        members: Vec<TransactWriteItem>,
    ) -> Result<Result<(), (usize, Option<Item>)>, StoreError> {
        let request = self.client.transact_write_items().set_transact_items(Some(members));
        self.without_conflict(async || match request.clone().send().await {
            Ok(_written) => Ok(Ok(())),
            Err(error) => refused_transaction(error).map(Err),
        })
        .await
    }

    /// Sends a write until it does not conflict with other writes to the same item. A write that conflicts was not
    /// made.
    async fn without_conflict<T, F, Fut>(&self, send: F) -> Result<T, StoreError>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<T, NotWritten>>,
    {
        for failed in 0..CONFLICT_TRIES_MAX.saturating_sub(1) {
            match send().await {
                Err(NotWritten::Conflict(error)) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "a write conflicts with others; retrying"
                    );
                    self.pauses.after(failed).await;
                }
                other => return Ok(other?),
            }
        }
        Ok(send().await?)
    }

    /// A [`put`](Self::put) as a member of a transaction.
    pub(crate) fn put_member(&self, item: Item, condition: Condition) -> Result<TransactWriteItem, StoreError> {
        let expression = condition.into_expression();
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(item))
            .set_expression_attribute_values(expression.values())
            .set_expression_attribute_names(Some(expression.names))
            .condition_expression(expression.condition)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|_incomplete| Unexpected::Incomplete("Put"))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// A consistent query of this table, still without its condition.
    pub(crate) fn query(&self) -> QueryFluentBuilder {
        self.client.query().table_name(&self.name).consistent_read(true)
    }

    pub(crate) async fn page(&self, query: QueryFluentBuilder) -> Result<Items, StoreError> {
        let page = query.send().await.map_err(|error| unavailable("Query", error))?;
        Ok(Items { items: page.items.unwrap_or_default(), rest: page.last_evaluated_key })
    }
}

/// The longest pause after the first try; each further one may be twice as long.
const FIRST_MS: u64 = 40;

const MAX_MS: u64 = 1_000;

/// Where pauses get their time and their randomness from.
#[derive(Clone, Default)]
pub(crate) struct Pauses(Option<(Arc<dyn Clock>, Arc<dyn IdSource>)>);

impl Pauses {
    pub(crate) fn new(clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self(Some((clock, ids)))
    }

    /// Waits after the failed try with this number, counted from 0.
    pub(crate) async fn after(&self, failed: u32) {
        let longest = FIRST_MS.saturating_mul(1 << failed.min(16)).min(MAX_MS);
        self.up_to(longest).await;
    }

    /// Waits between half of `ms` and all of it.
    pub(crate) async fn up_to(&self, ms: u64) {
        if let Some((clock, ids)) = &self.0
            && ms > 0
        {
            clock.sleep_ms(ids.delay_ms(ms)).await;
        }
    }
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pauses").field(&self.0.is_some()).finish()
    }
}
