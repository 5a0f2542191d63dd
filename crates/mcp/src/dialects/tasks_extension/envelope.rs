//! What every request of `2026-07-28` says around its parameters, for the requests that `rmcp` does not see.

use http::HeaderMap;
use rmcp::ErrorData;
use rmcp::model::{ProtocolVersion, RequestMetaObject};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialects::{Generation, VERSION_HEADER};
use crate::errors;

const METHOD: &str = "mcp-method";

#[derive(Default, Deserialize)]
struct Params {
    #[serde(default, rename = "_meta")]
    meta: RequestMetaObject,
}

fn meta(params: Option<&RawValue>) -> RequestMetaObject {
    params.and_then(|params| serde_json::from_str::<Params>(params.get()).ok()).unwrap_or_default().meta
}

/// Whether the body says that it is of `2026-07-28` or later.
pub(super) fn claims_metadata(params: Option<&RawValue>) -> bool {
    let version = meta(params).protocol_version();
    Generation::of_version(version.as_ref().map(ProtocolVersion::as_str)) == Generation::PerRequest
}

/// The checks that `rmcp` makes for the methods that it knows, in its order.
///
/// # Errors
/// `-32020` where headers and body differ, `-32602` where `_meta` is not complete, `-32022` for other versions,
/// `-32021` where the client did not declare the Tasks extension.
pub(super) fn check(headers: &HeaderMap, method: &str, params: Option<&RawValue>) -> Result<(), ErrorData> {
    let meta = meta(params);
    let mismatch = |what: String| Err(ErrorData::header_mismatch(what, None));
    let only = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        if values.next().is_some() { None } else { value }
    };
    match only(METHOD) {
        None => return mismatch("missing or unreadable Mcp-Method header".to_owned()),
        Some(header) if header != method => {
            return mismatch(format!("Mcp-Method header `{header}` does not match body method `{method}`"));
        }
        Some(_) => {}
    }
    let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
    if !missing.is_empty() {
        let message = format!("request _meta is missing or has malformed required fields: {}", missing.join(", "));
        return Err(ErrorData::invalid_params(message, None));
    }
    let version = meta.protocol_version().unwrap_or_default();
    if only(VERSION_HEADER) != Some(version.as_str()) {
        return mismatch(format!(
            "MCP-Protocol-Version header does not match request _meta protocolVersion ({version})"
        ));
    }
    if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) {
        return Err(ErrorData::unsupported_protocol_version(version, ProtocolVersion::KNOWN_VERSIONS));
    }
    let declared = meta.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
    if declared { Ok(()) } else { Err(errors::tasks_not_declared()) }
}
