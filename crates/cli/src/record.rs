//! The history of the tasks that this machine began, in a file that only its user can read. Servers do not have a list
//! of tasks in every revision, and do not show the arguments of a task.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use longhaul::settings::{EnvSource, ProcessEnv};
use longhaul_core::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::{ARGUMENTS_BYTES_MAX, ENTRIES_MAX, LOCK_MAX, LOCK_PAUSE};
use crate::{clock, out, private};

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

/// The user's folder for state; `None` if no variable names one.
pub(crate) fn state_folder() -> Option<PathBuf> {
    Some(user_folder("XDG_STATE_HOME", ".local/state")?.join("longhaul"))
}

/// The user's folder for configuration; `None` if no variable names one.
pub(crate) fn config_folder() -> Option<PathBuf> {
    user_folder("XDG_CONFIG_HOME", ".config")
}

fn user_folder(variable: &str, at_home: &str) -> Option<PathBuf> {
    let folder = |name: &str| ProcessEnv.get(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    folder(variable).or_else(|| Some(folder("HOME")?.join(at_home)))
}

/// The file; without a folder nothing is remembered.
pub(crate) struct Record(Option<PathBuf>);

impl Record {
    /// That of this user: `longhaul/tasks.jsonl` below `XDG_STATE_HOME`, or below `.local/state` at home.
    pub(crate) fn of_user() -> Self {
        Self(state_folder().map(|folder| folder.join("tasks.jsonl")))
    }

    /// Adds a task. A failure prints a warning, and does not stop the command.
    pub(crate) async fn add(&self, entry: Entry) {
        if let Some(path) = &self.0
            && let Err(error) = add(path, &entry.cut()).await
        {
            out::say(&format!("warning: the task is not remembered on this machine: {error}"));
        }
    }

    /// All that are remembered, oldest first. Lines that cannot be read are left out.
    pub(crate) fn all(&self) -> Vec<Entry> {
        let lines = self.0.iter().flat_map(|path| lines(path));
        lines.filter_map(|line| strict_json::from_slice(&line).ok()).collect()
    }

    pub(crate) fn find(&self, server: &str, id: &str) -> Option<Entry> {
        self.all().into_iter().rev().find(|entry| entry.server == server && entry.id == id)
    }
}

/// Adds a line, and leaves out the oldest ones when there are too many. One command at a time does so: what another one
/// adds to the old file would be lost.
async fn add(path: &Path, entry: &Entry) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    private::create_folder(folder)?;
    let _held = hold(&path.with_extension("lock")).await?;
    let count = lines(path).count();
    if count >= 2 * ENTRIES_MAX {
        // Made with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        for mut line in lines(path).skip(count - ENTRIES_MAX) {
            line.push(b'\n');
            file.write_all(&line)?;
        }
        file.persist(path).map_err(|error| error.error)?;
    }
    let mut file = private::options().create(true).read(true).append(true).open(path)?;
    // A line that a full disk has cut off ends here.
    let cut = if ends_in_a_line(&mut file)? { "" } else { "\n" };
    file.write_all(format!("{cut}{}\n", serde_json::to_string(entry)?).as_bytes())
}

fn ends_in_a_line(file: &mut File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last == [b'\n'])
}

fn lines(path: &Path) -> impl Iterator<Item = Vec<u8>> {
    let file = File::open(path).ok();
    file.into_iter().flat_map(|file| BufReader::new(file).split(b'\n').map_while(Result::ok))
}

/// Waits until this command alone has a lock, and holds it until the file is dropped.
pub(crate) async fn hold(lock: &Path) -> io::Result<File> {
    let lock = private::options().create(true).append(true).open(lock)?;
    let begun = clock::instant();
    while let Err(error) = lock.try_lock() {
        if begun.elapsed() > LOCK_MAX {
            return Err(error.into());
        }
        clock::pause(LOCK_PAUSE).await;
    }
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry(number: usize) -> Entry {
        let (id, server, tool) = (number.to_string(), "http://s/mcp".to_owned(), "t".to_owned());
        Entry { id, server, session: None, tool, arguments: Some(Map::new()) }
    }

    #[tokio::test]
    async fn the_newest_are_remembered_in_a_file_that_only_the_user_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/tasks.jsonl");
        let record = Record(Some(path.clone()));
        for number in 0..2 * ENTRIES_MAX + 1 {
            add(&path, &entry(number)).await.unwrap();
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(record.all().len(), ENTRIES_MAX + 1);
        assert!(record.find("http://s/mcp", "5").is_none());
        assert_eq!(record.find("http://s/mcp", "2000").unwrap().tool, "t");
        assert!(record.find("http://other/mcp", "2000").is_none());
    }

    #[tokio::test]
    async fn commands_that_add_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.jsonl");
        for number in 0..2 * ENTRIES_MAX - 8 {
            add(&path, &entry(number)).await.unwrap();
        }
        // Each on a thread of its own, as commands are processes.
        let on_thread = |number: usize, path: PathBuf| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            std::thread::spawn(move || runtime.block_on(add(&path, &entry(number))).unwrap())
        };
        let adding: Vec<_> = (9_000..9_016).map(|number| on_thread(number, path.clone())).collect();
        adding.into_iter().for_each(|one| one.join().unwrap());
        let record = Record(Some(path));
        assert!((9_000..9_016).all(|number| record.find("http://s/mcp", &number.to_string()).is_some()));
    }

    #[tokio::test]
    async fn a_line_that_is_broken_hides_no_other_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.jsonl");
        add(&path, &entry(1)).await.unwrap();
        private::options().append(true).open(&path).unwrap().write_all(b"\xff\n{\"id\": \"cut off").unwrap();
        add(&path, &entry(2)).await.unwrap();
        assert_eq!(Record(Some(path)).all().len(), 2);
    }

    #[test]
    fn arguments_that_are_too_large_are_left_out() {
        let mut large = entry(1);
        large.arguments = Some(Map::from_iter([("a".to_owned(), "x".repeat(ARGUMENTS_BYTES_MAX).into())]));
        assert!(large.cut().arguments.is_none());
        assert!(entry(1).cut().arguments.is_some());
    }
}
