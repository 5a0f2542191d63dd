//! What each verb does.

use std::ffi::OsString;
use std::sync::Arc;

use clap::CommandFactory;
use longhaul::settings::{EnvSource, ProcessEnv};
use longhaul_client::{Client, Error, Task, TaskFilter};

use crate::args::{Cli, Global, Verb};
use crate::bridge;
use crate::credentials::{login, logout};
use crate::exit::{Exit, Stop};
use crate::follow::Watched;
use crate::out;
use crate::record::{Entry, Record};
use crate::server::{Sessions, connected, target, unconnected, without_credentials};

mod backup;
mod call;
mod console;
mod ends;
mod tasks;

pub(crate) async fn run(cli: Cli) -> Result<Exit, Stop> {
    let global = &cli.global;
    match cli.verb {
        Verb::Tools { name } => call::tools(global, name.as_deref()).await,
        Verb::Call { tool, given, how } => call::call(global, &tool, &given, &how).await,
        Verb::Again { id, how } => call::again(global, &id, &how).await,
        Verb::Tasks { status, tool, watch } => {
            let filter = TaskFilter { statuses: status, tool };
            if watch { tasks::watch(global, &filter).await } else { tasks::list(global, &filter).await }
        }
        Verb::Show { id, journal: false } => tasks::show(global, &id).await,
        Verb::Show { id, journal: true } => tasks::inspect(global, &id).await,
        Verb::Watch { ids, wait } => ends::watch(global, &ids, wait).await,
        Verb::Result { id, output } => ends::result(global, &id, output.as_deref()).await,
        Verb::Answer { id, decline: true, question, .. } => ends::refuse(global, &id, question.as_deref()).await,
        Verb::Answer { id, given, question, .. } => ends::give(global, &id, &given, question.as_deref()).await,
        Verb::Cancel { ids } => ends::cancel(global, &ids).await,
        Verb::Backup { to, db } => backup::run(global, &db, &to),
        Verb::Console(flags) => console::run(global, flags).await,
        Verb::Login { how } => {
            let secret = ProcessEnv.get("LONGHAUL_CLIENT_SECRET").filter(|secret| !secret.is_empty());
            let secret = secret.map(OsString::into_string).transpose();
            let secret = secret.map_err(|_not| Stop::usage("LONGHAUL_CLIENT_SECRET is not UTF-8"))?;
            let again = format!("longhaul login{}", come_back(global));
            login(without_credentials(global)?, &how, secret, &again).await
        }
        Verb::Logout => logout(&without_credentials(global)?.url).await,
        Verb::Bridge { to } => {
            let named = Global { server: to.unwrap_or_else(|| global.server.clone()), ..global.clone() };
            bridge::run(target(&named)?).await
        }
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "longhaul", &mut script);
            out::raw(&String::from_utf8_lossy(&script)).map(|()| Exit::Well)
        }
        Verb::Local { .. } => Err(Stop::usage("`local` is now `demo`: run longhaul demo …")),
        Verb::Demo { .. } => Err(Stop::usage("`demo` comes before all flags: longhaul demo …")),
        Verb::Gateway { .. } => Err(Stop::usage("`gateway` comes before all flags: longhaul gateway …")),
    }
}

/// Some tasks of one server, each with a connection in the session that began it if this machine did.
struct Tasks {
    watched: Vec<Watched>,
    /// What this machine knows of each.
    known: Vec<Option<Entry>>,
    sessions: Sessions,
}

impl Tasks {
    /// Connects to their server, by `connect` for each session.
    async fn connect(
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

/// Does something with one task, and with what this machine knows of it.
async fn one<T>(
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
fn not_found(stop: Stop, id: &str, known: Option<&Entry>) -> Stop {
    match (stop.exit, known) {
        (Exit::Usage, Some(_)) => Stop::new(Exit::Cancelled, format!("the task {id} has expired: {}", stop.why)),
        (Exit::Usage, None) => Stop::usage(format!("the task {id} is not known: {}", stop.why)),
        _ => stop,
    }
}

/// What is added to a verb, so that it finds the same server.
pub(crate) fn come_back(global: &Global) -> String {
    if global.server == DEFAULT { String::new() } else { format!(" --server {}", global.server) }
}

const DEFAULT: &str = "http://127.0.0.1:8080/mcp";
