//! Records as the table has them: tasks as JSON, without the keys that their rows have anyway. So two records of usual
//! size share a page.

use std::fmt::Write as _;

use longhaul_core::{Task, TaskKey};
use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};

use crate::DatabaseError;

pub(crate) fn text(task: &Task) -> Result<String, DatabaseError> {
    let mut text = serde_json::to_string(task)?;
    let named = named(&task.key());
    if text.starts_with(&named) {
        text.replace_range(..named.len(), "{");
    }
    Ok(text)
}

/// How a record begins that a later version of this program has written in another format, with the name of that
/// format. The records of this version do not begin so.
const FORMAT: &str = r#"{"format":"#;

/// The first column of a row, which should be a record.
pub(crate) fn column(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(0)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Vec::new(),
    })
}

/// The task under `key`, of which this is the record. Records of older versions name their key.
pub(crate) fn task(record: &[u8], key: &TaskKey) -> Result<Task, DatabaseError> {
    let record = str::from_utf8(record)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))?;
    if let Some(rest) = record.strip_prefix(FORMAT) {
        let format = rest.split([',', '}']).next().unwrap_or_default();
        return Err(DatabaseError::Newer(format.to_owned()));
    }
    let mut named = named(key);
    match record.strip_prefix('{') {
        Some(rest) if !record.starts_with(OWNER) => {
            named.push_str(rest);
            Ok(serde_json::from_str(&named)?)
        }
        Some(_) | None => Ok(serde_json::from_str(record)?),
    }
}

const OWNER: &str = r#"{"owner":"#;

/// How a task's JSON begins.
fn named(key: &TaskKey) -> String {
    let mut named = String::with_capacity(1_024);
    named.push_str(OWNER);
    // A string takes all that is written.
    let _infallible = write!(named, r#""{}","id":"{}","#, key.owner, key.id);
    named
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::SeededIds;
    use longhaul_testkit::given::{self, NOW, owner};

    use super::*;

    #[test]
    fn a_record_leaves_out_its_key_and_comes_back_whole() {
        let queued = given::task(&SeededIds::new(1), owner("alice"), NOW);
        let running = queued.apply(&given::claim(1, NOW), NOW).unwrap();
        for task in [queued, running] {
            let record = text(&task).unwrap();
            assert!(!record.contains(&task.id.to_string()) && record.starts_with(r#"{"tool":"#), "{record}");
            assert_eq!(super::task(record.as_bytes(), &task.key()).unwrap(), task);
        }
    }

    #[test]
    fn a_record_of_an_older_version_is_read() {
        let task = given::task(&SeededIds::new(1), owner("alice"), NOW);
        let record = serde_json::to_string(&task).unwrap();
        assert_eq!(super::task(record.as_bytes(), &task.key()).unwrap(), task);
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        let key = given::task(&SeededIds::new(1), owner("alice"), NOW).key();
        for record in ["", "{", "{}", "[]", "null", r#"{"owner":1}"#] {
            assert!(matches!(task(record.as_bytes(), &key), Err(DatabaseError::Corrupt(_))), "{record}");
        }
    }
}
