//! Where a server is.

use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderMap;
use url::Url;

use crate::credentials::Credentials;

/// A server, and what is sent to it with every request.
#[derive(Clone)]
pub struct Target {
    /// Its MCP endpoint.
    pub url: Url,
    /// Headers, which may be secrets.
    pub headers: HeaderMap,
    /// What shows it who calls, if headers are not enough.
    pub credentials: Option<Arc<dyn Credentials>>,
}

impl Target {
    /// A server that needs no headers.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self { url, headers: HeaderMap::new(), credentials: None }
    }
}

impl fmt::Debug for Target {
    /// Without the values of headers and the query, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}
