//! The arguments of a call: read once, compared with the headers that repeat them, and checked by the tool's schema.

use longhaul_core::strict_json;
use rmcp::ErrorData;

use crate::protocol_version::Endpoint;
use crate::request::envelope;
use crate::request::incoming::{Incoming, OverStdio};
use crate::revision::Generation;
use crate::tool_calls::accept::Arguments;

/// The arguments of a call of `tool`.
///
/// # Errors
/// `-32602` if they cannot be read, and `-32020` if a header does not repeat its argument.
pub(crate) fn read<'a>(call: &Incoming<'a>, endpoint: &Endpoint, tool: &str) -> Result<Arguments<'a>, ErrorData> {
    let given = call.members.get("arguments");
    let read: Option<Option<_>> = given
        .map(|given| strict_json::from_str(given.get()))
        .transpose()
        .map_err(|error| ErrorData::invalid_params(format!("`arguments` cannot be read: {error}"), None))?;
    let read = read.flatten();
    if call.client.generation() == Generation::PerRequest
        && !OverStdio::is_how_it_came(call.http)
        && let Some(schema) = endpoint.backend().input_schema(tool)
    {
        envelope::check_arguments(call.http.headers(), read.as_ref(), &schema).map_err(|refusal| refusal.error)?;
    }
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
