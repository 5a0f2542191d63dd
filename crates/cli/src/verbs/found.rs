//! Tasks by their ids, and what this machine knows of them.

use std::sync::Arc;

use longhaul_client::{Client, Error, Task};

use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::follow::Watched;
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
