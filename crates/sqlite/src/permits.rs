//! The permits of attempts, and the tasks that wait for one. Only one process runs the attempts of a database. So they
//! need not be durable when they are answered, and are all free when the next process begins.

use async_trait::async_trait;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, StoreError, Taken};
use longhaul_core::{GroupPermits, LeaseToken, PermitGroup, TaskKey, Timestamp, Turn, WaitingTask};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use crate::sql::{execute, key_in, moment};
use crate::{DatabaseError, SqliteStore};

/// The permits of a group.
pub(crate) const TAKEN: &str =
    "SELECT owner, id, lease, since, until FROM permits WHERE kind = ?1 AND of = ?2 AND lease IS NOT NULL";

/// The tasks that wait for a permit of a group.
pub(crate) const WAITING: &str =
    "SELECT owner, id, priority, since, until FROM permits WHERE kind = ?1 AND of = ?2 AND lease IS NULL";

/// Forgets what has expired.
pub(crate) const FORGET: &str = "DELETE FROM permits WHERE until <= ?1";

const PUT: &str = "REPLACE INTO permits (kind, of, owner, id, lease, priority, since, until) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

const DELETE: &str = "DELETE FROM permits WHERE kind = ?1 AND of = ?2 AND owner = ?3 AND id = ?4";

/// The permits of this kind do not end with the attempt.
const BEGUN: u8 = 2;

/// Gives back the permits of all attempts. No attempt runs.
pub(crate) fn give_back_all(connection: &Connection) -> Result<(), DatabaseError> {
    execute(connection, "DELETE FROM permits WHERE kind <> ?1", [BEGUN])
}

/// A group, as its rows name it.
#[derive(Clone, Copy)]
struct Rows<'a> {
    connection: &'a Connection,
    group: PermitGroup,
}

impl Rows<'_> {
    fn columns(&self) -> (u8, &[u8; 32]) {
        match &self.group {
            PermitGroup::Owner(owner) => (0, owner.as_bytes()),
            PermitGroup::Running(hash) => (1, hash),
            PermitGroup::Begun(hash) => (BEGUN, hash),
        }
    }

    /// Reads the group, changes it, and writes what has changed.
    fn change<T>(self, now: Timestamp, change: impl FnOnce(&mut GroupPermits) -> T) -> Result<T, DatabaseError> {
        execute(self.connection, FORGET, [moment(now)])?;
        let before = self.read()?;
        let mut after = before.clone();
        let answer = change(&mut after);
        let gone = before.taken.iter().filter(|held| !after.taken.contains(held)).map(|held| held.task);
        let unnoted = before.waiting.iter().filter(|waiting| !after.waiting.contains(waiting)).map(|noted| noted.task);
        for task in gone.chain(unnoted) {
            let (kind, of) = self.columns();
            execute(self.connection, DELETE, params![kind, of, task.owner.as_bytes(), task.id.as_bytes()])?;
        }
        for held in after.taken.iter().filter(|held| !before.taken.contains(held)) {
            self.put(held.task, Some(held.lease.to_string()), 0, (held.since, held.until))?;
        }
        for noted in after.waiting.iter().filter(|noted| !before.waiting.contains(noted)) {
            self.put(noted.task, None, noted.turn.priority, (noted.turn.since, noted.until))?;
        }
        Ok(answer)
    }

    fn put(
        self,
        task: TaskKey,
        lease: Option<String>,
        priority: u8,
        (since, until): (Timestamp, Timestamp),
    ) -> Result<(), DatabaseError> {
        let ((kind, of), owner, id) = (self.columns(), task.owner, task.id);
        let values = params![kind, of, owner.as_bytes(), id.as_bytes(), lease, priority, moment(since), moment(until)];
        execute(self.connection, PUT, values)
    }

    fn read(self) -> Result<GroupPermits, DatabaseError> {
        let (kind, of) = self.columns();
        let mut taken = self.connection.prepare_cached(TAKEN)?;
        let taken = taken.query_map(params![kind, of], |row| {
            let (task, lease): (_, String) = (key_in(row, 0, 1)?, row.get(2)?);
            let unreadable = || rusqlite::Error::FromSqlConversionFailure(2, Type::Text, "not a lease".into());
            let lease = LeaseToken::parse(&lease).ok_or_else(unreadable)?;
            let (since, until) = (at(row, 3)?, at(row, 4)?);
            Ok(AttemptPermit { group: self.group, task, lease, since, until, turn: None })
        })?;
        let taken = taken.collect::<rusqlite::Result<_>>()?;
        let mut waiting = self.connection.prepare_cached(WAITING)?;
        let waiting = waiting.query_map(params![kind, of], |row| {
            let turn = Turn { priority: row.get(2)?, since: at(row, 3)? };
            Ok(WaitingTask { task: key_in(row, 0, 1)?, turn, until: at(row, 4)? })
        })?;
        Ok(GroupPermits { taken, waiting: waiting.collect::<rusqlite::Result<_>>()? })
    }
}

fn at(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(|at: i64| Timestamp::from_ms(u64::try_from(at).unwrap_or(0)))
}

impl SqliteStore {
    async fn change_permits<T: Send + 'static>(
        &self,
        group: PermitGroup,
        now: Timestamp,
        change: impl FnOnce(&mut GroupPermits) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let change = move |connection: &_| Rows { connection, group }.change(now, change);
        Ok(self.shared.writer.call_before_commit(change).await?)
    }
}

#[async_trait]
impl AttemptPermits for SqliteStore {
    async fn take(&self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        let permit = *permit;
        self.change_permits(permit.group, now, move |group| group.take(&permit, None, attempts_max, now)).await
    }

    async fn take_over(
        &self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let (permit, held) = (*permit, *held);
        let take = move |group: &mut GroupPermits| group.take(&permit, Some(&held), attempts_max, now);
        self.change_permits(permit.group, now, take).await
    }

    async fn give_back(&self, permit: &AttemptPermit, now: Timestamp) -> Result<Option<TaskKey>, StoreError> {
        let permit = *permit;
        self.change_permits(permit.group, now, move |group| group.give_back(&permit, now)).await
    }
}
