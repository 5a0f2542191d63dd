//! What each verb does.

use std::ffi::OsString;

use clap::CommandFactory;
use longhaul::settings::{EnvSource, ProcessEnv};
use longhaul_client::{Client, Task, TaskFilter};

use crate::args::{Cli, Global, Verb};
use crate::bridge;
use crate::credentials::{login, logout};
use crate::exit::{Exit, Stop};
use crate::record::{Entry, Record};
use crate::server::{connect, target, without_credentials};

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
        Verb::Console(flags) => console::run(global, flags).await,
        Verb::Login { how } => {
            let secret = ProcessEnv.get("LONGHAUL_CLIENT_SECRET").filter(|secret| !secret.is_empty());
            let secret = secret.map(OsString::into_string).transpose();
            let secret = secret.map_err(|_not| Stop::usage("LONGHAUL_CLIENT_SECRET is not UTF-8"))?;
            login(without_credentials(global)?, &how, secret).await
        }
        Verb::Logout => logout(&without_credentials(global)?.url),
        Verb::Bridge { to } => {
            let named = Global { server: to.unwrap_or_else(|| global.server.clone()), ..global.clone() };
            bridge::run(target(&named)?).await
        }
        Verb::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "longhaul", &mut std::io::stdout());
            Ok(Exit::Well)
        }
        Verb::Local { .. } => Err(Stop::usage("`local` is now `demo`: run longhaul demo …")),
        Verb::Demo { .. } => Err(Stop::usage("`demo` comes before all flags: longhaul demo …")),
        Verb::Gateway { .. } => Err(Stop::usage("`gateway` comes before all flags: longhaul gateway …")),
    }
}

/// A connection to the server of some tasks, in the session that began them if this machine did.
async fn connect_to(global: &Global, ids: &[String]) -> Result<(Client, Vec<Option<Entry>>), Stop> {
    let target = target(global)?;
    let record = Record::of_user();
    let known: Vec<Option<Entry>> = ids.iter().map(|id| record.find(target.url.as_str(), id)).collect();
    let session = known.iter().flatten().find_map(|entry| entry.session.clone());
    Ok((connect(&target, session.as_deref()).await?, known))
}

/// One task, and what this machine knows of it.
async fn one(global: &Global, id: &str) -> Result<(Client, Task, Option<Entry>), Stop> {
    let (client, known) = connect_to(global, &[id.to_owned()]).await?;
    let known = known.into_iter().next().flatten();
    let task = client.task(id).await.map_err(|error| not_found(error.into(), id, known.as_ref()))?;
    Ok((client, task, known))
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
