//! Which servers are behind the gateway, and on which terms their tools run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul::settings::EnvSource;
use longhaul_client::Credentials;

use crate::limits;
use crate::upstream::credentials::{Login, Source};
use crate::upstream::http::Endpoint;
use crate::upstream::process::Launch;
use crate::upstream::{Keeping, Lifecycle, Target};

mod choice;
mod credentials;
mod fold;
#[cfg(feature = "lambda")]
pub(crate) mod in_function;
mod outside;
mod read;
mod reader;
mod terms;

pub(crate) use choice::Choice;
pub(crate) use fold::{Fold, Pointer};
pub(crate) use outside::{Kind, OutsideJob};
pub(crate) use reader::{is_of_names, nearest, unknown};
pub use terms::Repeat;
pub(crate) use terms::{Durable, Pattern, Terms};

/// The variables of its own environment that the gateway passes to every server. Programs need them to run, and to
/// reach other machines through a proxy or with certificates of a company.
const PASSED_ON: [&str; 16] = [
    "HOME",
    "LANG",
    "PATH",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Which servers are behind the gateway, and on which terms their tools run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(crate) servers: Vec<Server>,
    /// Tools that are jobs of other systems.
    pub(crate) jobs: Vec<OutsideJob>,
}

/// One server of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) target: Target,
    /// The prefix of its tools' and prompts' names; `None` for its name and `_` if there are several servers.
    pub(crate) prefix: Option<String>,
    /// The lifecycle to speak; `None` to find out.
    pub(crate) lifecycle: Option<Lifecycle>,
    pub(crate) start_max: Duration,
    pub(crate) concurrency: usize,
    /// How long its processes or connections are kept between calls, if they are.
    pub(crate) keeping: Option<Keeping>,
    pub(crate) terms: Terms,
    /// For its tools with such names.
    pub(crate) tools: Vec<(Pattern, Terms)>,
    /// Which of them clients see.
    pub(crate) choice: Choice,
    /// Tools of it that are shown as one.
    pub(crate) folds: Vec<Fold>,
    pub(crate) resource_updates: ResourceUpdates,
}

/// Whether clients are notified of changes of a server's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceUpdates {
    PassedOn,
    /// A function cannot stay connected to a server.
    #[cfg(feature = "lambda")]
    Unheard,
}

impl Server {
    fn new(name: &str, target: Target) -> Self {
        Self {
            name: name.to_owned(),
            target,
            prefix: None,
            lifecycle: None,
            start_max: limits::START_MAX,
            concurrency: limits::CONCURRENCY,
            keeping: None,
            terms: Terms::default(),
            tools: Vec::new(),
            choice: Choice::default(),
            folds: Vec::new(),
            resource_updates: ResourceUpdates::PassedOn,
        }
    }

    /// Whether the two are reached in the same way, so that processes and connections of one are those of the other.
    pub(crate) fn is_reached_as(&self, other: &Self) -> bool {
        let way = |server: &Self| {
            (server.name.clone(), server.target.clone(), server.lifecycle, server.start_max, server.concurrency)
        };
        way(self) == way(other) && self.keeping == other.keeping
    }

    /// The names of tools in its section, with the members that have them.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'static str, &Pattern)> {
        self.tools.iter().map(|(pattern, _)| ("tools", pattern)).chain(self.choice.names())
    }

    /// The terms of its tool: each from the pattern that says most about the name, otherwise the server's own.
    pub(crate) fn terms_of(&self, tool: &str) -> Terms {
        let mut matching: Vec<_> = self.tools.iter().filter(|(pattern, _)| pattern.matches(tool)).collect();
        matching.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.weight()));
        let named = matching.into_iter().fold(Terms::default(), |terms, (_, more)| terms.or(more));
        named.or(&self.terms)
    }
}

impl Config {
    /// One server, which is started by a command. It gets the variables `named`. From `env` it gets only `PATH`,
    /// `HOME`, `LANG` and the variables of the proxy and of certificates.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use longhaul::settings::ProcessEnv;
    /// use longhaul_gateway::Config;
    ///
    /// let args = ["-y", "@modelcontextprotocol/server-everything"].map(str::to_owned);
    /// let config = Config::command("npx", args, BTreeMap::new(), &ProcessEnv);
    /// ```
    pub fn command(
        command: &str,
        args: impl IntoIterator<Item = String>,
        named: BTreeMap<String, String>,
        env: &dyn EnvSource,
    ) -> Self {
        let launch = Launch {
            command: command.to_owned(),
            args: args.into_iter().collect(),
            env: environment(named, env),
            cwd: None,
        };
        Self { servers: vec![Server::new("upstream", Target::Child(launch))], jobs: Vec::new() }
    }

