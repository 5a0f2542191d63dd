//! Attachments, stored outside the task's record: journal entries and parts.

use aws_sdk_dynamodb::types::{DeleteRequest, KeysAndAttributes, PutRequest, WriteRequest};
use longhaul_core::ports::{Recorded, StoreError};
use longhaul_core::{Entry, PartsName, TaskKey, Timestamp, limits};

use crate::error::{Unexpected, Written, is_throttled, unavailable};
use crate::item::{
    Fields, Item, KIND, NAME, PK, RECORDING, SK, TEXT, TTL, Unreadable, VALUE, json, seconds, text, word,
};
use crate::keys::{self, ItemKey};
use crate::store::DynamoStore;
use crate::{expressions, lifetimes, record};

/// Parts in one write. DynamoDB accepts 25 items and 16 MB, and every quotation mark in a text counts twice on the
/// wire.
const WRITE_PARTS_MAX: usize = 16;

/// Parts in one read. DynamoDB answers with at most 100 items and 16 MB.
const READ_PARTS_MAX: usize = 40;

/// Items in one write that deletes. DynamoDB accepts 25.
const DELETE_ITEMS_MAX: usize = 25;

/// How often the unprocessed items of a batch are sent again. All rounds take at most half a minute, even for a large
/// result that has to be paced as a whole.
const ROUNDS_MAX: u32 = 16;

/// Parts in one write after a table has refused some: one partition takes 1,000 write units a second, which is less
/// than three parts.
const PACED_PARTS_MAX: usize = 2;

/// How long one partition needs for one part, in milliseconds, if it takes 1,000 units a second.
const PART_MS: u64 = 350;

/// Pages of a journal: each has at least one entry, or is the last.
const JOURNAL_PAGES_MAX: usize = limits::ENTRIES_MAX;

impl DynamoStore {
    /// Records an entry, unless there is one already.
    pub(crate) async fn record_entry(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        let item = keys::entry(key, entry.kind, &entry.name).with(entry_item(entry, self.lifetime(key).await?));
        match self.table.put(item, expressions::new_item()).await? {
            Written::Done(()) => Ok(Recorded::First),
            Written::Refused(Some(item)) => Ok(Recorded::Earlier(read_entry(&item)?)),
            // Deleted between the refusal and its answer: the task expired long ago.
            Written::Refused(None) => Err(Unexpected::Contended.into()),
        }
    }

    pub(crate) async fn entries(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        let items = self.entry_items(key).await?;
        Ok(items.iter().map(read_entry).collect::<Result<_, _>>()?)
    }

    pub(crate) async fn delete_entries(&self, key: &TaskKey) -> Result<(), StoreError> {
        let mut entries = Vec::new();
        for item in self.entry_items(key).await? {
            let fields = Fields(&item);
            entries.push(ItemKey { pk: fields.text(PK)?.to_owned(), sk: fields.text(SK)?.to_owned() });
        }
        self.delete_items(&entries).await
    }

    pub(crate) async fn delete_items(&self, items: &[ItemKey]) -> Result<(), StoreError> {
        let mut requests = Vec::new();
        for item in items {
            let delete = DeleteRequest::builder().set_key(Some(item.to_item())).build();
            let delete = delete.map_err(|_incomplete| Unexpected::Incomplete("DeleteRequest"))?;
            requests.push(WriteRequest::builder().delete_request(delete).build());
        }
        for batch in requests.chunks(DELETE_ITEMS_MAX) {
            self.write_batch(batch.to_vec()).await?;
        }
        Ok(())
    }

