//! All that one owner has in the database file of a server, erased.

use std::path::Path;

use longhaul_core::OwnerId;
use longhaul_sqlite::EraseError;
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::out;

/// `longhaul erase`.
pub(crate) async fn run(global: &Global, db: &Path, owner: OwnerId) -> Result<Exit, Stop> {
    let erased = longhaul_sqlite::erase(db, owner).await;
    let tasks = erased.map_err(|error| Stop::new(exit(&error), format!("{:#}", anyhow::Error::from(error))))?;
    if global.json {
        out::json(&json!({"file": db.to_string_lossy(), "owner": owner, "tasks": tasks}))?;
    } else {
        let word = if tasks == 1 { "task" } else { "tasks" };
        out::result(&format!("erased {tasks} {word} of {owner} from {}", db.display()))?;
    }
    Ok(Exit::Well)
}

const fn exit(error: &EraseError) -> Exit {
    match error {
        EraseError::NoDatabase(_) => Exit::Usage,
        EraseError::NotOpened { .. } | EraseError::Failed(_) => Exit::Failed,
    }
}
