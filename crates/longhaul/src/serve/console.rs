//! The console of a local server. Its pages use the server's own endpoint, with the permissions that every program on
//! this machine has.

use std::net::SocketAddr;
use std::sync::Arc;

use longhaul_console::{Act, Console, Remote, Setup};

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
        degraded: {
            let parts = server.degraded_parts();
            Box::new(move || parts().into_iter().map(|Degraded { part, why }| (part, why)).collect())
        },
    };
    Console::new(setup).map_err(cannot)
}

/// The requests to the endpoint that follow are in the audit log too.
fn log(act: &Act<'_>) {
    let &Act { what, task, error } = act;
    match error {
        None => tracing::info!(act = what, task, "by the console"),
        Some(error) => tracing::warn!(act = what, task, error, "not done by the console"),
    }
}
