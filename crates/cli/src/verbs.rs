//! The verbs.

use std::ffi::OsString;

use clap::CommandFactory;
use longhaul::settings::{EnvSource, ProcessEnv};
use longhaul_client::TaskFilter;
use longhaul_core::{Identity, OwnerId};

use crate::args::{Cli, Global, Verb};
use crate::bridge;
use crate::credentials::{login, logout};
use crate::deploy;
use crate::exit::{Exit, Stop};
use crate::out;
use crate::server::{target, without_credentials};

mod backup;
mod call;
mod console;
mod ends;
mod erase;
mod found;
mod offers;
mod tasks;
mod token;

pub(crate) async fn run(mut cli: Cli) -> Result<Exit, Stop> {
    let global = &cli.global;
    let ids = cli.verb.task_ids();
    let whole = found::whole_ids(global, ids).await?;
    ids.clone_from_slice(&whole);
    match cli.verb {
        Verb::Tools { name } => call::tools(global, name.as_deref()).await,
        Verb::Info => offers::info(global).await,
        Verb::Resources { uri: None, .. } => offers::resources(global).await,
        Verb::Resources { uri: Some(uri), saved } => offers::resource(global, &uri, &saved).await,
        Verb::Prompts { name: None, .. } => offers::prompts(global).await,
        Verb::Prompts { name: Some(name), given } => offers::prompt(global, &name, &given).await,
        Verb::Call { tool, given, how } => call::call(global, &tool, &given, &how).await,
        Verb::Again { id, how } => call::again(global, &id, &how).await,
        Verb::Resume { id, from, waits } => call::resume(global, &id, from.as_deref(), &waits).await,
        Verb::Tasks { status, tool, label, limit, watch } => {
            let filter = TaskFilter { statuses: status, tool, labels: label.into_iter().collect(), cursor: None };
            let limit = limit.into();
            if watch { tasks::watch(global, &filter, limit).await } else { tasks::list(global, &filter, limit).await }
        }
        Verb::Show { id, journal: false } => tasks::show(global, &id).await,
        Verb::Show { id, journal: true } => tasks::inspect(global, &id).await,
        Verb::Watch { ids, wait } if ids.is_empty() => {
            let ids = tasks::unfinished(global).await?;
            if ids.is_empty() { Ok(Exit::Well) } else { ends::watch(global, &ids, wait).await }
        }
        Verb::Watch { ids, wait } => ends::watch(global, &ids, wait).await,
        Verb::Result { id, saved } => ends::result(global, &id, &saved).await,
        Verb::Answer { id, decline: true, question, .. } => ends::refuse(global, &id, question.as_deref()).await,
        Verb::Answer { id, given, question, .. } => ends::give(global, &id, &given, question.as_deref()).await,
        Verb::Cancel { ids } => ends::cancel(global, &ids).await,
        Verb::Backup { to, db } => backup::run(global, &db, &to),
        Verb::Erase { owner, issuer, subject, tenant, db } => {
            let issuer = issuer.unwrap_or_default();
            let identity = Identity::Verified { issuer: &issuer, subject: &subject, tenant: &tenant };
            erase::run(global, &db, owner.unwrap_or_else(|| OwnerId::of(identity))).await
        }
        Verb::Console(flags) => console::run(global, flags).await,
        Verb::Login { how } => {
            let secret = ProcessEnv.get("LONGHAUL_CLIENT_SECRET").filter(|secret| !secret.is_empty());
            let secret = secret.map(OsString::into_string).transpose();
            let secret = secret.map_err(|_not| Stop::usage("LONGHAUL_CLIENT_SECRET is not UTF-8"))?;
            let again = format!("longhaul login{}", global.come_back());
            login(without_credentials(global)?, &how, secret, &again).await
        }
        Verb::Logout => logout(&without_credentials(global)?.url).await,
        Verb::Token { verb } => token::run(global, &verb).await,
        Verb::Bridge { to } => {
            let named = Global { server: to.unwrap_or_else(|| global.server.clone()), ..global.clone() };
            bridge::run(target(&named)?).await
        }
        Verb::Deploy(verb) => deploy::run(verb, global.json).await,
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
