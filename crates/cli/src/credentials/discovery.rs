//! How a server wants its callers to sign in, and which of its answers are trusted.

use longhaul_client::with_causes;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataResolution, WWWAuthenticateParams,
};
use url::Url;

use crate::address::is_loopback;

/// Why a user cannot sign in, or a token cannot be renewed.
pub(super) enum Failed {
    /// It may be possible later.
    Unreachable(String),
    /// The authorization server registers no client.
    NoRegistration(String),
    /// The answers of servers cannot be trusted, or are not enough.
    Wrong(String),
    /// The user has to log in.
    LoggedOut,
}

impl From<AuthError> for Failed {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => Self::LoggedOut,
            // It answered with a refusal for now: it may have forgotten the client. Only its error message
            // distinguishes that from a server that cannot be reached.
            AuthError::TokenRefreshFailed(why) if why.starts_with("Server returned error response") => Self::Wrong(why),
            AuthError::HttpError(_) | AuthError::DiscoveryRequestFailed { .. } | AuthError::TokenRefreshFailed(_) => {
                Self::Unreachable(with_causes(&error))
            }
            error => Self::Wrong(with_causes(&error)),
        }
    }
}

/// A client of the authorization server that a server names, and the metadata of that authorization server.
pub(super) async fn discover(
    server: &Url,
    challenge: Option<&str>,
) -> Result<(AuthorizationManager, AuthorizationMetadata), Failed> {
    if let Some(named) =
        challenge.and_then(|challenge| WWWAuthenticateParams::parse(challenge, server).resource_metadata_url)
    {
        check(server, "the server's metadata", named.as_str())?;
    }
    let mut manager = AuthorizationManager::new_allowing_private_addresses(server.as_str()).await?;
    let AuthorizationMetadataResolution { metadata, source, .. } =
        manager.resolve_metadata_from_challenge(challenge).await?;
    if !source.is_discovered() {
        return Err(Failed::Wrong("the server does not say where to log in".to_owned()));
    }
    for (what, url) in [
        ("the issuer", metadata.issuer.as_ref()),
        ("the authorization endpoint", Some(&metadata.authorization_endpoint)),
        ("the token endpoint", Some(&metadata.token_endpoint)),
        ("the registration endpoint", metadata.registration_endpoint.as_ref()),
    ] {
        url.map_or(Ok(()), |url| check(server, what, url))?;
    }
    let challenges = metadata.code_challenge_methods_supported.iter().flatten();
    if !challenges.into_iter().any(|method| method == "S256") {
        return Err(Failed::Wrong("the authorization server does not say that it supports PKCE with S256".to_owned()));
    }
    manager.set_metadata(metadata.clone());
    Ok((manager, metadata))
}

/// Checks that a URL is reached by TLS, or is on this machine together with the server. Such a URL receives a secret,
/// or is believed.
fn check(server: &Url, what: &str, url: &str) -> Result<(), Failed> {
    let wrong = |why: &str| Failed::Wrong(format!("{what} is {url:?}, {why}"));
    let url = Url::parse(url).map_err(|_error| wrong("which is no URL"))?;
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) && is_loopback(server) => Ok(()),
        _ => Err(wrong("which others may read")),
    }
}

/// The authorization server's unusual metadata.
pub(super) fn says(metadata: &AuthorizationMetadata, name: &str) -> bool {
    metadata.additional_fields.get(name).and_then(serde_json::Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_by_tls_or_stay_on_this_machine() {
        let is_believed = |server: &str, url: &str| check(&server.parse().unwrap(), "it", url).is_ok();
        assert!(is_believed("https://a.example/mcp", "https://b.example/token"));
        assert!(is_believed("http://127.0.0.1:8080/mcp", "http://localhost:9/token"));
        assert!(!is_believed("https://a.example/mcp", "http://b.example/token"));
        assert!(!is_believed("https://a.example/mcp", "http://127.0.0.1/token"));
        assert!(!is_believed("http://127.0.0.1:8080/mcp", "http://b.example/token"));
        assert!(!is_believed("https://a.example/mcp", "file:///etc/passwd"));
        assert!(!is_believed("https://a.example/mcp", "javascript:alert(1)"));
        assert!(!is_believed("https://a.example/mcp", "--version"));
    }
}
