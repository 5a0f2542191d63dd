//! Which servers are behind the gateway, and on which terms their tools run.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul::settings::EnvSource;
use longhaul_client::Credentials;

use crate::target::{Endpoint, Launch, Login, Source, Target};

mod choice;
mod credentials;
mod error;
mod fold;
#[cfg(feature = "lambda")]
pub(crate) mod in_function;
mod outside;
mod read;
mod reader;
mod server;
mod terms;

pub(crate) use choice::Choice;
pub use error::ConfigError;
use error::Fault;
pub(crate) use fold::{Fold, Pointer};
pub(crate) use outside::{Kind, OutsideJob};
use reader::NotSet;
pub(crate) use reader::{is_of_names, nearest, unknown};
use server::environment;
pub(crate) use server::{ResourceUpdates, Server};
pub use terms::Repeat;
pub(crate) use terms::{Durable, Pattern, Terms};

/// Which servers are behind the gateway, and on which terms their tools run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(crate) servers: Vec<Server>,
    /// Tools that are jobs of other systems.
    pub(crate) jobs: Vec<OutsideJob>,
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
        Self::read(text, env, NotSet::Mistake)
    }

    fn read(text: &str, env: &dyn EnvSource, not_set: NotSet) -> Result<Self, ConfigError> {
        read::config(text, env, not_set).map(|(servers, jobs)| Self { servers, jobs })
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
        let config = Self::read(text, env, NotSet::Elsewhere)?;
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

#[cfg(test)]
mod tests;
