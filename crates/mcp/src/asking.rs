//! Requests of the server to its clients, and their answers. A request's id says what it belongs to, sealed, so that
//! the answer may reach any instance.

use http::{Response, StatusCode};
use longhaul_core::OwnerId;
use rmcp::ErrorData;
use serde_json::value::RawValue;

use crate::durable::Shared;
use crate::{Body, reply};

/// Takes a client's answer.
pub(crate) async fn take(
    _shared: &Shared,
    _owner: OwnerId,
    _id: &RawValue,
    _outcome: Result<&RawValue, &RawValue>,
) -> Response<Body> {
    let error = ErrorData::invalid_request("nothing was asked under this id", None);
    reply::error_with(StatusCode::BAD_REQUEST, None, &error)
}
