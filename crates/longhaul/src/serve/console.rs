//! The console of a local server. Its pages use the server's own endpoint, with the permissions that every program on
//! this machine has.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use longhaul_console::{Act, Console, OtherServer, Processes, Remote, Servers, Setup};

use super::ServeError;
use crate::{Degraded, Server};

/// The actions of the pages.
pub(super) enum Pages {
    ThatAct,
    ThatOnlyShow,
}

pub(super) fn of(address: SocketAddr, server: &Server, pages: &Pages) -> Result<Console, ServeError> {
    let cannot = |cause| ServeError::Listen { address, cause };
    let setup = Setup {
        source: Arc::new(Remote::at(address).map_err(cannot)?),
        acts: Box::new(log),
        is_read_only: matches!(pages, Pages::ThatOnlyShow),
        hosts: Vec::new(),
        secret: None,
        servers: servers(server),
    };
    Console::new(setup).map_err(cannot)
}

/// The other servers whose processes this one counts, or that cannot be used now.
fn servers(server: &Server) -> Servers {
    let (parts, processes) = (server.degraded_parts(), server.counted_processes());
    Box::new(move || {
        let counted = processes().into_iter().map(|crate::Processes { server, starting, running, restarts }| {
            (
                server,
                OtherServer { processes: Some(Processes { starting, running, restarts }), ..OtherServer::default() },
            )
        });
        let mut all: BTreeMap<String, OtherServer> = counted.collect();
        for Degraded { part, why } in parts() {
            all.entry(part).or_default().why = Some(why);
        }
        all.into_iter().map(|(name, server)| OtherServer { name, ..server }).collect()
    })
}

/// The requests to the endpoint that follow are in the audit log too.
fn log(act: &Act<'_>) {
    let &Act { what, task, error } = act;
    match error {
        None => tracing::info!(act = what, task, "by the console"),
        Some(error) => tracing::warn!(act = what, task, error, "not done by the console"),
    }
}
