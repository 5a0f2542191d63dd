//! From an issuer's name to its keys: its metadata, and the key set that this names.

use bytes::Bytes;
use http::Uri;
use longhaul_core::strict_json;
use serde::Deserialize;

use crate::oauth::issuer::Issuer;
use crate::oauth::key_set::{KeySet, KeySetError};
use crate::oauth::{Fetch, FetchError};

/// Why an issuer's keys were not learnt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// A document was not fetched.
    #[error("{what} was not fetched")]
    Fetch {
        /// Which one.
        what: &'static str,
        #[source]
        cause: FetchError,
    },
    /// The metadata is not that of an authorization server.
    #[error("the metadata is not a JSON object with `issuer` and `jwks_uri`")]
    NotMetadata,
    /// The metadata belongs to another issuer.
    #[error("the metadata is of another issuer: it has to name this one, character by character")]
    AnotherIssuer,
    /// The keys are at a place that is not asked.
    #[error("the metadata names a `jwks_uri` that is not an https URL")]
    KeysUrl,
    /// The keys cannot be read.
    #[error(transparent)]
    Keys(#[from] KeySetError),
    /// It took too long.
    #[error("the issuer did not answer in time")]
    Late,
}

/// The members of an issuer's metadata.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// The keys that `issuer` publishes now.
pub(crate) async fn keys(issuer: &Issuer, fetch: &dyn Fetch) -> Result<KeySet, DiscoveryError> {
    let url = keys_url(issuer, fetch).await?;
    Ok(KeySet::parse(&get(fetch, &url, "the key set").await?)?)
}

/// Where the keys are, from the first place that has the issuer's metadata. If none has, the error is about a document
/// that is there, rather than about one that is not.
async fn keys_url(issuer: &Issuer, fetch: &dyn Fetch) -> Result<Uri, DiscoveryError> {
    let mut failed = None;
    for url in issuer.metadata_urls() {
        let error = match keys_url_at(issuer, fetch, &url).await {
            Ok(keys) => return Ok(keys),
            Err(error) => error,
        };
        let cause = &error as &dyn std::error::Error;
        tracing::debug!(issuer = issuer.name(), url, error = cause, "the issuer's metadata is not here");
        if matches!(failed, None | Some(DiscoveryError::Fetch { .. })) {
            failed = Some(error);
        }
    }
    Err(failed.unwrap_or(DiscoveryError::NotMetadata))
}

async fn keys_url_at(issuer: &Issuer, fetch: &dyn Fetch, url: &str) -> Result<Uri, DiscoveryError> {
    let url = url.parse().map_err(|_not_a_url: http::uri::InvalidUri| DiscoveryError::NotMetadata)?;
    let document = get(fetch, &url, "the metadata").await?;
    let metadata: Metadata = strict_json::from_slice(&document).map_err(|_not_said| DiscoveryError::NotMetadata)?;
    if metadata.issuer != issuer.name() {
        return Err(DiscoveryError::AnotherIssuer);
    }
    issuer.keys_url(&metadata.jwks_uri).ok_or(DiscoveryError::KeysUrl)
}

async fn get(fetch: &dyn Fetch, url: &Uri, what: &'static str) -> Result<Bytes, DiscoveryError> {
    fetch.get(url).await.map_err(|cause| DiscoveryError::Fetch { what, cause })
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    /// Answers one URL.
    struct Only(&'static str, &'static str);

    #[async_trait]
    impl Fetch for Only {
        async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
            if *url == *self.0 { Ok(self.1.into()) } else { Err(FetchError::Status(404)) }
        }
    }

    #[tokio::test]
    async fn the_error_is_about_a_document_that_is_there() {
        let issuer = Issuer::parse("https://id.example.com/a").unwrap();
        let error = async |fetch: Only| keys_url(&issuer, &fetch).await.unwrap_err().to_string();
        let other = r#"{"issuer": "https://id.example.com/a/", "jwks_uri": "https://id.example.com/jwks"}"#;
        for url in [
            "https://id.example.com/.well-known/oauth-authorization-server/a",
            "https://id.example.com/.well-known/openid-configuration/a",
            "https://id.example.com/a/.well-known/openid-configuration",
        ] {
            assert!(error(Only(url, other)).await.contains("of another issuer"), "{url}");
            assert!(error(Only(url, "<html>")).await.contains("not a JSON object"), "{url}");
        }
        assert!(error(Only("", "")).await.contains("was not fetched"));
    }
}
