//! What is left at a server when our task was cancelled, has timed out or was given up: its own task, or its job.

use std::sync::Arc;

use longhaul::{EndedTask, Server};
use serde_json::Value;

use crate::config::Fold;
use crate::folded::{JOB, arguments};
use crate::following::STARTED;
use crate::handler::Shared;
use crate::polls::{self, RequestError};
use crate::upstream::Upstream;
use crate::upstream::tasks::Started;

/// The server, which cleans up after its tools: also after those that its servers begin to have later.
pub(crate) fn with_cleanup(server: Server, shared: &Arc<Shared>) -> Server {
    let (covering, cleanup) = (Arc::clone(shared), Arc::clone(shared));
    server.clean_up_where(
        move |tool| {
            let leaves = |(upstream, fold): (&Upstream, Option<Arc<Fold>>)| leaves_something(upstream, fold.as_deref());
            covering.outside.find(tool).is_some() || covering.durable(tool).is_some_and(leaves)
        },
        move |ended: EndedTask| {
            let shared = Arc::clone(&cleanup);
            async move {
                if let Some(outside) = shared.outside.find(ended.tool()) {
                    return outside.clean_up(&ended).await;
                }
                let gone = || format!("no server has the tool `{}` any more", ended.tool());
                let (upstream, fold) = shared.durable(ended.tool()).ok_or_else(gone)?;
                clean_up(upstream, fold.as_deref(), &ended).await
            }
        },
    )
}

/// Nothing is left of a process, unless a fold says so.
fn leaves_something(upstream: &Upstream, fold: Option<&Fold>) -> bool {
    !upstream.is_process() || fold.is_some_and(|fold| fold.stop.is_some())
}

/// Cancels the task of the server, and stops the job, if one of them is on record. An answer that is an error is an
/// answer: most often, that there is nothing to stop any more.
async fn clean_up(upstream: &Upstream, fold: Option<&Fold>, ended: &EndedTask) -> Result<(), String> {
    if let Some(started) = ended.step::<Started>(STARTED).await.map_err(|error| error.to_string())? {
        upstream.cancel_task(&started).await?;
    }
    let Some((fold, stop)) = fold.and_then(|fold| Some((fold, fold.stop.as_deref()?))) else { return Ok(()) };
    let Some(id) = ended.step::<Value>(JOB).await.map_err(|error| error.to_string())? else { return Ok(()) };
    match polls::call_once(upstream, ended.idempotency_key(), stop, arguments(fold, &id)).await {
        Err(RequestError::Lost(why)) => Err(why),
        Ok(_) | Err(RequestError::Refused(_)) => Ok(()),
    }
}
