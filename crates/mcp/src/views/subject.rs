//! Whose tasks a request is about: the caller's own, or those of an owner that an operator names.

use std::collections::BTreeSet;

use http::{Response, StatusCode};
use longhaul_core::{MissingScopes, OwnerId, strict_json};
use rmcp::ErrorData;
use serde_json::json;

use crate::request::incoming::Incoming;
use crate::state::Shared;
use crate::{Body, reply};

/// The member of `_meta` with an owner, or [`ALL`].
const OWNER: &str = "dev.longhaul/owner";

const ALL: &str = "*";

/// The owners of the tasks that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The caller.
    Caller(OwnerId),
    /// An owner that an operator names.
    Named(OwnerId),
    /// All of them, for an operator.
    All,
}

impl Subject {
    /// Refuses a caller who names an owner and is not an operator, even if it names itself.
    pub(crate) fn of(call: &Incoming<'_>, shared: &Shared) -> Result<Self, Box<Response<Body>>> {
        let Some(named) = call.meta.member(OWNER) else { return Ok(Self::Caller(call.owner)) };
        if !shared.settings.has_operator(call.caller) {
            return Err(Box::new(refused(call, &shared.settings.operator_scopes)));
        }
        let named = strict_json::from_str::<String>(named).unwrap_or_default();
        if named == ALL {
            return Ok(Self::All);
        }
        let invalid = || ErrorData::invalid_params(format!("`{OWNER}` is neither an owner nor \"{ALL}\""), None);
        named.parse().map(Self::Named).map_err(|_invalid| Box::new(reply::error(&call.id, &invalid())))
    }

    /// The one owner of a task.
    pub(crate) const fn one(self) -> Option<OwnerId> {
        match self {
            Self::Caller(owner) | Self::Named(owner) => Some(owner),
            Self::All => None,
        }
    }
}

fn refused(call: &Incoming<'_>, needed: &BTreeSet<String>) -> Response<Body> {
    let scope = needed.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let message = "insufficient scope: only operators see the tasks of other owners";
    let error = ErrorData::invalid_request(message, Some(json!({"error": "insufficient_scope", "scope": scope})));
    let mut answer = reply::error_with(StatusCode::FORBIDDEN, Some(&call.id), &error);
    if !needed.is_empty() {
        answer.extensions_mut().insert(MissingScopes { missing: needed.clone(), wanted: needed.clone() });
    }
    answer
}
