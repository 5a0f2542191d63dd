//! Accepting a tool call as a task: the same for all protocol versions.

use longhaul_core::{Cleanup, Principal, RequestedTerms, Terms, TraceParent, limits};
use longhaul_engine::{Accepted, Call, Idempotency};
use rmcp::ErrorData;

use crate::TaskPolicy;
use crate::shared::Shared;
use crate::shared::errors;
use crate::shared::record::StoredCall;
use crate::shared::start;
use crate::shared::verified_caller::VerifiedCaller;

/// A call that is to become a task.
pub(crate) struct NewTask<'a> {
    pub(crate) caller: &'a Principal,
    pub(crate) tool: String,
    /// The call as its worker gets it. Its `_meta` says what the client can be asked.
    pub(crate) call: StoredCall,
    pub(crate) policy: &'a TaskPolicy,
    /// What the caller asks for.
    pub(crate) requested: RequestedTerms,
    pub(crate) idempotency: Option<Idempotency>,
}

/// Accepts the call. The caller checks before that the tool exists.
pub(crate) async fn accept(shared: &Shared, new: NewTask<'_>) -> Result<Accepted, ErrorData> {
    shared.engine.accept(call(shared, new)?).await.map_err(errors::of_accept)
}

/// The call as the engine takes it.
pub(crate) fn call(shared: &Shared, mut new: NewTask<'_>) -> Result<Call, ErrorData> {
    let is_cleaned = shared.policies.cleaners().cover(&new.tool);
    let trace = trace_of(&mut new.call);
    let not_before = start::taken(&mut new.call.meta)?;
    new.call.caller = known(new.caller)?;
    let request =
        serde_json::to_string(&new.call).map_err(|error| errors::internal("the call could not be written", &error))?;
    Ok(Call {
        owner: new.caller.owner,
        tool: new.tool,
        request,
        terms: Terms::negotiate(new.policy.terms(), new.requested),
        idempotency: new.idempotency,
        trace,
        cleanup: if is_cleaned { Cleanup::ARMED } else { Cleanup::None },
        not_before,
    })
}

/// What is stored about the caller.
///
/// # Errors
/// `-32600` if it is too long.
fn known(caller: &Principal) -> Result<Option<VerifiedCaller>, ErrorData> {
    let Some(known) = VerifiedCaller::known(caller) else { return Ok(None) };
    let bytes = serde_json::to_vec(&known)
        .map_err(|error| errors::internal("what is known about the caller could not be written", &error))?
        .len();
    if bytes > limits::CALLER_BYTES_MAX {
        let message = format!(
            "what is known about the caller has {bytes} bytes, and at most {} are stored with a task: use a token with \
             fewer claims and scopes",
            limits::CALLER_BYTES_MAX
        );
        return Err(ErrorData::invalid_request(message, None));
    }
    Ok(Some(known))
}

/// The trace that the call belongs to. What is not a `traceparent` is dropped, from what is stored too.
fn trace_of(call: &mut StoredCall) -> Option<TraceParent> {
    let trace = call.meta.0.get_traceparent().and_then(TraceParent::parse);
    if trace.is_none() {
        call.meta.0.0.remove("traceparent");
    }
    trace
}
