//! The options of a local server.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::settings::table::{Callers, Console, Role};
use longhaul_core::settings::{Declared, Kind, Place, Setting, SettingsError, Values, table};
use longhaul_http::oauth::OauthConfig;
use longhaul_http::{Host, OriginPolicy, WebOrigin};
use longhaul_mcp::{AnonymousCallers, ServerSettings};
use tokio::net::TcpListener;

use super::connections::ConnectionSettings;
use super::storage::{self, Storage};
use super::webhooks::{self, WebhookSettings};
use super::{Backend, ServeError, ToolEnvError, tool_env};
use crate::ToolEnv;
use crate::serve::limits::DRAIN_MS_SHARED;
use crate::settings::ProcessEnv;

#[cfg(test)]
mod tests;

/// Defaults that a table is made for, and a file on a small machine is not.
static DEFAULTS_OF_LAMBDA: [&dyn Declared; 5] = [
    &table::LEASE_MS,
    &table::HEARTBEAT_MS,
    &table::PROGRESS_MS,
    &table::STORED_MB_MAX,
    &table::NEW_TASKS_PER_MINUTE_MAX,
];

/// The options of a local server: the settings of `docs/settings.md` that it reads, and a store and a listener of your
/// own.
///
/// [`Options::default`] has the defaults and reads nothing. [`Options::parse`] reads the flags and the environment of
/// the process; [`CommandLine`](super::CommandLine) does so for a program with its own settings.
///
/// ```
/// use longhaul::serve::{self, Options};
/// # #[derive(Clone)]
/// # struct Reports;
/// # impl longhaul::rmcp::ServerHandler for Reports {}
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let options = Options::default()
///     .listen(([127, 0, 0, 1], 0))
///     .database(folder.path().join("tasks.db"))
///     .set("concurrency", "4")
///     .set("metrics-listen", "127.0.0.1:0");
/// options.bind().await?;
/// let running = serve::start(&longhaul::Server::new(|| Reports), &options).await?;
/// assert!(running.address().ip().is_loopback() && running.metrics_address().is_some());
/// running.stop().await;
///
/// let misspelled = Options::default().set("concurency", "4").bind().await.unwrap_err();
/// assert!(misspelled.to_string().contains("`concurency` is not a setting"), "{misspelled}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    values: Values,
    /// The listener that [`Options::bind`] has bound, until a server takes it.
    bound: Arc<Mutex<Option<std::net::TcpListener>>>,
    /// Instead of the store that the values name.
    backend: Option<Backend>,
    connected: Connected,
}

/// Whose listener accepts the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Connected {
    /// That of this server, which answers about its health and serves the console too.
    #[default]
    Directly,
    /// That of the program which the server is a part of.
    ByItsHost,
}

impl Default for Options {
    /// The defaults. Neither the environment nor the arguments are read.
    fn default() -> Self {
        Values::defaults(Place::Local, &[&table::ALL]).into()
    }
}

impl From<Values> for Options {
    fn from(values: Values) -> Self {
        Self { values, bound: Arc::default(), backend: None, connected: Connected::default() }
    }
}

impl Options {
    /// The same, listening on `address`.
    #[must_use]
    pub fn listen(self, address: impl Into<SocketAddr>) -> Self {
        self.with(&table::LISTEN, address)
    }

    /// The same, with its tasks in the SQLite database `file`.
    #[must_use]
    pub fn database(self, file: impl Into<PathBuf>) -> Self {
        self.with(&table::DB, file)
    }

