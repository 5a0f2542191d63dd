//! The operator's settings of the functions, read once from the environment. The settings themselves are declared
//! in [`table`].

use std::collections::BTreeMap;

use http::HeaderName;
use longhaul_core::ToolClass;
use longhaul_core::logs::Payloads;
use longhaul_core::settings::table::{self, Audit, Callers};
pub use longhaul_core::settings::table::{IamOwner, Responses};
use longhaul_core::settings::{EnvSource, Flags, Place, SettingsError, Values};
use longhaul_http::WebOrigin;
use longhaul_http::oauth::OauthConfig;
use longhaul_http::webhooks::Reach;
use longhaul_mcp::{McpSettings, ServerSettings, StreamsCounted};

use crate::{Auth, OnBehalf, TokenClaims};

/// How often a waiting request reads its task. Each time is one DynamoDB read for each task, and the waiting function
/// is billed: a thousand reads cost less than the seconds between them.
const LISTEN_POLL_MS: u64 = 1_000;

/// The settings of both functions.
#[derive(Clone, Debug)]
pub struct Common {
    /// The DynamoDB table.
    pub table: String,
    /// The URL of the work queue.
    pub queue_url: String,
    /// The URLs of the queues of classes that have one.
    pub class_queues: BTreeMap<ToolClass, String>,
    /// The namespace of the metrics in CloudWatch.
    pub metrics_namespace: String,
    /// The filter of the log, as `tracing` filter directives.
    pub log: String,
    /// Whether arguments and results may be logged.
    pub log_payloads: Payloads,
    /// Whether there is an audit log.
    pub audit: Audit,
    /// Times and limits of the engine and of the MCP endpoint.
    pub server: ServerSettings,
}

/// The settings of the API function.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// The settings of both functions.
    pub common: Common,
    /// How callers are identified.
    pub auth: Auth,
    /// How answers are sent.
    pub responses: Responses,
    /// The origins of web pages that may call the server.
    pub allow_origins: Vec<WebOrigin>,
}

/// The settings of the worker function, and of the one that takes dead letters.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// The settings of both functions.
    pub common: Common,
    /// The URL of the queue that dead letters go to: records from there are dead letters.
    pub dead_letter_queue_url: String,
    /// Attempts that one sandbox runs at a time.
    pub concurrency: usize,
    /// Attempts of one owner that all sandboxes together run at a time; `None` for any number.
    pub owner_attempts_max: Option<u32>,
    /// The ARNs of the secrets that tools read, by the tools' names for them.
    pub secret_arns: BTreeMap<String, String>,
    /// The endpoints of webhooks, as JSON; `None` without any.
    pub webhooks: Option<String>,
    /// Which addresses webhooks are sent to.
    pub reach: Reach,
    /// The event bus for ends of tasks. It makes the function one that [publishes](crate::Publisher).
    pub event_bus: Option<String>,
    /// The URL of the queue for changes that could not be published, which was made when publishing was switched on.
    pub not_published_queue_url: Option<String>,
}

impl ApiConfig {
    /// Reads the configuration of the API function.
    pub fn read(env: &dyn EnvSource) -> Result<Self, SettingsError> {
        Self::of(&Values::read(Place::Api, &[&table::ALL], &Flags::new(), env)?)
    }

    /// The configuration of the API function from `values`, which may have an application's settings too.
    pub fn of(values: &Values) -> Result<Self, SettingsError> {
        Ok(Self {
            common: common(values)?,
            auth: auth(values)?,
            responses: values.get(&table::RESPONSES)?,
            allow_origins: allow_origins(values)?,
        })
    }

    /// The settings of the MCP endpoint. `secret` is the same in all instances.
    #[must_use]
    pub fn mcp(&self, secret: [u8; 32]) -> McpSettings {
        McpSettings {
            listen_poll_ms: LISTEN_POLL_MS,
            // Each instance has one request at a time.
            streams_counted: StreamsCounted::InStore,
            ..self.common.server.mcp(secret)
        }
    }
}

