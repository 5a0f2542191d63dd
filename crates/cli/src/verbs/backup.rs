//! A copy of the database file of a server.

use std::path::Path;

use longhaul_sqlite::{BackupError, back_up};
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::out;

/// `longhaul backup`.
pub(crate) fn run(global: &Global, db: &Path, to: &Path) -> Result<Exit, Stop> {
    let backup =
        back_up(db, to).map_err(|error| Stop::new(exit(&error), format!("{:#}", anyhow::Error::from(error))))?;
    if backup.may_lack_tasks {
        out::say(&format!("{} is itself a copy without its log: the latest tasks may be missing", db.display()));
    }
    if global.json {
        out::json(&json!({"file": to.to_string_lossy(), "tasks": backup.tasks}))?;
    } else {
        let tasks = if backup.tasks == 1 { "task" } else { "tasks" };
        out::result(&format!("{} holds {} {tasks}", to.display(), backup.tasks))?;
    }
    Ok(Exit::Well)
}

const fn exit(error: &BackupError) -> Exit {
    match error {
        BackupError::NoDatabase(_) | BackupError::Exists(_) | BackupError::Name(_) => Exit::Usage,
        BackupError::Unreadable { .. } | BackupError::Unwritable { .. } | BackupError::Unsound(_) => Exit::Failed,
    }
}
