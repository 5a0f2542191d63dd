//! Where a server is, and what shows it who calls.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use reqwest::{Request, StatusCode};
use url::Url;

use crate::error::Error;

/// A server, and what is sent to it with every request.
#[derive(Clone)]
pub struct Target {
    /// Its MCP endpoint.
    pub url: Url,
    /// Headers, which may be secrets.
    pub headers: HeaderMap,
    /// The credentials, if headers are not enough.
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

/// A refusal of a server that wants to know who calls, or to know it better.
#[derive(Debug)]
pub struct Challenge<'a> {
    /// 401 or 403.
    pub status: StatusCode,
    /// The header `WWW-Authenticate`, as it came.
    pub text: Option<&'a str>,
    /// The headers of the refused request, with the credentials that were not enough.
    pub sent: &'a HeaderMap,
}

/// The credentials of a caller: a signature, or a token. Each request gets its own.
pub trait Credentials: Send + Sync {
    /// Adds to a request, which is complete otherwise, what shows who sends it.
    ///
    /// The future fails if there is nothing that could be added.
    fn add<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>>;

    /// Whether a refused request should be sent once more with the headers that [`add`](Self::add) adds now.
    ///
    /// The future fails if the user has to do something first.
    fn renew<'a>(&'a self, challenge: &'a Challenge<'a>) -> BoxFuture<'a, Result<bool, Error>>;
}