    /// The same, with `value` for the setting `name` of `docs/settings.md`, as its flag takes it. A name that no
    /// setting has and a value that is out of range are refused when the server starts.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.values.set_named(name, value.into());
        self
    }

    /// The same, with `value` for a setting of your own. A value that is out of range is refused when the server
    /// starts.
    #[must_use]
    pub fn with<K: Kind>(mut self, setting: &Setting<K>, value: impl Into<K::Value>) -> Self {
        self.values.set(setting, &value.into());
        self
    }

    /// The same on your own store and queue. The settings `db`, `store` and `queue` are ignored.
    #[must_use]
    pub fn on(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// The same without a listener and without a console. The program that [starts](super::start) the server passes
    /// requests on to [`Running::service`](super::Running::service).
    #[must_use]
    pub const fn mounted(mut self) -> Self {
        self.connected = Connected::ByItsHost;
        self
    }

    /// Whether it was said where tasks are stored.
    pub(super) fn has_store(&self) -> bool {
        self.backend.is_some() || self.values.is_given(&table::DB) || self.values.is_given(&table::STORE)
    }

    /// The application's own store and queue, if it has them.
    pub(super) const fn backend(&self) -> Option<&Backend> {
        self.backend.as_ref()
    }

    /// Binds the address now, for the server that starts with these options later. A program that has more to start,
    /// such as child processes, learns early whether the address is taken and the options are valid. Clients that
    /// connect meanwhile wait.
    pub async fn bind(&self) -> Result<(), ServeError> {
        let config = self.config()?;
        let address = config.listen;
        let cannot = |cause| ServeError::Listen { address, cause };
        let listener = TcpListener::bind(address).await.and_then(TcpListener::into_std).map_err(cannot)?;
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        Ok(())
    }

    /// The listeners of a server with these options.
    pub(super) async fn listeners(&self, config: &Config) -> Result<Listeners, ServeError> {
        Ok(Listeners { endpoint: self.listener(config).await?, metrics: config.metrics_listener().await? })
    }

    /// The listener that was bound before, or else is bound now; `None` if the host has the listener.
    async fn listener(&self, config: &Config) -> Result<Option<TcpListener>, ServeError> {
        if self.connected == Connected::ByItsHost {
            return Ok(None);
        }
        let address = config.listen;
        if config.callers == LocalCallers::AnonymousCallers {
            tracing::warn!(%address, "everyone who reaches this address can call every tool: a local server does not \
                                      identify callers");
        }
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listener = match bound {
            Some(listener) => TcpListener::from_std(listener),
            None => TcpListener::bind(address).await,
        };
        listener.map(Some).map_err(|cause| ServeError::Listen { address, cause })
    }

    /// All values, with those of settings that an application declared.
    #[must_use]
    pub const fn values(&self) -> &Values {
        &self.values
    }

    /// Where the server keeps its tasks and its work.
    pub(super) fn storage(&self) -> Result<Storage, SettingsError> {
        Storage::of(&self.values)
    }

    /// The environment of tools: the values of `--tool-env`, and the current values of the sources of `--secret`.
    ///
    /// # Errors
    /// [`ToolEnvError`], which names a secret that cannot be read, and repeats no part of it.
    pub fn tool_env(&self) -> Result<ToolEnv, ToolEnvError> {
        tool_env::read(&self.values, &ProcessEnv)
    }

    /// The server's configuration, after all options were checked.
    pub(crate) fn config(&self) -> Result<Config, SettingsError> {
        self.values.check()?;
        let is_shared = storage::is_shared(&self.values)?;
        let values = &match is_shared {
            true => self.values.clone().with_defaults_of(Place::Worker, &DEFAULTS_OF_LAMBDA),
            false => self.values.clone(),
        };
        let mut server = ServerSettings::of(values)?;
        if is_shared && !values.is_given(&table::DRAIN_MS) {
            server.engine.stop_grace_ms = DRAIN_MS_SHARED;
        }
        let listen = values.get(&table::LISTEN)?;
        let concurrency = usize::try_from(values.get(&table::CONCURRENCY)?).unwrap_or(usize::MAX);
        let owner_concurrency = values.find(&table::OWNER_CONCURRENCY)?;
        let owner_concurrency = owner_concurrency
            .map_or_else(|| share_of_one(concurrency), |attempts| usize::try_from(attempts).unwrap_or(usize::MAX));
        let role = values.get(&table::ROLE)?;
        let callers = callers(values, listen, role)?;
        Ok(Config {
            listen,
            metrics_listen: values.find(&table::METRICS_LISTEN)?,
            role,
            console: console(values, &callers, role)?,
            callers,
            allow_host: values.find(&table::ALLOW_HOST)?.unwrap_or_default(),
            allow_origin: allow_origin(values)?,
            concurrency,
            owner_concurrency,
            server,
            webhooks: webhooks::settings(values, is_shared)?,
            connections: ConnectionSettings::read(values)?,
        })
    }
}

/// The bound listeners of a server.
pub(super) struct Listeners {
    /// `None` if the host has it.
    pub(super) endpoint: Option<TcpListener>,
    /// `None` if the metrics are off.
    pub(super) metrics: Option<TcpListener>,
}

/// The configuration of a local server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// Where the metrics are read, if there are any.
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) role: Role,
    pub(crate) console: Console,
    pub(crate) callers: LocalCallers,
    pub(crate) concurrency: usize,
    pub(crate) owner_concurrency: usize,
    pub(crate) server: ServerSettings,
    pub(super) webhooks: Option<WebhookSettings>,
    pub(crate) connections: ConnectionSettings,
    allow_host: Vec<String>,
    allow_origin: Vec<WebOrigin>,
}

/// The callers of a local server, and the way to identify them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalCallers {
    /// Programs on this machine: one user.
    OneUser,
    /// All clients that reach the address: they are one owner.
    AnonymousCallers,
    /// Clients with a token of this file.
    WithToken(PathBuf),
    /// Clients with an access token of one of these issuers.
    WithAccessToken(Box<OauthConfig>),
}

