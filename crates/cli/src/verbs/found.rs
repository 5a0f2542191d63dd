//! Tasks by their ids, and what this machine knows of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul_client::{Client, Error, Target, Task};

use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::follow::Watched;
use crate::limits::{ID_PREFIX_CHARS_MIN, WHOLE_ID_CHARS};
use crate::out::line;
use crate::record::{Entry, Record};
use crate::server::{Sessions, connected, target, unconnected};

/// Some tasks of one server, each with a connection in the session that began it if this machine did.
pub(super) struct Tasks {
    pub(super) watched: Vec<Watched>,
    /// The entry of each in the history of this machine.
    pub(super) known: Vec<Option<Entry>>,
    pub(super) sessions: Sessions,
}

impl Tasks {
    /// Connects to their server, by `connect` for each session.
    pub(super) async fn connect(
        sessions: Sessions,
        ids: &[String],
        connect: impl AsyncFn(&mut Sessions, Option<&str>) -> Result<Arc<Client>, Error>,
    ) -> Result<Self, Stop> {
        let (record, mut sessions) = (Record::of_user(), sessions);
        let known: Vec<Option<Entry>> = ids.iter().map(|id| record.find(sessions.target.url.as_str(), id)).collect();
        let mut watched = Vec::new();
        for (id, known) in ids.iter().zip(&known) {
            let session = known.as_ref().and_then(|entry| entry.session.as_deref());
            let client = connect(&mut sessions, session).await;
            let client = client.map_err(|error| unconnected(&sessions.target, error))?;
            watched.push(Watched { id: id.clone(), client });
        }
        Ok(Self { watched, known, sessions })
    }
}

/// The task that this machine began last.
const LAST: &str = "@last";

/// The ids of the tasks that the user names by whole ids, by the beginning of an id, or by `@last`. Whole ids of tasks
/// need no server here, which may be away.
pub(super) async fn whole_ids(global: &Global, given: &[String]) -> Result<Vec<String>, Stop> {
    if given.iter().all(|id| id.len() >= WHOLE_ID_CHARS) {
        return Ok(given.to_vec());
    }
    let target = target(global)?;
    let mut begun = Record::of_user().all();
    begun.retain(|entry| entry.server == target.url.as_str());
    let begun: Vec<String> = begun.into_iter().map(|entry| entry.id).collect();
    let is_settled = |id: &String| id.len() >= WHOLE_ID_CHARS || id == LAST || begun.contains(id);
    let listed = if given.iter().all(is_settled) { None } else { listed_ids(&target).await? };
    let find = |id: &String| match id.as_str() {
        LAST => begun.last().cloned().ok_or_else(|| {
            Stop::usage("this machine remembers no task of this server: `longhaul tasks` lists the server's tasks")
        }),
        _ if is_settled(id) => Ok(id.clone()),
        _ => find_by_beginning(id, listed.as_deref(), &begun),
    };
    given.iter().map(find).collect()
}

/// The ids of all tasks of the caller; `None` if the server has no list.
async fn listed_ids(target: &Target) -> Result<Option<Vec<String>>, Stop> {
    connected(target, None, async |client| match client.tasks().await {
        Err(Error::Unsupported(_)) => Ok(None),
        tasks => Ok(Some(tasks?.into_iter().map(|task| task.id).collect())),
    })
    .await
}

/// The one id that begins so. The server of a text that fits nothing is called with it only if it has no list.
fn find_by_beginning(text: &str, listed: Option<&[String]>, begun: &[String]) -> Result<String, Stop> {
    let all: BTreeSet<&String> = listed.unwrap_or(begun).iter().collect();
    let is_long = text.chars().count() >= ID_PREFIX_CHARS_MIN;
    let found: Vec<&str> =
        all.iter().filter(|id| **id == text || (is_long && id.starts_with(text))).map(|id| id.as_str()).collect();
    match found.as_slice() {
        ids if ids.contains(&text) => Ok(text.to_owned()),
        [id] => Ok((*id).to_owned()),
        [] if listed.is_none() => Ok(text.to_owned()),
        [] if !is_long => Err(Stop::usage(format!(
            "no task has the id `{}`: write at least {ID_PREFIX_CHARS_MIN} characters of an id; `longhaul tasks` lists \
             the tasks",
            line(text)
        ))),
        [] => Err(Stop::usage(format!(
            "no task has an id that begins with `{}`: `longhaul tasks` lists the tasks",
            line(text)
        ))),
        [first, .., last] => Err(Stop::usage(format!(
            "{} tasks have an id that begins with `{}`, from {} to {}: write more of the id",
            found.len(),
            line(text),
            line(first),
            line(last)
        ))),
    }
}

/// Runs `act` with one task, and with the entry of this machine's history for it.
pub(super) async fn one<T>(
    global: &Global,
    id: &str,
    act: impl AsyncFnOnce(&Client, Task, Option<Entry>) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let target = target(global)?;
    let known = Record::of_user().find(target.url.as_str(), id);
    let session = known.as_ref().and_then(|entry| entry.session.clone());
    connected(&target, session.as_deref(), async |client| {
        let task = client.task(id).await.map_err(|error| not_found(error.into(), id, known.as_ref()))?;
        act(client, task, known).await
    })
    .await
}

/// A task that this machine began, and that is not found, has expired.
pub(super) fn not_found(stop: Stop, id: &str, known: Option<&Entry>) -> Stop {
    match (stop.exit, known) {
        (Exit::Usage, Some(_)) => Stop::new(Exit::Cancelled, format!("the task {id} has expired: {}", stop.why)),
        (Exit::Usage, None) => Stop::usage(format!("the task {id} is not known: {}", stop.why)),
        _ => stop,
    }
}
