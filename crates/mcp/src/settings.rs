//! The operator's settings for the MCP endpoint.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::limits::PollLimit;
use longhaul_core::settings::table::Responses;
use longhaul_core::settings::{Number, Setting, SettingsError, Values, table};
use longhaul_core::{Principal, Scopes};
use longhaul_engine::Settings;
use rmcp::model::Implementation;

/// How much of a request remains after its longest wait, for the last read and the answer.
const ANSWER_MS: u64 = 5_000;

/// The longest stream that is delivered only when it ends.
const BUFFERED_MS_MAX: u64 = 20_000;

/// Keys, times and limits of the MCP endpoint. All times in milliseconds.
#[derive(Clone)]
pub struct McpSettings {
    /// The secret from which all keys of the server are derived. These keys sign the values that clients carry between
    /// their requests, and derive the ids of tasks that clients name themselves. The secret never changes, and is the
    /// same in every process that answers requests.
    pub secret: [u8; 32],
    /// How long a client may take between two rounds of questions of a plain call.
    pub state_ms_max: u64,
    /// How long a `subscriptions/listen` stream stays open, at most.
    pub listen_ms_max: u64,
    /// How often a request that waits reads its tasks, or its answer, in case another process has changed them. Changes
    /// by this process are seen at once.
    pub listen_poll_ms: u64,
    /// Tasks that one `subscriptions/listen` request may name.
    pub listen_tasks_max: usize,
    /// How long a plain call of an older revision waits for the client's answer to a question.
    pub ask_ms_max: u64,
    /// How long `tasks/result` waits for a task's end before it closes the connection and lets the client reconnect.
    pub result_ms_max: u64,
    /// After how long the client should reconnect then.
    pub retry_ms: u64,
    /// The meaning of callers that were not identified.
    pub anonymous_callers: AnonymousCallers,
    /// How long a client without tasks waits for the answer of a tool that may become a task, before it gets a job id
    /// instead. `get_job_status` waits as long. 0 gives the id at once.
    pub inline_wait_ms: u64,
    /// How often an idle stream sends a comment, so that no proxy closes it.
    pub keep_alive_ms: u64,
    /// How long a tool may sleep in a plain call, over all its sleeps.
    pub plain_wait_ms_max: u64,
    /// The limit for polls that come much faster than a task's poll interval. Each process counts on its own.
    pub poll_limit: PollLimit,
    /// How many streams and waits one owner may have open at a time; `None` for any number.
    pub streams_max: Option<u32>,
    /// Where they are counted.
    pub streams_counted: StreamsCounted,
    /// Which scopes requests need.
    pub scopes: NeededScopes,
    /// The scopes of a token whose bearer sees the tasks of all owners; empty if no token gives that permission.
    pub operator_scopes: BTreeSet<String>,
    /// The name and the version of a server whose handler says nothing of either: `rmcp` would give it its own.
    pub server_info: Option<Implementation>,
}

/// Which scopes requests need of callers who come with scopes. Where there are several, all of them are needed; where
/// there is none, a request needs none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededScopes {
    /// To call tools, and to answer what they ask.
    pub call: BTreeSet<String>,
    /// To poll tasks, fetch their results, list them, and subscribe to them.
    pub read: BTreeSet<String>,
    /// To cancel tasks and calls.
    pub cancel: BTreeSet<String>,
    /// The scopes for single tools, by their names, in addition to those of `call` and those of the tools' policies.
    pub tools: BTreeMap<String, BTreeSet<String>>,
}

impl NeededScopes {
    const NONE: Self =
        Self { call: BTreeSet::new(), read: BTreeSet::new(), cancel: BTreeSet::new(), tools: BTreeMap::new() };

    /// Whether no request needs any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        [&self.call, &self.read, &self.cancel].into_iter().chain(self.tools.values()).all(BTreeSet::is_empty)
    }

    /// The scopes of methods: those that a client needs to use tools without scopes of their own.
    #[must_use]
    pub fn of_methods(&self) -> BTreeSet<String> {
        [&self.call, &self.read, &self.cancel].into_iter().flatten().cloned().collect()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> BTreeSet<String> {
        self.of_methods().into_iter().chain(self.tools.values().flatten().cloned()).collect()
    }

    pub(crate) fn of_call(&self, tool: &str) -> impl Iterator<Item = &String> {
        self.call.iter().chain(self.tools.get(tool).into_iter().flatten())
    }
}

/// Where the open streams and waits of an owner are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamsCounted {
    /// In this process: for a server that is one process.
    InProcess,
    /// In the store, for many processes with one request each: one write for each stream, which counts for as long as
    /// it may last.
    InStore,
}

/// The meaning of callers that were not identified. All of them are one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnonymousCallers {
    /// Anyone. Only its id protects a task (MCP `2025-11-25`, "Task Isolation and Access Control"), so these callers
    /// may not list tasks. Values that they choose, such as tokens and idempotency keys, are valid within their session
    /// only.
    AnonymousCallers,
    /// One and the same user, who may list the tasks, and finds them by tokens and keys from any session.
    OneUser,
}

impl McpSettings {
    /// Whether this caller sees the tasks of all owners. A caller with a token needs the operator's scopes. A caller
    /// without a token is an operator only on a server for one user, and its address never matters.
    pub(crate) fn has_operator(&self, caller: &Principal) -> bool {
        match &caller.scopes {
            Scopes::Unrestricted => caller.identity.is_none() && self.anonymous_callers == AnonymousCallers::OneUser,
            Scopes::Granted(granted) => !self.operator_scopes.is_empty() && self.operator_scopes.is_subset(granted),
        }
    }

