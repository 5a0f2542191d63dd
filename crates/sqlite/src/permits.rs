//! The permits of attempts. Only one process runs the attempts of a database. So they need not be durable when they are
//! answered, and are all free when the next process begins.

use async_trait::async_trait;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, StoreError, Taken};
use longhaul_core::{LeaseToken, PermitGroup, Timestamp};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sql::{execute, moment};
use crate::{DatabaseError, SqliteStore};

/// How many permits of a group are taken.
pub(crate) const COUNT: &str = "SELECT count(*) FROM permits WHERE kind = ?1 AND of = ?2";

/// Forgets the permits that have expired.
pub(crate) const FORGET: &str = "DELETE FROM permits WHERE until <= ?1";

const HELD: &str =
    "SELECT lease, since, until FROM permits WHERE kind = ?1 AND of = ?2 AND owner = ?3 AND id = ?4";

const TAKE: &str = "REPLACE INTO permits (kind, of, owner, id, lease, since, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const GIVE_BACK: &str =
    "DELETE FROM permits WHERE kind = ?1 AND of = ?2 AND owner = ?3 AND id = ?4 AND lease = ?5";

/// The permits of this kind do not end with the attempt.
const BEGUN: u8 = 2;

/// Gives back the permits of all attempts. No attempt runs.
pub(crate) fn give_back_all(connection: &Connection) -> Result<(), DatabaseError> {
    execute(connection, "DELETE FROM permits WHERE kind <> ?1", [BEGUN])
}

fn columns(group: &PermitGroup) -> (u8, &[u8; 32]) {
    match group {
        PermitGroup::Owner(owner) => (0, owner.as_bytes()),
        PermitGroup::Running(hash) => (1, hash),
        PermitGroup::Begun(hash) => (BEGUN, hash),
    }
}

/// Takes a permit; that of another attempt of the same task only if it is `yielded`.
fn take(
    connection: &Connection,
    permit: &AttemptPermit,
    yielded: Option<&AttemptPermit>,
    max: u32,
    now: Timestamp,
) -> Result<Taken, DatabaseError> {
    execute(connection, FORGET, [moment(now)])?;
    let (kind, of) = columns(&permit.group);
    let (owner, id) = (permit.task.owner.as_bytes(), permit.task.id.as_bytes());
    let held = connection.prepare_cached(HELD)?.query_row(params![kind, of, owner, id], |row| held(row, permit));
    match held.optional()? {
        Some(held) if held.lease == permit.lease => return Ok(Taken::Permit),
        Some(held) if Some(&held) != yielded => return Ok(Taken::Held(held)),
        Some(_) => {}
        None => {
            let taken: u32 = connection.prepare_cached(COUNT)?.query_row(params![kind, of], |row| row.get(0))?;
            if taken >= max {
                return Ok(Taken::Full);
            }
        }
    }
    let (since, until) = (moment(permit.since), moment(permit.until));
    execute(connection, TAKE, params![kind, of, owner, id, permit.lease.to_string(), since, until])?;
    Ok(Taken::Permit)
}

/// The permit of the same task in a row.
fn held(row: &Row<'_>, permit: &AttemptPermit) -> rusqlite::Result<AttemptPermit> {
    let lease: String = row.get(0)?;
    let unreadable = || rusqlite::Error::FromSqlConversionFailure(0, Type::Text, "not a lease".into());
    let at = |column| row.get(column).map(|at: i64| Timestamp::from_ms(u64::try_from(at).unwrap_or(0)));
    let lease = LeaseToken::parse(&lease).ok_or_else(unreadable)?;
    Ok(AttemptPermit { lease, since: at(1)?, until: at(2)?, ..*permit })
}

#[async_trait]
impl AttemptPermits for SqliteStore {
    async fn take(&self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        let permit = *permit;
        let taken = move |connection: &_| take(connection, &permit, None, attempts_max, now);
        Ok(self.shared.writer.call_before_commit(taken).await?)
    }

    async fn take_over(
        &self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let (permit, held) = (*permit, *held);
        let taken = move |connection: &_| take(connection, &permit, Some(&held), attempts_max, now);
        Ok(self.shared.writer.call_before_commit(taken).await?)
    }

    async fn give_back(&self, permit: &AttemptPermit) -> Result<(), StoreError> {
        let permit = *permit;
        let given_back = move |connection: &_| {
            let ((kind, of), task) = (columns(&permit.group), permit.task);
            let values = params![kind, of, task.owner.as_bytes(), task.id.as_bytes(), permit.lease.to_string()];
            execute(connection, GIVE_BACK, values)
        };
        Ok(self.shared.writer.call_before_commit(given_back).await?)
    }
}
