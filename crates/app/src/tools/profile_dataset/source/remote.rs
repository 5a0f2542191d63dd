//! What a server says about a resource: its length, its version, and whether it can send a part of it.

use reqwest::StatusCode;
use reqwest::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};
use serde::{Deserialize, Serialize};

use super::super::error::ProfileError;
use super::super::limits::URL_BYTES_MAX;

/// What distinguishes one version of a resource from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteIdentity {
    /// Its length in bytes, if the server says.
    pub bytes: Option<u64>,
    /// The value for `If-Range`: a strong entity tag, or the time of the last change.
    pub validator: Option<String>,
    /// Whether parts can be requested.
    parts: Parts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Parts {
    /// The server sends from a requested position on.
    FromAnywhere,
    /// The server always sends everything.
    OnlyAll,
}

impl RemoteIdentity {
    /// Reads it from the answer to a request for the first byte.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Refused`] if the resource is too large.
    pub fn of(status: StatusCode, headers: &HeaderMap, content_length: Option<u64>) -> Result<Self, ProfileError> {
        let validator = validator(headers);
        let (bytes, parts) = match (status, content_range(headers)) {
            // Without a version, parts of two versions could not be distinguished.
            (StatusCode::PARTIAL_CONTENT, Some(range)) if validator.is_some() => (range.total, Parts::FromAnywhere),
            (StatusCode::PARTIAL_CONTENT, Some(range)) => (range.total, Parts::OnlyAll),
            (_, _) => (content_length, Parts::OnlyAll),
        };
        if bytes.is_some_and(|bytes| bytes > URL_BYTES_MAX) {
            return Err(too_large());
        }
        Ok(Self { bytes, validator, parts })
    }

    /// Whether the server sends parts, so that every chunk can be a separate step.
    #[must_use]
    pub fn is_ranged(&self) -> bool {
        self.parts == Parts::FromAnywhere
    }

    /// Whether an answer is the resource from `offset` on, in the same version.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Changed`] if it is another version.
    pub fn check(&self, status: StatusCode, headers: &HeaderMap, offset: u64) -> Result<(), ProfileError> {
        if self.validator.is_some() && self.validator != validator(headers) {
            return Err(ProfileError::Changed);
        }
        let is_part = match (status, content_range(headers)) {
            (StatusCode::PARTIAL_CONTENT, Some(range)) => range.start == offset && range.total == self.bytes,
            // Asked for a part of a version that no longer exists, a server sends all of the new one.
            (_, _) => offset == 0,
        };
        if is_part { Ok(()) } else { Err(ProfileError::Changed) }
    }
}

/// The error for a resource beyond the limit.
#[must_use]
pub fn too_large() -> ProfileError {
    ProfileError::Refused(format!("the source is larger than {URL_BYTES_MAX} bytes"))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn validator(headers: &HeaderMap) -> Option<String> {
    let strong = text(headers, ETAG).filter(|tag| tag.starts_with('"'));
    strong.or_else(|| text(headers, LAST_MODIFIED)).map(str::to_owned)
}

struct ContentRange {
    start: u64,
    total: Option<u64>,
}

/// `bytes 0-0/1234`, or `*` for an unknown length.
fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    if text(headers, ACCEPT_RANGES) == Some("none") {
        return None;
    }
    let (range, total) = text(headers, CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some(ContentRange { start: start.trim().parse().ok()?, total: total.trim().parse().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_server_that_sends_parts_and_a_version_is_read_in_parts() {
        let answer = headers(&[("content-range", "bytes 0-0/500"), ("etag", "\"v1\"")]);
        let identity = RemoteIdentity::of(StatusCode::PARTIAL_CONTENT, &answer, Some(1)).unwrap();
        assert!(identity.is_ranged() && identity.bytes == Some(500));
        let part = headers(&[("content-range", "bytes 100-499/500"), ("etag", "\"v1\"")]);
        assert!(identity.check(StatusCode::PARTIAL_CONTENT, &part, 100).is_ok());
        assert!(identity.check(StatusCode::PARTIAL_CONTENT, &part, 200).is_err());
        assert!(identity.check(StatusCode::OK, &headers(&[("etag", "\"v1\"")]), 100).is_err());
    }

    #[test]
    fn another_version_is_noticed() {
        let answer = headers(&[("content-range", "bytes 0-0/500"), ("etag", "\"v1\"")]);
        let identity = RemoteIdentity::of(StatusCode::PARTIAL_CONTENT, &answer, Some(1)).unwrap();
        let other = headers(&[("content-range", "bytes 100-499/500"), ("etag", "\"v2\"")]);
        let outcome = identity.check(StatusCode::PARTIAL_CONTENT, &other, 100);
        assert!(matches!(outcome, Err(ProfileError::Changed)));
    }

    #[test]
    fn without_parts_or_without_a_version_everything_is_read_at_once() {
        let whole = RemoteIdentity::of(StatusCode::OK, &headers(&[("etag", "\"v1\"")]), Some(500)).unwrap();
        assert!(!whole.is_ranged() && whole.bytes == Some(500));
        let weak = headers(&[("content-range", "bytes 0-0/500"), ("etag", "W/\"v1\"")]);
        assert!(!RemoteIdentity::of(StatusCode::PARTIAL_CONTENT, &weak, Some(1)).unwrap().is_ranged());
    }

    #[test]
    fn a_resource_beyond_the_limit_is_refused() {
        let outcome = RemoteIdentity::of(StatusCode::OK, &HeaderMap::new(), Some(URL_BYTES_MAX + 1));
        assert!(matches!(outcome, Err(ProfileError::Refused(_))));
    }
}
