//! How a server is reached, with everything that a configuration says of it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longhaul_client::Credentials;
use rmcp::model::ProtocolVersion;
use url::Url;

use crate::limits;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A process is started.
    Child(Launch),
    /// It runs somewhere.
    Http(Endpoint),
    /// This process cannot reach the server, for this reason. A lock file has the server's lists, and another process
    /// may reach it.
    Elsewhere(String),
}

/// How a process is started.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// The whole environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<PathBuf>,
}

impl std::fmt::Debug for Launch {
    /// Without arguments and values, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.env.keys().collect();
        f.debug_struct("Launch").field("command", &self.command).field("env", &names).finish_non_exhaustive()
    }
}

/// The URL of a server, and the headers of every request to it. They contain nothing that a caller sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) headers: Headers,
    /// Where further headers are from, which are renewed.
    pub(crate) credentials: Option<Source>,
}

impl std::fmt::Debug for Endpoint {
    /// Without the values of headers and the query, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// Headers by name; a name that is given twice has its last value.
pub(crate) type Headers = HashMap<http::HeaderName, http::HeaderValue>;

/// Headers that the protocol sets.
pub(crate) const RESERVED: [&str; 5] =
    ["accept", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

/// Where credentials are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Read with each request: a JSON object of headers, or a token.
    File(PathBuf),
    /// The output of a command has the same form.
    Command(Launch),
    Client(ClientCredentials),
    Login(Login),
}

/// A client of an authorization server (OAuth 2.1, client credentials).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClientCredentials {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token_url: Url,
    pub(crate) scope: Option<String>,
}

impl std::fmt::Debug for ClientCredentials {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCredentials").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A sign-in that the program which runs the gateway has; `None` if it has none. All are the same: each belongs to the
/// URL of its server.
#[derive(Clone, Default)]
pub(crate) struct Login(pub(crate) Option<Arc<dyn Credentials>>);

impl PartialEq for Login {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Login {}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

/// How a server begins a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// `initialize`, up to revision `2025-11-25`.
    Handshake,
    /// Self-contained requests, from revision `2026-07-28`.
    PerRequest,
}

impl Lifecycle {
    pub(crate) fn of(version: &ProtocolVersion) -> Self {
        if version.has_initialize() { Self::Handshake } else { Self::PerRequest }
    }
}

/// How long connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keeping {
    /// How long one may be idle.
    pub(crate) idle_max: Duration,
    /// How many calls one may have.
    pub(crate) calls_max: usize,
}

impl Default for Keeping {
    fn default() -> Self {
        Self { idle_max: limits::IDLE_MAX, calls_max: limits::CALLS_MAX }
    }
}
