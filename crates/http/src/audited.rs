//! Requests in the audit log: where they come from, who sent them, and which of them are refused.

use std::fmt::Display;

use http::Request;
use http::header::USER_AGENT;
use longhaul_core::MissingScopes;
use longhaul_core::audit::{CallerSpan, Entry, Event, Outcome, Source};
use tracing::Span;

use crate::Rejection;

/// The span in which the platform has a request answered, so that the audit log says who sent it and from where.
/// `address` and `request_id` are the platform's own: never from a header that clients can write.
pub fn audited<B>(request: &mut Request<B>, address: Option<impl Display>, request_id: Option<&str>) -> Span {
    let user_agent = request.headers().get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let (http_method, user_agent) = (request.method().as_str(), user_agent.as_deref());
    let caller = CallerSpan::new(Source { address, http_method, request_id, user_agent });
    let span = caller.span().clone();
    request.extensions_mut().insert(caller);
    span
}

/// Logs a rejection, if its reason is an unverified caller. Whether it was logged.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use bytes::Bytes;
    use http::request::Parts;
    use http_body_util::{BodyExt, Full};
    use longhaul_core::logs::{AuditLog, Audited, LineFormat};
    use longhaul_core::{Identity, OwnerId, Principal, VerifiedIdentity};
    use longhaul_testkit::{Lines, ManualClock, capture};
    use serde_json::Value;
    use tracing::Instrument;
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::registry;

    use super::*;
    use crate::{Challenge, HttpFrontend, Identified, Identify, InvalidToken, OriginPolicy};

    /// Accepts the token "ann", and refuses others with a reason.
    struct ByToken;

    #[async_trait::async_trait]
    impl Identify for ByToken {
        async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
            let sent = request.headers.get("authorization").map(|value| value.to_str().unwrap());
            let challenge = Challenge::default();
            if sent == Some("Bearer ann") {
                let identity = Some(VerifiedIdentity::new("https://idp.example.com", "ann"));
                let owner = OwnerId::of(Identity::Verified { issuer: "x", subject: "", tenant: "team" });
                return Ok(Identified { principal: Principal { identity, ..owner.into() }, challenge });
            }
            let why = sent.map(|_| InvalidToken("the token has expired".into()));
            let reason = if sent.is_some() { "the token has expired" } else { "send a token" };
            Err(Rejection::Unauthorized { reason: reason.into(), challenge: challenge.unauthorized(why, "") })
        }
    }

    /// The lines of one request.
    async fn logged(token: Option<&str>, missing: Option<MissingScopes>) -> Vec<Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = AuditLog::to(move || writer.clone(), LineFormat::Json, Arc::new(ManualClock::default()));
        let log = log.with_filter(longhaul_core::logs::audited(Audited::Only));
        let _capturing = capture(registry().with(log));
        let request = Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        let request = request.header("user-agent", "client/1").header("x-forwarded-for", "198.51.100.66");
        let request = token.iter().fold(request, |request, token| request.header("authorization", *token));
        let mut request = request.body(Full::new(Bytes::from("{}"))).unwrap();
        let span = audited(&mut request, Some("203.0.113.7"), None);
        let frontend = HttpFrontend::new(OriginPolicy::default()).identified_by(Arc::new(ByToken));
        let answered = frontend.answer(request, async move |_, _| {
            let mut answer = http::Response::new(Full::default().boxed_unsync());
            missing.map(|missing| answer.extensions_mut().insert(missing));
            answer
        });
        answered.instrument(span).await;
        let text = lines.text();
        assert!(!text.contains("Bearer") && !text.contains("198.51.100.66") && !text.contains("secret"), "{text}");
        lines.take()
    }

    fn only(mut lines: Vec<Value>) -> Value {
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    #[tokio::test]
    async fn a_denied_caller_has_a_line_without_anything_of_the_token() {
        for (token, reason) in [(None, "send a token"), (Some("Bearer secret"), "the token has expired")] {
            let line = only(logged(token, None).await);
            let said = ["event", "outcome", "reason", "address", "user_agent"].map(|name| line[name].as_str().unwrap());
            assert_eq!(said, ["login", "denied", reason, "203.0.113.7", "client/1"]);
            assert!(line.get("owner").is_none() && line.get("issuer").is_none(), "{line}");
        }
    }

    #[tokio::test]
    async fn a_caller_who_lacks_scopes_has_a_line_and_one_who_does_not_has_none() {
        assert_eq!(logged(Some("Bearer ann"), None).await, [Value::Null; 0]);
        let missing: BTreeSet<_> = ["etl:run".to_owned(), "a".to_owned()].into();
        let missing = MissingScopes { wanted: missing.clone(), missing };
        let line = only(logged(Some("Bearer ann"), Some(missing)).await);
        let said = ["event", "outcome", "reason", "scopes", "issuer"].map(|name| line[name].as_str().unwrap());
        assert_eq!(said, ["request", "refused", "insufficient_scope", "a etl:run", "https://idp.example.com"]);
        assert_ne!(line["subject"], line["owner"], "a team shares its tasks, and its members are told apart");
    }
}
