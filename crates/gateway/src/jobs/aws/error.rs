//! Why AWS did not do what it was asked to.

use aws_runtime::retries::classifiers::{THROTTLING_ERRORS, TRANSIENT_ERRORS};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::jobs::job::JobError;
use crate::jobs::output::cut;

/// Codes for "not now" that are not in the lists of AWS's own clients.
const NOT_NOW: [&str; 2] = ["ServiceUnavailable", "ServiceUnavailableException"];

/// Codes for an unknown outcome, with any status: the request may have been carried out.
const NOBODY_KNOWS: [&str; 7] = [
    "OperationTimeoutException",
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "InternalServerException",
    "InternalServiceException",
    "ServerException",
];

/// Codes for credentials that AWS does not take now: they have expired or were replaced, or are too new to be
/// known everywhere.
const CREDENTIALS: [&str; 7] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
];

/// Codes for a clock that is wrong; those of signatures may mean credentials that were replaced, too.
const CLOCK: [&str; 6] = [
    "AuthFailure",
    "InvalidSignatureException",
    "RequestExpired",
    "RequestInTheFuture",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// Codes for an operation that this identity is not allowed to call.
const NOT_ALLOWED: [&str; 3] = ["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"];

/// Why a request to AWS cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// There are no credentials.
    #[error("this process has no AWS credentials: {0}")]
    NoCredentials(String),
    /// The request has no region, and neither has the configuration.
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
    /// The error code of AWS, or one of Longhaul's if nothing was sent.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) kind: Kind,
}

/// The state of a request after an error, as in [`JobError`].
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
        let (code, kind) = match error {
            // The source of the credentials may not answer at this time.
            SigningError::NoCredentials(_) => ("no credentials", Kind::NotNow),
            SigningError::NoRegion => ("no region", Kind::Refused),
            SigningError::Request(_) => ("no request", Kind::Refused),
        };
        Self::new(operation, code, error.to_string(), kind)
    }

    /// There was no answer.
    pub(super) fn unanswered(operation: &str, error: JobError) -> Self {
        let kind = match error {
            JobError::NotNow(_) => Kind::NotNow,
            JobError::Unanswered(_) => Kind::Unanswered,
            JobError::NotFound(_) | JobError::Refused(_) => Kind::Refused,
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
        Self::new(operation, code, message.to_owned(), kind_of(status, code))
    }

    /// Whether other credentials may help.
    pub(super) fn is_about_credentials(&self) -> bool {
        is_about_credentials(&self.code)
    }

    /// Whether AWS uses this code for it.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// The same error as a temporary one.
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

    /// For everything after the start. A refusal now, such as a missing permission, may be lifted later, and the job
    /// continues meanwhile.
    pub(crate) fn later(self) -> JobError {
        JobError::Unanswered(self.to_string())
    }
}

fn kind_of(status: StatusCode, code: &str) -> Kind {
    let is_throttled = THROTTLING_ERRORS.contains(&code) || code.contains("Throttl");
    match status.as_u16() {
        429 => Kind::NotNow,
        _ if is_throttled || NOT_NOW.contains(&code) || is_about_credentials(code) => Kind::NotNow,
        _ if TRANSIENT_ERRORS.contains(&code) || NOBODY_KNOWS.contains(&code) => Kind::Unanswered,
        408 | 500.. => Kind::Unanswered,
        _ => Kind::Refused,
    }
}

fn is_about_credentials(code: &str) -> bool {
    CREDENTIALS.contains(&code) || CLOCK.contains(&code)
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
        for not_now in [
            "ThrottlingException",
            "LimitExceededException",
            "BandwidthLimitExceeded",
            "PriorRequestNotComplete",
            "ServiceUnavailableException",
            "ExpiredTokenException",
            "UnrecognizedClientException",
            "InvalidClientTokenId",
            "InvalidSignatureException",
            "SignatureDoesNotMatch",
            "RequestTimeTooSkewed",
        ] {
            assert_eq!(kind(400, not_now), Kind::NotNow, "{not_now}");
        }
        assert_eq!(kind(429, "Anything"), Kind::NotNow);
        for (status, nobody_knows) in [
            (500, "InternalFailure"),
            (400, "OperationTimeoutException"),
            (400, "RequestTimeout"),
            (400, "RequestTimeoutException"),
            (408, "Anything"),
            (400, "InternalServiceException"),
        ] {
            assert_eq!(kind(status, nobody_knows), Kind::Unanswered, "{nobody_knows}");
        }
        for refused in ["ValidationException", "AccessDeniedException", "InvalidParameterException"] {
            assert_eq!(kind(400, refused), Kind::Refused, "{refused}");
        }
        let denied = answered(400, None, &json!({"__type": "AccessDeniedException"}));
        assert!(denied.to_string().contains("longhaul gateway iam-policy"), "{denied}");
    }
}
