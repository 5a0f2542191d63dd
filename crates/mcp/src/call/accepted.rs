//! A call that becomes a task at once, and is answered with the task: no handler sees it before a worker runs it.

use http::StatusCode;
use longhaul_core::{RequestedTerms, Task, strict_json};
use rmcp::ErrorData;

use crate::TaskPolicy;
use crate::protocol_version::Endpoint;
use crate::reply::errors;
use crate::request::envelope::Refusal;
use crate::request::incoming::Incoming;
use crate::tool_calls::accept::{self, Arguments};

/// The arguments of a call of `tool`.
///
/// # Errors
/// `-32602` if they cannot be read, and `-32020` if a header does not repeat its argument.
pub(crate) fn arguments<'a>(call: &Incoming<'a>, endpoint: &Endpoint, tool: &str) -> Result<Arguments<'a>, Refusal> {
    let given = call.members.get("arguments");
    let read = given.map(|given| strict_json::from_str(given.get())).transpose().map_err(|error| {
        let error = ErrorData::invalid_params(format!("`arguments` cannot be read: {error}"), None);
        Refusal { status: StatusCode::OK, error }
    })?;
    super::check_headers(call, endpoint, tool, read.as_ref())?;
    Ok(Arguments { given, read })
}

/// The arguments without what the tool's schema refuses and may be left out.
///
/// # Errors
/// `-32602` if the schema refuses them.
pub(crate) async fn checked<'a>(
    endpoint: &Endpoint,
    tool: &str,
    mut arguments: Arguments<'a>,
) -> Result<Arguments<'a>, ErrorData> {
    if endpoint.backend().check_arguments(tool, &mut arguments.read).await? {
        arguments.given = None;
    }
    Ok(arguments)
}

/// Makes the task of a call of a tool that the handler has.
pub(crate) async fn task(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    (tool, policy): (&str, &TaskPolicy),
    arguments: Arguments<'_>,
    requested: RequestedTerms,
) -> Result<Task, ErrorData> {
    let shared = endpoint.shared();
    let new = accept::call_of(shared, call, (tool, policy), arguments, requested)?;
    Ok(shared.engine.accept(new).await.map_err(errors::of_accept)?.into_task())
}