fn allow_origins(values: &Values) -> Result<Vec<WebOrigin>, SettingsError> {
    let listed = values.find(&table::ALLOW_ORIGIN)?.unwrap_or_default();
    WebOrigin::listed(&listed).map_err(|error| values.refuse(&table::ALLOW_ORIGIN, &listed, &error.to_string()))
}

impl WorkerConfig {
    /// Reads the configuration of the worker function.
    pub fn read(env: &dyn EnvSource) -> Result<Self, SettingsError> {
        Self::of(&Values::read(Place::Worker, &[&table::ALL], &Flags::new(), env)?)
    }

    /// The configuration of the worker function from `values`, which may have an application's settings too.
    pub fn of(values: &Values) -> Result<Self, SettingsError> {
        Ok(Self {
            common: common(values)?,
            dead_letter_queue_url: values.get(&table::DEAD_LETTER_QUEUE_URL)?,
            concurrency: usize::try_from(values.get(&table::CONCURRENCY)?).unwrap_or(usize::MAX),
            owner_attempts_max: values.find(&table::OWNER_CONCURRENCY)?.and_then(|max| u32::try_from(max).ok()),
            secret_arns: secret_arns(values)?,
            webhooks: values.find(&table::WEBHOOKS)?,
            reach: if values.get(&table::WEBHOOKS_TO_THIS_MACHINE)? { Reach::ThisMachineToo } else { Reach::Public },
            event_bus: values.find(&table::EVENT_BUS)?,
            not_published_queue_url: values.find(&table::NOT_PUBLISHED_QUEUE_URL)?,
        })
    }
}

fn common(values: &Values) -> Result<Common, SettingsError> {
    let mut server = ServerSettings::of(values)?;
    // The function's own deadline ends an attempt.
    server.engine.attempt_ms_max = None;
    Ok(Common {
        table: values.get(&table::TABLE)?,
        queue_url: values.get(&table::QUEUE_URL)?,
        class_queues: class_queues(values)?,
        metrics_namespace: values.get(&table::METRICS)?,
        log: values.get(&table::LOG)?,
        log_payloads: values.get(&table::LOG_PAYLOADS)?.into(),
        audit: values.get(&table::AUDIT)?,
        server,
    })
}

/// The names of the secrets of tools and their ARNs, which are two lists because a template cannot take one apart. The
/// secrets of webhooks follow, which tools do not read. A function that runs no tools gets no ARNs.
fn secret_arns(values: &Values) -> Result<BTreeMap<String, String>, SettingsError> {
    let names = values.find(&table::SECRET_NAMES)?.unwrap_or_default();
    let arns = values.find(&table::SECRET_ARNS)?.unwrap_or_default();
    let refuse = |why: &str| Err(values.refuse(&table::SECRET_NAMES, &names, why));
    if names.len() > arns.len() && !arns.is_empty() {
        let why = format!("it needs no more names than LONGHAUL_SECRET_ARNS has entries: {}", arns.len());
        return refuse(&why);
    }
    if !names.iter().all(|name| table::is_name(name)) {
        return refuse("a name has a letter or `_` first, then letters, digits and `_`, 128 at most");
    }
    let plain = values.find(&table::TOOL_ENV)?.unwrap_or_default();
    if let Some(name) = names.iter().find(|name| plain.contains_key(*name)) {
        return refuse(&format!("`{name}` is in LONGHAUL_TOOL_ENV too: leave one of them out"));
    }
    if arns.is_empty() {
        return Ok(BTreeMap::new());
    }
    let by_name: BTreeMap<_, _> = names.iter().cloned().zip(arns).collect();
    if by_name.len() < names.len() {
        return refuse("each name must be there once");
    }
    Ok(by_name)
}

