//! Attachments, stored outside the record: journal entries and parts.

use longhaul_core::ports::Recorded;
use longhaul_core::{Entry, EntryKind, PartsName, TaskKey, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::DatabaseError;
use crate::sql::{execute, moment};

/// Records `entry`, unless there is one of its kind and name.
pub(crate) fn record(
    connection: &Connection,
    key: &TaskKey,
    entry: &Entry,
    now: Timestamp,
) -> Result<Recorded, DatabaseError> {
    let (owner, id, kind) = (key.owner.as_bytes(), key.id.as_bytes(), entry.kind.as_str());
    let mut statement = connection.prepare_cached(
        "SELECT value, recording FROM journal WHERE owner = ?1 AND id = ?2 AND kind = ?3 AND name = ?4",
    )?;
    let earlier: Option<(String, Option<String>)> =
        statement.query_row(params![owner, id, kind, entry.name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((value, recording)) = earlier {
        return Ok(Recorded::Earlier(read(entry.kind, entry.name.clone(), &value, recording.as_deref())?));
    }
    let value = serde_json::to_string(&entry.value)?;
    let recording = entry.recording.as_ref().map(serde_json::to_string).transpose()?;
    execute(
        connection,
        "INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![owner, id, kind, entry.name, value, recording],
    )?;
    note_if_orphan(connection, key, now)?;
    Ok(Recorded::First)
}

pub(crate) fn journal(connection: &Connection, key: &TaskKey) -> Result<Vec<Entry>, DatabaseError> {
    let mut statement =
        connection.prepare_cached("SELECT kind, name, value, recording FROM journal WHERE owner = ?1 AND id = ?2")?;
    let rows = statement.query_map(params![key.owner.as_bytes(), key.id.as_bytes()], |row| {
        Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, String>(2)?, row.get::<_, Option<String>>(3)?))
    })?;
    let mut entries = Vec::new();
    for row in rows {
        let (kind, name, value, recording) = row?;
        entries.push(read(serde_json::from_value(kind.into())?, name, &value, recording.as_deref())?);
    }
    Ok(entries)
}

fn read(kind: EntryKind, name: String, value: &str, recording: Option<&str>) -> Result<Entry, serde_json::Error> {
    let recording = recording.map(serde_json::from_str).transpose()?;
    Ok(Entry { kind, name, value: serde_json::from_str(value)?, recording })
}

/// Writes `parts` under `name`, replacing all that were there.
pub(crate) fn put_parts(
    connection: &Connection,
    key: &TaskKey,
    name: &PartsName,
    parts: &[String],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let (owner, id, name) = (key.owner.as_bytes(), key.id.as_bytes(), name.to_string());
    execute(connection, "DELETE FROM parts WHERE owner = ?1 AND id = ?2 AND name = ?3", params![owner, id, name])?;
    for (number, part) in (0_i64..).zip(parts) {
        execute(
            connection,
            "INSERT INTO parts (owner, id, name, number, part) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![owner, id, name, number, part],
        )?;
    }
    note_if_orphan(connection, key, now)
}

/// The first `count` parts under `name`, joined; `None` if one is missing.
pub(crate) fn parts(
    connection: &Connection,
    key: &TaskKey,
    name: &PartsName,
    count: u32,
) -> Result<Option<String>, DatabaseError> {
    let mut statement = connection.prepare_cached(
        "SELECT part FROM parts WHERE owner = ?1 AND id = ?2 AND name = ?3 AND number < ?4 ORDER BY number",
    )?;
    let values = params![key.owner.as_bytes(), key.id.as_bytes(), name.to_string(), count];
    let mut rows = statement.query(values)?;
    let mut joined = String::new();
    let mut found = 0;
    while let Some(row) = rows.next()? {
        joined.push_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        found += 1;
    }
    Ok((found == count).then_some(joined))
}

/// Notes attachments without a record, so that they can be found if no record is ever written.
fn note_if_orphan(connection: &Connection, key: &TaskKey, now: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "INSERT OR IGNORE INTO orphans SELECT ?1, ?2, ?3 \
         WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE owner = ?1 AND id = ?2)",
        params![key.owner.as_bytes(), key.id.as_bytes(), moment(now)],
    )
}
