//! What this machine remembers of the tasks that it began, in a file that only its user can read: servers have no list
//! of tasks in every revision, and do not show what a task was called with.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use longhaul::settings::{EnvSource, ProcessEnv};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::out;

/// So many tasks are remembered. Twice as many are in the file at most.
const ENTRIES_MAX: usize = 1_000;

/// Larger arguments are not remembered, in bytes.
const ARGUMENTS_BYTES_MAX: usize = 64 << 10;

/// A task that this machine began.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    /// The URL of its server.
    pub(crate) server: String,
    /// The session that began it, if its server has sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    pub(crate) tool: String,
    /// `None` if they were too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Map<String, Value>>,
}

impl Entry {
    /// Without arguments that are too large.
    pub(crate) fn cut(mut self) -> Self {
        let length = serde_json::to_string(&self.arguments).map_or(0, |text| text.len());
        self.arguments = self.arguments.filter(|_| length <= ARGUMENTS_BYTES_MAX);
        self
    }
}

/// Where this user's things are kept; `None` if nobody says where.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let folder = |name: &str| ProcessEnv.get(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    Some(state?.join("longhaul"))
}

/// The file; nothing is remembered if nobody says where.
pub(crate) struct Record(Option<PathBuf>);

impl Record {
    /// That of this user: `longhaul/tasks.jsonl` below `XDG_STATE_HOME`, or below `.local/state` at home.
    pub(crate) fn of_user() -> Self {
        Self(state_folder().map(|folder| folder.join("tasks.jsonl")))
    }

    /// Adds a task. One that cannot be added is said, and is no reason to stop.
    pub(crate) fn add(&self, entry: Entry) {
        if let Err(error) = self.try_add(&entry.cut()) {
            out::say(&format!("warning: the task is not remembered on this machine: {error}"));
        }
    }

    fn try_add(&self, entry: &Entry) -> std::io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let before = self.all();
        if before.len() >= 2 * ENTRIES_MAX {
            let kept = before.into_iter().skip(ENTRIES_MAX);
            let folder = path.parent().unwrap_or(path);
            // Made with mode 0600.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            for entry in kept {
                writeln!(file, "{}", serde_json::to_string(&entry)?)?;
            }
            file.persist(path).map_err(|error| error.error)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        // In one write, so that another command's line does not come in between.
        file.write_all(format!("{}\n", serde_json::to_string(entry)?).as_bytes())
    }

    /// All that are remembered, oldest first. Lines that cannot be read are left out.
    pub(crate) fn all(&self) -> Vec<Entry> {
        let file = self.0.as_ref().and_then(|path| File::open(path).ok());
        let lines = file.into_iter().flat_map(|file| BufReader::new(file).lines().map_while(Result::ok));
        lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    pub(crate) fn find(&self, server: &str, id: &str) -> Option<Entry> {
        self.all().into_iter().rev().find(|entry| entry.server == server && entry.id == id)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry(number: usize) -> Entry {
        let (id, server, tool) = (number.to_string(), "http://s/mcp".to_owned(), "t".to_owned());
        Entry { id, server, session: None, tool, arguments: Some(Map::new()) }
    }

    #[test]
    fn the_newest_are_remembered_in_a_file_that_only_the_user_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/tasks.jsonl");
        let record = Record(Some(path.clone()));
        (0..2 * ENTRIES_MAX + 1).for_each(|number| record.try_add(&entry(number)).unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(record.all().len(), ENTRIES_MAX + 1);
        assert!(record.find("http://s/mcp", "5").is_none());
        assert_eq!(record.find("http://s/mcp", "2000").unwrap().tool, "t");
        assert!(record.find("http://other/mcp", "2000").is_none());
    }

    #[test]
    fn arguments_that_are_too_large_are_left_out() {
        let mut large = entry(1);
        large.arguments = Some(Map::from_iter([("a".to_owned(), "x".repeat(ARGUMENTS_BYTES_MAX).into())]));
        assert!(large.cut().arguments.is_none());
        assert!(entry(1).cut().arguments.is_some());
    }
}