    async fn entry_items(&self, key: &TaskKey) -> Result<Vec<Item>, StoreError> {
        let (mut items, mut from) = (Vec::new(), None);
        for _ in 0..JOURNAL_PAGES_MAX {
            let query = self
                .table
                .query()
                .key_condition_expression("#pk = :pk AND begins_with(#sk, :journal)")
                .expression_attribute_names("#pk", PK)
                .expression_attribute_names("#sk", SK)
                .expression_attribute_values(":pk", text(keys::attachments(key)))
                .expression_attribute_values(":journal", text(keys::JOURNAL))
                .set_exclusive_start_key(from);
            let page = self.table.page(query).await?;
            items.extend(page.items);
            from = page.rest;
            if from.is_none() {
                return Ok(items);
            }
        }
        Err(Unexpected::Endless("a journal").into())
    }

    /// Writes parts, in as few calls as their size allows.
    pub(crate) async fn write_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        let ttl = self.lifetime(key).await?;
        self.write_texts(parts, ttl, |number| keys::part(key, name, number)).await
    }

    /// Writes each of `texts` under the key for its number, to be kept until `ttl`.
    pub(crate) async fn write_texts(
        &self,
        texts: &[&str],
        ttl: Timestamp,
        key: impl Fn(usize) -> ItemKey + Send + Sync,
    ) -> Result<(), StoreError> {
        self.write_items(texts.iter().enumerate().map(|(number, part)| key(number).with(part_item(part, ttl)))).await
    }

    /// Writes items, and replaces those that have the same keys.
    pub(crate) async fn write_items(&self, items: impl Iterator<Item = Item>) -> Result<(), StoreError> {
        let mut requests = Vec::new();
        for item in items {
            let put = PutRequest::builder().set_item(Some(item)).build();
            let put = put.map_err(|_incomplete| Unexpected::Incomplete("PutRequest"))?;
            requests.push(WriteRequest::builder().put_request(put).build());
        }
        for batch in requests.chunks(WRITE_PARTS_MAX) {
            self.write_batch(batch.to_vec()).await?;
        }
        Ok(())
    }

    /// Writes a batch at once. A table that was not busy lately takes it whole. The items that it does not take are
    /// sent again at the pace of one partition.
    async fn write_batch(&self, mut requests: Vec<WriteRequest>) -> Result<(), StoreError> {
        let mut refusals = 0;
        for round in 0..ROUNDS_MAX {
            let paced = if round == 0 { requests.len() } else { PACED_PARTS_MAX.min(requests.len()) };
            let rest = requests.split_off(paced);
            let mut left = self.send_batch(requests).await?;
            let written = paced.saturating_sub(left.len());
            let is_refused = !left.is_empty();
            left.extend(rest);
            requests = left;
            if requests.is_empty() {
                return Ok(());
            }
            if is_refused {
                self.table.pauses().after(refusals).await;
                refusals += 1;
            }
            if round > 0 {
                let written = u64::try_from(written).unwrap_or(u64::MAX);
                self.table.pauses().up_to(written.saturating_mul(PART_MS)).await;
            }
        }
        Err(Unexpected::Endless("a write of parts").into())
    }

    /// Sends a batch once, and returns what was not written.
    async fn send_batch(&self, requests: Vec<WriteRequest>) -> Result<Vec<WriteRequest>, StoreError> {
        let call = self.table.client().batch_write_item().request_items(self.table.name(), requests.clone());
        match call.send().await {
            Ok(answer) => {
                let left = answer.unprocessed_items.and_then(|mut left| left.remove(self.table.name()));
                Ok(left.unwrap_or_default())
            }
            // Nothing of it was written.
            Err(error) if is_throttled(&error) => Ok(requests),
            Err(error) => Err(unavailable("BatchWriteItem", error)),
        }
    }

    /// The first `count` parts, joined; `None` if one is missing.
    pub(crate) async fn read_parts(
        &self,
        key: &TaskKey,
        name: &PartsName,
        count: u32,
    ) -> Result<Option<String>, StoreError> {
        self.read_texts(count, |number| keys::part(key, name, number)).await
    }

    /// The strings under the keys for the first `count` numbers, joined; `None` if one is missing.
    pub(crate) async fn read_texts(
        &self,
        count: u32,
        key: impl Fn(usize) -> ItemKey + Send + Sync,
    ) -> Result<Option<String>, StoreError> {
        let count = count as usize;
        let mut joined = String::new();
        // The count is what the item says: nothing is made for parts that may not exist.
        for first in (0..count).step_by(READ_PARTS_MAX) {
            let batch: Vec<ItemKey> = (first..count).take(READ_PARTS_MAX).map(&key).collect();
            let found = self.read_batch(&batch).await?;
            let Some(text) = join(&batch, &found)? else { return Ok(None) };
            joined.push_str(&text);
        }
        Ok(Some(joined))
    }

    pub(crate) async fn read_batch(&self, wanted: &[ItemKey]) -> Result<Vec<Item>, StoreError> {
        let keys = wanted.iter().map(ItemKey::to_item).collect();
        let request = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let mut request = request.map_err(|_incomplete| Unexpected::Incomplete("KeysAndAttributes"))?;
        let mut found = Vec::new();
        // An answer has at most 16 MB: what is left because of that is no reason to wait.
        for round in 0..ROUNDS_MAX {
            let call = self.table.client().batch_get_item().request_items(self.table.name(), request.clone());
            let progress = match call.send().await {
                Ok(answer) => {
                    let before = found.len();
                    found.extend(answer.responses.into_iter().flatten().flat_map(|(_table, items)| items));
                    match answer.unprocessed_keys.and_then(|mut left| left.remove(self.table.name())) {
                        Some(left) => request = left,
                        None => return Ok(found),
                    }
                    found.len() > before
                }
                Err(error) if is_throttled(&error) => false,
                Err(error) => return Err(unavailable("BatchGetItem", error)),
            };
            self.table.pauses().after(if progress { 0 } else { round }).await;
        }
        Err(Unexpected::Endless("a read of parts").into())
    }

    /// From when on the task's attachments may be deleted. The record is read if this store has not seen it lately. If
    /// there is no record, the attachments are not read any more.
    async fn lifetime(&self, key: &TaskKey) -> Result<Timestamp, StoreError> {
        if let Some(known) = self.lifetimes.known(key) {
            return Ok(known);
        }
        let Some(stored) = self.stored(key).await? else { return Ok(lifetimes::before_the_task(&key.id)) };
        self.lifetimes.note(&stored.task);
        Ok(lifetimes::of(&stored.task))
    }
}

