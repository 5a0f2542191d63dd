//! What the audit log says of requests: where they come from, who sent them, and which of them are refused.

use std::fmt::Display;

use http::Request;
use http::header::USER_AGENT;
use longhaul_audit::{CallerSpan, Entry, Event, Outcome, Source};
use longhaul_core::MissingScopes;
use tracing::Span;

use crate::Rejection;

/// The span in which the platform has a request answered, so that the audit log says who sent it and from where. `address`
/// and `request_id` are the platform's own: never from a header that clients can write.
pub fn audited<B>(request: &mut Request<B>, address: Option<impl Display>, request_id: Option<&str>) -> Span {
    let user_agent = request.headers().get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let (http_method, user_agent) = (request.method().as_str(), user_agent.as_deref());
    let caller = CallerSpan::new(Source { address, http_method, request_id, user_agent });
    let span = caller.span().clone();
    request.extensions_mut().insert(caller);
    span
}

/// Logs a rejection, if it is because nobody verified the caller. Whether it was logged.
pub(crate) fn denied(rejection: &Rejection) -> bool {
    let is_denied = matches!(rejection, Rejection::Unauthorized { .. } | Rejection::NotSigned);
    if is_denied {
        Entry::new(Event::LogIn, Outcome::Denied).because(&rejection.to_string()).log();
    }
    is_denied
}

/// Logs that a caller lacks scopes.
pub(crate) fn insufficient(MissingScopes { missing, .. }: &MissingScopes) {
    let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
    let refused = Entry::new(Event::Request, Outcome::Refused);
    refused.because("insufficient_scope").without_scopes(&missing.join(" ")).log();
}