fn class_queues(values: &Values) -> Result<BTreeMap<ToolClass, String>, SettingsError> {
    let urls = values.find(&table::CLASS_QUEUES)?.unwrap_or_default();
    // The setting allows only names of classes.
    Ok(urls.into_iter().filter_map(|(class, url)| Some((ToolClass::parse(&class)?, url))).collect())
}

fn auth(values: &Values) -> Result<Auth, SettingsError> {
    let auth = values.get(&table::AUTH)?;
    match auth {
        Callers::Iam => {
            let owner = values.get(&table::IAM_OWNER)?;
            Ok(on_behalf(values)?.map_or(Auth::Iam(owner), |trusted| Auth::IamOnBehalf(owner, trusted)))
        }
        Callers::Gateway => {
            let owner = values.find(&table::OAUTH_OWNER_CLAIM)?;
            let claims = TokenClaims { owner, visible: values.find(&table::OAUTH_CLAIMS)?.unwrap_or_default() };
            let names_issuer = values.find(&table::OAUTH_ISSUER)?.is_some_and(|issuers| !issuers.is_empty());
            let published = names_issuer.then(|| OauthConfig::of(values).map(Box::new)).transpose()?;
            Ok(Auth::Gateway(claims, published))
        }
        Callers::Oauth => Ok(Auth::Oauth(Box::new(OauthConfig::of(values)?))),
        Callers::Anonymous => Ok(Auth::Anonymous),
        Callers::Bearer => values.find(&table::TOKEN_PARAMETER)?.map(Auth::Bearer).ok_or_else(|| {
            let why = "it needs the parameter of SSM that has the tokens: set LONGHAUL_TOKEN_PARAMETER";
            values.refuse(&table::AUTH, &auth, why)
        }),
        Callers::Loopback => {
            let why = "only a local server identifies callers in this way: it must be `bearer`, `iam`, `gateway`, \
                       `oauth` or `anonymous`";
            Err(values.refuse(&table::AUTH, &auth, why))
        }
    }
}

/// The role that says for which user it calls, if there is one.
fn on_behalf(values: &Values) -> Result<Option<OnBehalf>, SettingsError> {
    let (role, header) = (values.find(&table::IAM_ON_BEHALF_ROLE)?, values.find(&table::IAM_ON_BEHALF_HEADER)?);
    let (role, name) = match (role, header) {
        (None, None) => return Ok(None),
        (Some(role), Some(header)) => (role, header),
        (Some(role), None) => {
            let why = "it needs the header in which the role names its users: set LONGHAUL_IAM_ON_BEHALF_HEADER";
            return Err(values.refuse(&table::IAM_ON_BEHALF_ROLE, &role, why));
        }
        (None, Some(header)) => {
            let why = "it needs the role that may send it: set LONGHAUL_IAM_ON_BEHALF_ROLE";
            return Err(values.refuse(&table::IAM_ON_BEHALF_HEADER, &header, why));
        }
    };
    if !role.starts_with("AROA") || !role.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()) {
        let why = "it must be the unique id of a role, which begins with AROA: \
                   `aws iam get-role --role-name NAME --query Role.RoleId` prints it";
        return Err(values.refuse(&table::IAM_ON_BEHALF_ROLE, &role, why));
    }
    let taken = ["x-amz", "x-forwarded-", "x-api-key"];
    let is_free = name.starts_with("x-") && !taken.iter().any(|prefix| name.starts_with(prefix));
    // `HeaderName` has no capital letters, and headers arrive without them.
    match HeaderName::try_from(name.as_str()).ok().filter(|header| is_free && header.as_str() == name) {
        Some(header) => Ok(Some(OnBehalf { role, header })),
        None => {
            let why = "it must be a header that nothing else uses, in lower case: it begins with `x-`, but not with \
                       `x-amz`, `x-forwarded-` or `x-api-key`";
            Err(values.refuse(&table::IAM_ON_BEHALF_HEADER, &name, why))
        }
    }
}

#[cfg(test)]
mod tests;