/// The attributes of a journal entry.
pub(crate) fn entry_item(entry: &Entry, ttl: Timestamp) -> Item {
    let mut attributes = Item::from([
        (KIND.to_owned(), word(&entry.kind)),
        (NAME.to_owned(), text(&entry.name)),
        (VALUE.to_owned(), record::payload(&entry.value)),
        (TTL.to_owned(), seconds(ttl)),
    ]);
    attributes.extend(entry.recording.as_ref().map(|recording| (RECORDING.to_owned(), json(recording))));
    attributes
}

/// The attributes of a part.
pub(crate) fn part_item(part: &str, ttl: Timestamp) -> Item {
    Item::from([(TEXT.to_owned(), text(part)), (TTL.to_owned(), seconds(ttl))])
}

fn read_entry(item: &Item) -> Result<Entry, Unreadable> {
    let fields = Fields(item);
    Ok(Entry {
        kind: fields.word(KIND)?,
        name: fields.text(NAME)?.to_owned(),
        value: record::read_payload(fields, VALUE)?,
        recording: fields.optional(RECORDING, Fields::json)?,
    })
}

/// The strings of `parts` in `found`, joined; `None` if one is missing.
fn join(parts: &[ItemKey], found: &[Item]) -> Result<Option<String>, StoreError> {
    let mut joined = String::new();
    for part in parts {
        let item = found.iter().find(|item| Fields(item).text(SK).is_ok_and(|sk| sk == part.sk));
        let Some(item) = item else { return Ok(None) };
        joined.push_str(Fields(item).text(TEXT)?);
    }
    Ok(Some(joined))
}