    /// The defaults, with this secret.
    #[must_use]
    pub const fn new(secret: [u8; 32]) -> Self {
        Self {
            secret,
            state_ms_max: 15 * 60 * 1_000,
            listen_ms_max: 5 * 60 * 1_000,
            listen_poll_ms: 250,
            listen_tasks_max: 100,
            ask_ms_max: 5 * 60 * 1_000,
            result_ms_max: 5 * 60 * 1_000,
            retry_ms: 1_000,
            anonymous_callers: AnonymousCallers::AnonymousCallers,
            inline_wait_ms: 20_000,
            keep_alive_ms: 15_000,
            plain_wait_ms_max: 20_000,
            poll_limit: PollLimit::Off,
            streams_max: None,
            streams_counted: StreamsCounted::InProcess,
            scopes: NeededScopes::NONE,
            operator_scopes: BTreeSet::new(),
            server_info: None,
        }
    }
}

/// The operator's settings for a server in every form: as one process, in containers, as Lambda functions.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Times and limits of the engine.
    pub engine: Settings,
    /// Without its secret.
    endpoint: McpSettings,
}

impl ServerSettings {
    /// The settings that `values` hold. Settings that this form of server does not read have their defaults.
    pub fn of(values: &Values) -> Result<Self, SettingsError> {
        Ok(Self { engine: engine(values)?, endpoint: endpoint(values)? })
    }

    /// The settings of the MCP endpoint, with this secret.
    #[must_use]
    pub fn mcp(&self, secret: [u8; 32]) -> McpSettings {
        McpSettings { secret, ..self.endpoint.clone() }
    }
}

fn engine(values: &Values) -> Result<Settings, SettingsError> {
    let default = Settings::default();
    let attempt_ms_max = values.find(&table::ATTEMPT_MS)?;
    Ok(Settings {
        lease_ms: values.get(&table::LEASE_MS)?,
        heartbeat_ms: values.get(&table::HEARTBEAT_MS)?,
        progress_ms: values.get(&table::PROGRESS_MS)?,
        cleanup_ms: values.get(&table::CLEANUP_MS)?,
        resend_ms: values.get(&table::RESEND_MS)?,
        attempt_ms_max,
        attempt_margin_ms: attempt_ms_max
            .map_or(default.attempt_margin_ms, |attempt_ms| default.attempt_margin_ms.min(attempt_ms / 4)),
        stop_grace_ms: values.find(&table::DRAIN_MS)?.unwrap_or(default.stop_grace_ms),
        open_tasks_max: count(values, &table::OPEN_TASKS_MAX)?.unwrap_or(default.open_tasks_max),
        stored_bytes_max: values.get(&table::STORED_MB_MAX)? << 20,
        new_tasks_max: count(values, &table::NEW_TASKS_PER_MINUTE_MAX)?,
        ..default
    })
}

fn endpoint(values: &Values) -> Result<McpSettings, SettingsError> {
    let default = McpSettings::new([0; 32]);
    // A wait that is set longer than a request may take still ends before the request.
    let longest_ms = values.find(&table::REQUEST_S_MAX)?.map_or(u64::MAX, |seconds| seconds * 1_000 - ANSWER_MS);
    let is_buffered = values.find(&table::RESPONSES)? == Some(Responses::Buffered);
    let longest_listen_ms = if is_buffered { longest_ms.min(BUFFERED_MS_MAX) } else { longest_ms };
    let listen_ms_max = values.find(&table::LISTEN_MS_MAX)?.unwrap_or(default.listen_ms_max).min(longest_listen_ms);
    let inline_wait_ms = values.find(&table::INLINE_WAIT_S)?.map_or(default.inline_wait_ms, |seconds| seconds * 1_000);
    Ok(McpSettings {
        listen_ms_max,
        result_ms_max: listen_ms_max,
        ask_ms_max: listen_ms_max,
        inline_wait_ms: inline_wait_ms.min(longest_ms),
        plain_wait_ms_max: default.plain_wait_ms_max.min(longest_ms),
        poll_limit: values.find(&table::POLL_LIMIT)?.unwrap_or(default.poll_limit),
        streams_max: count(values, &table::OWNER_STREAMS_MAX)?,
        scopes: NeededScopes {
            call: values.find(&table::SCOPE_CALL)?.unwrap_or_default(),
            read: values.find(&table::SCOPE_READ)?.unwrap_or_default(),
            cancel: values.find(&table::SCOPE_CANCEL)?.unwrap_or_default(),
            ..NeededScopes::NONE
        },
        operator_scopes: values.find(&table::SCOPE_OPERATOR)?.unwrap_or_default(),
        ..default
    })
}

fn count(values: &Values, setting: &Setting<Number>) -> Result<Option<u32>, SettingsError> {
    Ok(values.find(setting)?.and_then(|count| u32::try_from(count).ok()))
}

impl std::fmt::Debug for McpSettings {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpSettings")
            .field("listen_ms_max", &self.listen_ms_max)
            .field("listen_poll_ms", &self.listen_poll_ms)
            .field("plain_wait_ms_max", &self.plain_wait_ms_max)
            .finish_non_exhaustive()
    }
}
