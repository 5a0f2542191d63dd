//! Accepting a tool call as a task: the same for all dialects.

use longhaul_core::{OwnerId, RequestedTerms, Terms, TraceParent};
use longhaul_engine::{Accepted, Call, Idempotency};
use rmcp::ErrorData;

use crate::TaskPolicy;
use crate::shared::Shared;
use crate::shared::errors;
use crate::shared::record::StoredCall;

/// A call that is to become a task.
pub(crate) struct NewTask<'a> {
    pub(crate) owner: OwnerId,
    pub(crate) tool: String,
    /// The call as its worker gets it. Its `_meta` says what the client can be asked.
    pub(crate) call: StoredCall,
    pub(crate) policy: &'a TaskPolicy,
    /// What the caller asks for.
    pub(crate) requested: RequestedTerms,
    pub(crate) idempotency: Option<Idempotency>,
}

/// Accepts the call. The caller checks before that the tool exists.
///
/// # Errors
/// The error for the client.
pub(crate) async fn accept(shared: &Shared, new: NewTask<'_>) -> Result<Accepted, ErrorData> {
    shared.engine.accept(call(new)?).await.map_err(errors::of_accept)
}

/// The call as the engine takes it.
///
/// # Errors
/// The error for the client.
pub(crate) fn call(mut new: NewTask<'_>) -> Result<Call, ErrorData> {
    let trace = trace_of(&mut new.call);
    let request =
        serde_json::to_string(&new.call).map_err(|error| errors::internal("the call could not be written", &error))?;
    Ok(Call {
        owner: new.owner,
        tool: new.tool,
        request,
        terms: Terms::negotiate(new.policy.terms(), new.requested),
        idempotency: new.idempotency,
        trace,
    })
}

/// The trace that the call belongs to. What is not a `traceparent` is dropped, from what is stored too.
fn trace_of(call: &mut StoredCall) -> Option<TraceParent> {
    let trace = call.meta.0.get_traceparent().and_then(TraceParent::parse);
    if trace.is_none() {
        call.meta.0.0.remove("traceparent");
    }
    trace
}
