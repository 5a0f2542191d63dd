//! Mailboxes: one item each, and separate parts if the text is too large for an item.

use longhaul_core::ports::{Left, StoreError};
use longhaul_core::{MailboxId, OwnerId, Timestamp, limits, split};

use crate::error::{Unexpected, Written};
use crate::item::{COUNT, EXPIRES_AT, Fields, Item, PARTS, TEXT, TTL, Unreadable, moment, number, seconds, text};
use crate::keys::{self, ItemKey};
use crate::store::DynamoStore;
use crate::{expressions, lifetimes};

impl DynamoStore {
    /// Leaves a text, unless the mailbox has one that has not expired. The parts of a large text are written before the
    /// item that names them. They are not written if there is a text already: nothing would name them.
    pub(crate) async fn leave_text(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        left: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        let key = keys::mailbox(owner, mailbox);
        if left.len() > limits::PART_BYTES
            && let Some(earlier) = self.collect_text(owner, mailbox, now).await?
        {
            return Ok(Left::Earlier(earlier));
        }
        let mut item = key.with(self.text_attributes(&key, left, expires_at).await?);
        item.insert(EXPIRES_AT.to_owned(), moment(expires_at));
        item.insert(TTL.to_owned(), seconds(expires_at));
        match self.table.put(item, expressions::empty_mailbox(now)).await? {
            Written::Done(()) => Ok(Left::First),
            Written::Refused(Some(item)) => Ok(Left::Earlier(self.text_of(&key, &item).await?)),
            // Deleted between the refusal and its answer: it has just expired.
            Written::Refused(None) => Err(Unexpected::Contended.into()),
        }
    }

    pub(crate) async fn collect_text(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let key = keys::mailbox(owner, mailbox);
        let item = self.table.get(&key).await?;
        self.text_in(&key, item.as_ref(), now).await
    }

    /// The text of a mailbox's item, unless it has expired.
    pub(crate) async fn text_in(
        &self,
        key: &ItemKey,
        item: Option<&Item>,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        match item {
            Some(item) if Fields(item).moment(EXPIRES_AT)? > now => self.text_of(key, item).await.map(Some),
            Some(_) | None => Ok(None),
        }
    }

    async fn text_attributes(&self, key: &ItemKey, left: &str, expires_at: Timestamp) -> Result<Item, StoreError> {
        if left.len() <= limits::PART_BYTES {
            return Ok(Item::from([(TEXT.to_owned(), text(left))]));
        }
        let (name, parts) = (keys::mailbox_parts_name(left, expires_at), split(left, limits::PART_BYTES));
        let ttl = lifetimes::of_parts_until(expires_at);
        self.write_texts(&parts, ttl, |part| keys::mailbox_part(key, &name, part)).await?;
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        Ok(Item::from([(PARTS.to_owned(), text(name)), (COUNT.to_owned(), number(count))]))
    }

    async fn text_of(&self, key: &ItemKey, item: &Item) -> Result<String, StoreError> {
        let fields = Fields(item);
        if !fields.has(PARTS) {
            return Ok(fields.text(TEXT)?.to_owned());
        }
        let name = fields.text(PARTS)?;
        let joined = self.read_texts(fields.number(COUNT)?, |part| keys::mailbox_part(key, name, part)).await?;
        Ok(joined.ok_or(Unreadable { attribute: PARTS })?)
    }
}
