//! `dev.longhaul/tasks/list` in `2026-07-28`, which has no list of its own.

use http::Response;
use rmcp::ErrorData;
use serde_json::Value;

use super::envelope::{self, Refusal};
use crate::Body;
use crate::protocol_version::Endpoint;
use crate::shared::incoming::Incoming;
use crate::shared::{Shared, reply};
use crate::views::filtered;

/// Answers the request.
pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    match check(call, endpoint) {
        Ok(()) => reply::outcome(&call.id, page(call, endpoint.shared()).await),
        Err(Refusal { status, error }) => reply::error_with(status, Some(&call.id), &error),
    }
}

async fn page(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    let mut page = filtered::page(call, shared).await?;
    page.insert("resultType".to_owned(), "complete".into());
    Ok(Value::from(page).to_string())
}

fn check(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<(), Refusal> {
    envelope::check_body(call.http)?;
    let meta = call.params.map(envelope::meta_of).transpose()?.unwrap_or_default();
    envelope::check(call, &meta, None, &endpoint.backend().revisions())?;
    envelope::check_capability(&meta)
}
