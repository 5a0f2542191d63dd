//! Why AWS did not do what it was asked to.

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::job::JobError;
use crate::output::cut;

/// Codes of AWS for "not now" that their names do not all say.
const NOT_NOW: [&str; 4] =
    ["RequestLimitExceeded", "TooManyRequestsException", "SlowDown", "ServiceUnavailableException"];

/// Codes for keys that were good until now.
const OLD_KEYS: [&str; 3] = ["ExpiredToken", "ExpiredTokenException", "RequestExpired"];

/// Codes for what this identity may not do.
const NOT_ALLOWED: [&str; 3] = ["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"];

/// Why a request to AWS cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// Nothing shows who calls.
    #[error("this process has no AWS credentials: {0}")]
    NoCredentials(String),
    /// Nobody says which region it is for.
    #[error("set AWS_REGION, or the region of the profile")]
    NoRegion,
    /// Something in it cannot be signed.
    #[error("{0}")]
    Request(String),
}

impl SigningError {
    pub(super) fn of(error: &dyn std::fmt::Display) -> Self {
        Self::Request(error.to_string())
    }
}

/// Why an operation was not carried out, or not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwsError {
    operation: String,
    /// AWS's word for it, or ours if nothing was sent.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) kind: Kind,
}

/// What is known after an error, as in [`JobError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NotNow,
    Unanswered,
    Refused,
}

impl AwsError {
    pub(crate) fn new(operation: &str, code: &str, message: String, kind: Kind) -> Self {
        Self { operation: operation.to_owned(), code: code.to_owned(), message, kind }
    }

    /// Nothing could be sent.
    pub(super) fn unsigned(operation: &str, error: &SigningError) -> Self {
        let code = match error {
            SigningError::NoCredentials(_) => "no credentials",
            SigningError::NoRegion => "no region",
            SigningError::Request(_) => "no request",
        };
        Self::new(operation, code, error.to_string(), Kind::Refused)
    }

    /// There was no answer.
    pub(super) fn unanswered(operation: &str, error: JobError) -> Self {
        let kind = match error {
            JobError::NotNow(_) => Kind::NotNow,
            JobError::Unanswered(_) => Kind::Unanswered,
            JobError::Refused(_) => Kind::Refused,
        };
        Self::new(operation, "no answer", error.to_string(), kind)
    }

    /// The answer is an error.
    pub(super) fn answered(operation: &str, status: StatusCode, headers: &HeaderMap, body: &Value) -> Self {
        let header = headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
        let text = |key| body.get(key).and_then(Value::as_str);
        let code = header.or_else(|| text("__type")).or_else(|| text("code")).unwrap_or(status.as_str());
        // `com.amazonaws.states#ExecutionDoesNotExist`, or `ClientException:http://internal.amazon.com/…`
        let code = code.rsplit('#').next().unwrap_or(code);
        let code = code.split(':').next().unwrap_or(code);
        let message = text("message").or_else(|| text("Message")).unwrap_or_default();
        let kind = match status.as_u16() {
            429 => Kind::NotNow,
            _ if NOT_NOW.contains(&code) || OLD_KEYS.contains(&code) || code.contains("Throttl") => Kind::NotNow,
            500.. => Kind::Unanswered,
            _ => Kind::Refused,
        };
        Self::new(operation, code, message.to_owned(), kind)
    }

    /// Whether the keys were good until now.
    pub(super) fn is_of_old_keys(&self) -> bool {
        OLD_KEYS.contains(&self.code.as_str())
    }

    /// Whether this is AWS's word for it.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// The same error as one that may be over later.
    pub(crate) fn into_not_now(self) -> Self {
        Self { kind: Kind::NotNow, ..self }
    }

    /// For a start, which a refusal ends.
    pub(crate) fn of_start(self) -> JobError {
        let words = self.to_string();
        match self.kind {
            Kind::NotNow => JobError::NotNow(words),
            Kind::Unanswered => JobError::Unanswered(words),
            Kind::Refused => JobError::Refused(words),
        }
    }

    /// For everything after the start: what is refused now, such as for want of a right, may be allowed later, and the
    /// job goes on meanwhile.
    pub(crate) fn later(self) -> JobError {
        JobError::Unanswered(self.to_string())
    }
}

impl std::fmt::Display for AwsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.operation, self.code)?;
        if !self.message.is_empty() {
            write!(f, ": {}", cut(&self.message))?;
        }
        if NOT_ALLOWED.contains(&self.code.as_str()) {
            f.write_str(" (`longhaul gateway iam-policy` prints the permissions that the gateway needs)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(status: u16, header: Option<&'static str>, body: &Value) -> AwsError {
        let mut headers = HeaderMap::new();
        headers.extend(
            header
                .map(|code| (http::HeaderName::from_static("x-amzn-errortype"), http::HeaderValue::from_static(code))),
        );
        AwsError::answered("Do", StatusCode::from_u16(status).unwrap(), &headers, body)
    }

    #[test]
    fn a_code_is_read_wherever_a_service_writes_it() {
        let typed =
            answered(400, None, &json!({"__type": "com.amazonaws.states#ExecutionDoesNotExist", "message": "gone"}));
        assert_eq!((typed.code.as_str(), typed.kind), ("ExecutionDoesNotExist", Kind::Refused));
        assert_eq!(typed.to_string(), "Do: ExecutionDoesNotExist: gone");
        let header = answered(400, Some("ClientException:http://internal.amazon.com/"), &json!({"Message": "no"}));
        assert_eq!((header.code.as_str(), header.message.as_str()), ("ClientException", "no"));
        assert_eq!(answered(503, None, &Value::Null).code, "503");
    }

    #[test]
    fn what_was_not_carried_out_is_told_from_what_may_have_been() {
        let kind = |status, code: &str| answered(status, None, &json!({"__type": code})).kind;
        assert_eq!(kind(400, "ThrottlingException"), Kind::NotNow);
        assert_eq!(kind(400, "ExpiredTokenException"), Kind::NotNow);
        assert_eq!(kind(429, "Anything"), Kind::NotNow);
        assert_eq!(kind(500, "InternalFailure"), Kind::Unanswered);
        assert_eq!(kind(400, "ValidationException"), Kind::Refused);
        let denied = answered(400, None, &json!({"__type": "AccessDeniedException"}));
        assert!(denied.to_string().contains("longhaul gateway iam-policy"), "{denied}");
    }
}
