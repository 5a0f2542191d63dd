//! Mailboxes: messages that expire on their own. The first message left in a mailbox stays.

use longhaul_core::ports::Left;
use longhaul_core::{MailboxId, OwnerId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::DatabaseError;
use crate::sql::moment;

/// Reads a mailbox whose text has not expired.
pub(crate) const COLLECT: &str = "SELECT text FROM mailboxes WHERE owner = ?1 AND mailbox = ?2 AND expires_at > ?3";

/// Leaves `text`, unless the mailbox has a text that has not expired.
pub(crate) fn leave(
    connection: &Connection,
    owner: &OwnerId,
    mailbox: &MailboxId,
    text: &str,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<Left, DatabaseError> {
    if let Some(earlier) = collect(connection, owner, mailbox, now)? {
        return Ok(Left::Earlier(earlier));
    }
    let mut statement = connection
        .prepare_cached("REPLACE INTO mailboxes (owner, mailbox, expires_at, text) VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute(params![owner.as_bytes(), mailbox.as_bytes(), moment(expires_at), text])?;
    Ok(Left::First)
}

/// The text in the mailbox, unless it has expired.
pub(crate) fn collect(
    connection: &Connection,
    owner: &OwnerId,
    mailbox: &MailboxId,
    now: Timestamp,
) -> Result<Option<String>, DatabaseError> {
    let mut statement = connection.prepare_cached(COLLECT)?;
    let values = params![owner.as_bytes(), mailbox.as_bytes(), moment(now)];
    Ok(statement.query_row(values, |row| row.get(0)).optional()?)
}