    /// The servers of a configuration as clients have it: `mcpServers` of Claude Desktop, Claude Code and Cursor, or
    /// `servers` of VS Code. Its section `longhaul` has the terms. `${VAR}`, `${VAR:-default}` and `${env:VAR}` stand
    /// for variables of `env`.
    ///
    /// ```
    /// use longhaul::settings::ProcessEnv;
    /// use longhaul_gateway::Config;
    ///
    /// let text = r#"{
    ///     "mcpServers": {
    ///         "git": { "command": "uvx", "args": ["mcp-server-git"] },
    ///         "search": { "type": "http", "url": "https://search.example.com/mcp" }
    ///     },
    ///     "longhaul": { "servers": { "git": { "tools": { "git_commit": { "repeat": "never" } } } } }
    /// }"#;
    /// assert!(Config::from_json(text, &ProcessEnv).is_ok());
    ///
    /// let error = Config::from_json(r#"{"mcpServers": {"git": {"comand": "uvx"}}}"#, &ProcessEnv).unwrap_err();
    /// assert!(error.to_string().starts_with("/mcpServers/git: it has neither `command` nor `url`"), "{error}");
    /// ```
    pub fn from_json(text: &str, env: &dyn EnvSource) -> Result<Self, ConfigError> {
        read::config(text, env, reader::NotSet::Mistake)
    }

    /// Has servers with `"login": true` use the sign-ins that `of` finds by their URLs.
    #[must_use]
    pub fn signed_in(mut self, of: impl Fn(&url::Url) -> Option<Arc<dyn Credentials>>) -> Self {
        for server in &mut self.servers {
            if let Target::Http(Endpoint { url, credentials: Some(Source::Login(login)), .. }) = &mut server.target {
                *login = Login(of(url));
            }
        }
        self
    }

    /// The AWS permissions that the external jobs of such a configuration need, as the document of an IAM policy. A
    /// variable that is not set is not a mistake unless the policy depends on it.
    pub fn iam_policy(text: &str, env: &dyn EnvSource) -> Result<serde_json::Value, ConfigError> {
        let config = read::config(text, env, reader::NotSet::Elsewhere)?;
        let (mut rights, mut faults) = (Vec::new(), Vec::new());
        for job in &config.jobs {
            match &job.kind {
                Ok(kind) => rights.extend(kind.rights()),
                // Nothing of AWS.
                Err(_) if !job.system.starts_with("aws-") => {}
                Err(why) => faults.push(Fault { pointer: job.place.clone(), what: why.clone() }),
            }
        }
        if faults.is_empty() { Ok(crate::jobs::Rights::policy(&rights)) } else { Err(ConfigError { faults }) }
    }

    /// Where the server of this name is in such a configuration: its URL, and the headers that are sent to it. The
    /// other servers may have mistakes.
    ///
    /// # Errors
    /// [`ConfigError`] if the server does not exist, or it has mistakes, or is started by a command.
    pub fn endpoint_of(
        text: &str,
        name: &str,
        env: &dyn EnvSource,
    ) -> Result<(url::Url, http::HeaderMap), ConfigError> {
        let endpoint = read::endpoint_of(text, name, env)?;
        Ok((endpoint.url, endpoint.headers.into_iter().collect()))
    }
}

fn environment(named: BTreeMap<String, String>, env: &dyn EnvSource) -> BTreeMap<String, String> {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), env.get(name)?.into_string().ok()?)));
    let mut all: BTreeMap<String, String> = passed_on.collect();
    all.extend(named);
    all
}

/// Headers by name; a name that is given twice has its last value.
pub(crate) type Headers = HashMap<http::HeaderName, http::HeaderValue>;

/// All mistakes in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    faults: Vec<Fault>,
}

/// A mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    /// A JSON pointer (RFC 6901), such as `/mcpServers/git/command`; empty for the whole file.
    pointer: String,
    /// The mistake, and what to write instead.
    what: String,
}

impl fmt::Display for ConfigError {
    /// One line for each mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            let place = if fault.pointer.is_empty() { "the configuration" } else { &fault.pointer };
            write!(f, "{line_break}{place}: {}", fault.what)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;
