//! How documents of issuers are fetched.

use async_trait::async_trait;
use bytes::Bytes;
use http::Uri;

/// Bytes of one document of an issuer.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// Why a document was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The server does not answer, or not with HTTP.
    #[error("the server cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer is not `200 OK`. Redirects are not followed: the issuer has to name the right place itself.
    #[error("the server answers with HTTP status {0}")]
    Status(u16),
    /// The answer is too large.
    #[error("the answer has more than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
}

/// One way to fetch public documents.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// The document at `url`, at most 256 KiB. The caller limits the time.
    ///
    /// # Errors
    /// [`FetchError`], also for a redirect.
    async fn get(&self, url: &Uri) -> Result<Bytes, FetchError>;
}