impl LocalCallers {
    /// The treatment of callers without an identity.
    pub(crate) const fn anonymous(&self) -> AnonymousCallers {
        match self {
            Self::OneUser => AnonymousCallers::OneUser,
            Self::AnonymousCallers | Self::WithToken(_) | Self::WithAccessToken(_) => {
                AnonymousCallers::AnonymousCallers
            }
        }
    }
}

fn allow_origin(values: &Values) -> Result<Vec<WebOrigin>, SettingsError> {
    let listed = values.find(&table::ALLOW_ORIGIN)?.unwrap_or_default();
    WebOrigin::listed(&listed).map_err(|error| values.refuse(&table::ALLOW_ORIGIN, &listed, &error.to_string()))
}

/// Whether there is a console. By default there is one where every client that reaches it may do all of it anyway.
fn console(values: &Values, callers: &LocalCallers, role: Role) -> Result<Console, SettingsError> {
    let is_possible = *callers == LocalCallers::OneUser && role != Role::Worker;
    match values.find(&table::CONSOLE)? {
        None if is_possible => Ok(Console::On),
        None => Ok(Console::Off),
        Some(console) if console == Console::Off || is_possible => Ok(console),
        Some(console) => {
            let why = "it is for a process that answers requests with `--auth loopback`, where nobody logs in: leave \
                       it out, and look at the server's tasks with `longhaul console --server URL`";
            Err(values.refuse(&table::CONSOLE, &console, why))
        }
    }
}

fn callers(values: &Values, listen: SocketAddr, role: Role) -> Result<LocalCallers, SettingsError> {
    // Nobody can call a worker.
    if role == Role::Worker {
        return Ok(LocalCallers::OneUser);
    }
    let auth = values.get(&table::AUTH)?;
    let token_file = values.find(&table::TOKEN_FILE)?;
    if let (Some(file), true) = (&token_file, auth != Callers::Bearer) {
        let why = "it is used with `--auth bearer` only: name that too, or leave the file out";
        return Err(values.refuse(&table::TOKEN_FILE, file, why));
    }
    match auth {
        Callers::Loopback if listen.ip().is_loopback() => Ok(LocalCallers::OneUser),
        Callers::Loopback => {
            let why = "other machines reach this address, so say how they are let in: with tokens of your own \
                       (`--auth bearer --token-file FILE`), with those of an identity provider (`--auth oauth`), or \
                       everyone (`--auth anonymous`). Or listen on a loopback address such as 127.0.0.1:8080";
            Err(values.refuse(&table::LISTEN, &listen, why))
        }
        Callers::Anonymous => Ok(LocalCallers::AnonymousCallers),
        Callers::Bearer => token_file.map(LocalCallers::WithToken).ok_or_else(|| {
            let why = "it needs the tokens: name a file that has them with `--token-file FILE`";
            values.refuse(&table::AUTH, &auth, why)
        }),
        Callers::Oauth => {
            let config = OauthConfig::of(values)?.with_own_url(values)?;
            Ok(LocalCallers::WithAccessToken(Box::new(config)))
        }
        Callers::Iam | Callers::Gateway => {
            let why =
                "a local server identifies nobody in this way: it must be `loopback`, `bearer`, `oauth` or `anonymous`";
            Err(values.refuse(&table::AUTH, &auth, why))
        }
    }
}

impl Config {
    /// The listener of the metrics, if they are on.
    async fn metrics_listener(&self) -> Result<Option<TcpListener>, ServeError> {
        let Some(address) = self.metrics_listen else { return Ok(None) };
        let bound = TcpListener::bind(address).await;
        bound.map(Some).map_err(|cause| ServeError::MetricsListen { address, cause })
    }

    pub(crate) fn origin_policy(&self) -> OriginPolicy {
        let mut hosts: Vec<Host> = self.allow_host.iter().map(|name| Host::new(name)).collect();
        hosts.push(Host::new(&self.listen.ip().to_string()));
        if let LocalCallers::WithAccessToken(config) = &self.callers {
            hosts.extend(config.hosts().into_iter().map(|name| Host::new(&name)));
        }
        OriginPolicy::new(hosts, self.allow_origin.clone())
    }

    /// The same for the metrics. Prometheus reads those of other machines by addresses and names that no setting has.
    pub(super) fn metrics_policy(&self) -> OriginPolicy {
        match self.metrics_listen {
            Some(address) if !address.ip().is_loopback() => OriginPolicy::behind_router(self.allow_origin.clone()),
            Some(_) | None => self.origin_policy(),
        }
    }
}

/// The attempts of one owner, if the operator says nothing: all but an eighth, so that the next owner finds a free one.
fn share_of_one(concurrency: usize) -> usize {
    concurrency.saturating_sub((concurrency / 8).max(1)).max(1)
}
