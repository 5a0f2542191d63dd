//! What is left at a server when our task was cancelled, has timed out or was given up: its own task, or its job.

use std::sync::Arc;

use longhaul::{EndedTask, Server};
use serde_json::Value;

use crate::catalog::ToolRoute;
use crate::config::Fold;
use crate::folded::{JOB, arguments};
use crate::following::STARTED;
use crate::looks::{self, Unseen};
use crate::upstream::Upstream;
use crate::upstream::tasks::Started;

/// The server with what this tool needs to be cleaned up after. Nothing is left of a process, unless a fold says so.
pub(crate) fn with_cleaning(server: Server, name: &str, route: &ToolRoute, upstream: &Arc<Upstream>) -> Server {
    let (upstream, fold) = (Arc::clone(upstream), route.fold.clone());
    if upstream.is_process() && fold.as_ref().is_none_or(|fold| fold.stop.is_none()) {
        return server;
    }
    server.clean_up(name, move |ended: EndedTask| {
        let (upstream, fold) = (Arc::clone(&upstream), fold.clone());
        Box::pin(async move { clean_up(&upstream, fold.as_deref(), &ended).await })
    })
}

/// Cancels the task of the server, and stops the job, if one of them is on record. An answer that is an error is an
/// answer: most often, that there is nothing to stop any more.
async fn clean_up(upstream: &Upstream, fold: Option<&Fold>, ended: &EndedTask) -> Result<(), String> {
    if let Some(started) = ended.step::<Started>(STARTED).await.map_err(|error| error.to_string())? {
        upstream.cancel_task(&started).await?;
    }
    let Some((fold, stop)) = fold.and_then(|fold| Some((fold, fold.stop.as_deref()?))) else { return Ok(()) };
    let Some(id) = ended.step::<Value>(JOB).await.map_err(|error| error.to_string())? else { return Ok(()) };
    match looks::call_once(upstream, ended.idempotency_key(), stop, arguments(fold, &id)).await {
        Err(Unseen::Lost(why)) => Err(why),
        Ok(_) | Err(Unseen::Refused(_)) => Ok(()),
    }
}
