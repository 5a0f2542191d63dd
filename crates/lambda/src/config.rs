//! What the operator decides about the functions, read once from the environment.

use std::collections::BTreeMap;
use std::fmt;

use longhaul_core::limits;
use longhaul_engine::Settings;
use longhaul_mcp::McpSettings;

/// What is left of a request after its longest wait, to look a last time and to answer.
const ANSWER_MS: u64 = 5_000;

/// How often a request that waits looks at its task. Each look is one read of DynamoDB for each task, and the function
/// that waits is paid for: a thousand looks cost less than the seconds between them.
const LISTEN_POLL_MS: u64 = 1_000;

/// How long a tool may sleep in a plain call, which is paid for meanwhile.
const PLAIN_WAIT_MS_MAX: u64 = 20_000;

mod reader;

pub use reader::Fault;
use reader::Reader;

/// Where settings come from: anything that maps names to texts.
pub trait EnvSource {
    /// The value of `name`, where there is one.
    fn get(&self, name: &str) -> Option<String>;
}

impl EnvSource for BTreeMap<&str, &str> {
    fn get(&self, name: &str) -> Option<String> {
        Self::get(self, name).map(|value| (*value).to_owned())
    }
}

/// Names of settings.
pub mod names {
    /// The DynamoDB table.
    pub const TABLE: &str = "LONGHAUL_TABLE";
    /// The URL of the work queue.
    pub const QUEUE_URL: &str = "LONGHAUL_QUEUE_URL";
    /// The URL of the queue that dead letters go to.
    pub const DEAD_LETTER_QUEUE_URL: &str = "LONGHAUL_DEAD_LETTER_QUEUE_URL";
    /// How callers are identified: `iam`, `gateway` or `anonymous`.
    pub const AUTH: &str = "LONGHAUL_AUTH";
    /// What of a signed caller makes the owner: `principal`, `session` or `account`.
    pub const IAM_OWNER: &str = "LONGHAUL_IAM_OWNER";
    /// Whether answers are streamed: `streamed` or `buffered`.
    pub const RESPONSES: &str = "LONGHAUL_RESPONSES";
    /// Web pages that may call the server.
    pub const ALLOW_ORIGIN: &str = "LONGHAUL_ALLOW_ORIGIN";
    /// How long the front door lets a request take.
    pub const REQUEST_S_MAX: &str = "LONGHAUL_REQUEST_S_MAX";
    /// Longest wait that keeps a connection open: a `subscriptions/listen` stream, a `tasks/result` that blocks, a
    /// question in an open call.
    pub const LISTEN_MS_MAX: &str = "LONGHAUL_LISTEN_MS_MAX";
    /// How long a client that knows no tasks waits for an answer before it is given a job id.
    pub const INLINE_WAIT_S: &str = "LONGHAUL_INLINE_WAIT_S";
    /// Legs that one sandbox of the worker runs at a time.
    pub const WORKER_CONCURRENCY: &str = "LONGHAUL_WORKER_CONCURRENCY";
    /// How long before the end of a leg no further step is begun.
    pub const LEG_MARGIN_MS: &str = "LONGHAUL_LEG_MARGIN_MS";
    /// How long a worker holds a task without a sign of life.
    pub const LEASE_MS: &str = "LONGHAUL_LEASE_MS";
    /// How often a worker gives a sign of life.
    pub const HEARTBEAT_MS: &str = "LONGHAUL_HEARTBEAT_MS";
    /// How long a message may be out before a poll sends it again.
    pub const RESEND_MS: &str = "LONGHAUL_RESEND_MS";
    /// How many unfinished tasks one owner may have; without it they are not counted.
    pub const OPEN_TASKS_MAX: &str = "LONGHAUL_OPEN_TASKS_MAX";
    /// The namespace of the metrics.
    pub const METRICS: &str = "LONGHAUL_METRICS";
    /// What to log.
    pub const LOG: &str = "LONGHAUL_LOG";
    /// Whether the shipped application offers its diagnostics tools: `true` or `false`. Only checked here, and read by the
    /// application.
    pub const DIAGNOSTICS: &str = "LONGHAUL_DIAGNOSTICS";

    /// All of them. A test holds the template to this list.
    pub const ALL: [&str; 19] = [
        TABLE,
        QUEUE_URL,
        DEAD_LETTER_QUEUE_URL,
        AUTH,
        IAM_OWNER,
        RESPONSES,
        ALLOW_ORIGIN,
        REQUEST_S_MAX,
        LISTEN_MS_MAX,
        INLINE_WAIT_S,
        WORKER_CONCURRENCY,
        LEG_MARGIN_MS,
        LEASE_MS,
        HEARTBEAT_MS,
        RESEND_MS,
        OPEN_TASKS_MAX,
        METRICS,
        LOG,
        DIAGNOSTICS,
    ];
}

/// How callers are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// By the signature that AWS checked before it invoked the function.
    Iam(IamOwner),
    /// By the token that the authorizer of an HTTP API checked before it invoked the function.
    Gateway,
    /// Not at all: everyone is one owner, and whoever knows a task's id can see the task.
    Anonymous,
}

/// What of a signed caller makes the owner of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IamOwner {
    /// The user or the role. All sessions of a role are one owner: whoever assumes a role chooses the name of the
    /// session, so that name proves nothing, and a client finds its tasks again after its credentials were renewed.
    Principal,
    /// The session of a role. For roles where the trust policy, or IAM Identity Center, decides the session's name.
    Session,
    /// The account.
    Account,
}

/// How answers leave the API function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Responses {
    /// As a stream: behind a function URL with `RESPONSE_STREAM`.
    Streamed,
    /// As a whole: behind an HTTP API, or a function URL with `BUFFERED`.
    Buffered,
}

/// What both functions need to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// The DynamoDB table.
    pub table: String,
    /// The URL of the work queue.
    pub queue_url: String,
    /// The namespace of the metrics in CloudWatch.
    pub metrics_namespace: String,
    /// What to log, as `tracing` filter directives.
    pub log: String,
    /// Times and limits of the engine.
    pub engine: Settings,
    /// Whether the limit of unfinished tasks is kept, which makes each creation and each end a transaction.
    pub open_tasks: OpenTasks,
}

/// Whether the unfinished tasks of an owner are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTasks {
    /// They are not.
    Unlimited,
    /// They are, and [`Settings::open_tasks_max`] holds.
    Limited,
}

/// What the API function needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiConfig {
    /// What both functions need to know.
    pub common: Common,
    /// How callers are identified.
    pub auth: Auth,
    /// How answers leave.
    pub responses: Responses,
    /// Web pages that may call the server, such as `https://app.example.com`.
    pub allow_origins: Vec<String>,
    /// How long a `subscriptions/listen` stream stays open, a `tasks/result` blocks, or an open call waits for the answer
    /// to a question, at the most. In milliseconds; shorter than a request may take, so that each ends in order.
    pub listen_ms_max: u64,
    /// How long a client that knows no tasks waits for the answer of a tool that may become a task, in milliseconds;
    /// shorter than a request may take.
    pub inline_wait_ms: u64,
    /// How long a tool may sleep in a plain call, in milliseconds; shorter than a request may take.
    pub plain_wait_ms_max: u64,
}

/// What the worker function needs to know, and the one that looks after dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// What both functions need to know.
    pub common: Common,
    /// The URL of the queue that dead letters go to: records from there are dead letters.
    pub dead_letter_queue_url: String,
    /// Legs that one sandbox runs at a time.
    pub concurrency: usize,
}

/// A configuration that cannot be used: all its faults, so that one deployment mends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// What is wrong, in the order in which the settings are read.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration cannot be used: ")?;
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl ApiConfig {
    /// Reads the configuration of the API function.
    ///
    /// # Errors
    /// [`ConfigError`], with every fault.
    pub fn read(env: &dyn EnvSource) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(env);
        let request_ms_max = reader.number(names::REQUEST_S_MAX, 60, 10..=900) * 1_000;
        // A wait that is set longer than a request may take ends in order all the same.
        let in_time = |wait_ms: u64| wait_ms.min(request_ms_max - ANSWER_MS);
        let config = Self {
            common: common(&mut reader),
            auth: auth(&mut reader),
            responses: reader.choice(
                names::RESPONSES,
                Responses::Streamed,
                &[("streamed", Responses::Streamed), ("buffered", Responses::Buffered)],
            ),
            allow_origins: reader.list(names::ALLOW_ORIGIN),
            listen_ms_max: in_time(reader.number(names::LISTEN_MS_MAX, 50_000, 1_000..=895_000)),
            inline_wait_ms: in_time(reader.number(names::INLINE_WAIT_S, 20, 0..=895) * 1_000),
            plain_wait_ms_max: in_time(PLAIN_WAIT_MS_MAX),
        };
        reader.finish(config)
    }

    /// What the MCP endpoint has to know. `state_key` is the same in all instances.
    #[must_use]
    pub fn mcp(&self, state_key: [u8; 32]) -> McpSettings {
        McpSettings {
            listen_ms_max: self.listen_ms_max,
            listen_poll_ms: LISTEN_POLL_MS,
            result_ms_max: self.listen_ms_max,
            ask_ms_max: self.listen_ms_max,
            inline_wait_ms: self.inline_wait_ms,
            plain_wait_ms_max: self.plain_wait_ms_max,
            ..McpSettings::new(state_key)
        }
    }
}

impl WorkerConfig {
    /// Reads the configuration of the worker function.
    ///
    /// # Errors
    /// [`ConfigError`], with every fault.
    pub fn read(env: &dyn EnvSource) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(env);
        let config = Self {
            common: common(&mut reader),
            dead_letter_queue_url: reader.url(names::DEAD_LETTER_QUEUE_URL),
            // SQS hands a function 10,000 messages at the most; a sandbox has memory for far fewer legs.
            concurrency: usize::try_from(reader.number(names::WORKER_CONCURRENCY, 1, 1..=100)).unwrap_or(1),
        };
        reader.finish(config)
    }
}

fn common(reader: &mut Reader<'_>) -> Common {
    reader.choice(names::DIAGNOSTICS, (), &[("true", ()), ("false", ())]);
    Common {
        table: reader.required(names::TABLE),
        queue_url: reader.url(names::QUEUE_URL),
        metrics_namespace: reader.text(names::METRICS, "Longhaul"),
        log: reader.text(names::LOG, "info,rmcp=warn"),
        engine: engine(reader),
        open_tasks: if reader.is_set(names::OPEN_TASKS_MAX) { OpenTasks::Limited } else { OpenTasks::Unlimited },
    }
}

fn engine(reader: &mut Reader<'_>) -> Settings {
    let default = Settings::default();
    // After a kill the next attempt starts one lease later, and that has to be within a minute.
    let lease_ms = reader.number(names::LEASE_MS, default.lease_ms, 1_000..=50_000);
    let heartbeat_ms = reader.number(names::HEARTBEAT_MS, default.heartbeat_ms.min(lease_ms / 3), 100..=20_000);
    if heartbeat_ms > lease_ms / 3 {
        reader.fault(names::HEARTBEAT_MS, "is more than a third of LONGHAUL_LEASE_MS: one late heartbeat loses a task");
    }
    let open_tasks_max = reader.number(names::OPEN_TASKS_MAX, limits::OPEN_TASKS_MAX_DEFAULT.into(), 1..=1_000_000);
    Settings {
        lease_ms,
        heartbeat_ms,
        resend_ms: reader.number(names::RESEND_MS, default.resend_ms, 1_000..=600_000),
        leg_margin_ms: reader.number(names::LEG_MARGIN_MS, default.leg_margin_ms, 100..=300_000),
        open_tasks_max: u32::try_from(open_tasks_max).unwrap_or(u32::MAX),
        ..default
    }
}

/// Nobody is let in by default: a front door that was not told otherwise asks for a signature.
fn auth(reader: &mut Reader<'_>) -> Auth {
    let owner = reader.choice(
        names::IAM_OWNER,
        IamOwner::Principal,
        &[("principal", IamOwner::Principal), ("session", IamOwner::Session), ("account", IamOwner::Account)],
    );
    reader.choice(
        names::AUTH,
        Auth::Iam(owner),
        &[("iam", Auth::Iam(owner)), ("gateway", Auth::Gateway), ("anonymous", Auth::Anonymous)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(more: &[(&'a str, &'a str)]) -> BTreeMap<&'a str, &'a str> {
        let needed = [
            (names::TABLE, "tasks"),
            (names::QUEUE_URL, "https://sqs.eu-west-1.amazonaws.com/1/work"),
            (names::DEAD_LETTER_QUEUE_URL, "https://sqs.eu-west-1.amazonaws.com/1/dead"),
        ];
        needed.into_iter().chain(more.iter().copied()).collect()
    }

    #[test]
    fn the_door_is_closed_unless_told_otherwise() {
        assert_eq!(ApiConfig::read(&env(&[])).unwrap().auth, Auth::Iam(IamOwner::Principal));
        assert_eq!(ApiConfig::read(&env(&[(names::AUTH, "")])).unwrap().auth, Auth::Iam(IamOwner::Principal));
        assert_eq!(ApiConfig::read(&env(&[(names::AUTH, "anonymous")])).unwrap().auth, Auth::Anonymous);
        for wrong in ["none", "Anonymous", "iam ", "true"] {
            assert!(ApiConfig::read(&env(&[(names::AUTH, wrong)])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let env = BTreeMap::from([
            (names::QUEUE_URL, "work"),
            (names::AUTH, "nobody"),
            (names::LEASE_MS, "soon"),
            (names::RESEND_MS, "999999999"),
            (names::DIAGNOSTICS, "yes"),
        ]);
        let error = ApiConfig::read(&env).unwrap_err().to_string();
        let told = [names::TABLE, names::QUEUE_URL, names::AUTH, names::LEASE_MS, names::RESEND_MS, names::DIAGNOSTICS];
        for name in told {
            assert!(error.contains(name), "{name} in {error}");
        }
        assert_eq!(error.lines().count(), 1);
    }

    #[test]
    fn every_wait_ends_before_its_request_does() {
        let read = |more: &[_]| ApiConfig::read(&env(more)).unwrap().mcp([7; 32]);
        let default = read(&[]);
        assert_eq!((default.listen_ms_max, default.inline_wait_ms), (50_000, 20_000));
        let patient = [(names::LISTEN_MS_MAX, "895000"), (names::INLINE_WAIT_S, "895")];
        for (request_s, longest_ms) in [("10", 5_000), ("29", 24_000), ("900", 895_000)] {
            let settings = read(&[&patient[..], &[(names::REQUEST_S_MAX, request_s)]].concat());
            let waits = [settings.listen_ms_max, settings.result_ms_max, settings.ask_ms_max, settings.inline_wait_ms];
            assert_eq!(waits, [longest_ms; 4], "{request_s}");
            assert_eq!(settings.plain_wait_ms_max, longest_ms.min(20_000));
        }
        assert_eq!(read(&[(names::INLINE_WAIT_S, "0")]).inline_wait_ms, 0);
        let wrong = [(names::REQUEST_S_MAX, "5"), (names::INLINE_WAIT_S, "soon"), (names::LISTEN_MS_MAX, "1")];
        let error = ApiConfig::read(&env(&wrong)).unwrap_err();
        assert_eq!(error.faults.len(), 3, "{error}");
    }

    #[test]
    fn a_heartbeat_fits_three_times_into_a_lease() {
        let read = |more: &[_]| WorkerConfig::read(&env(more)).map(|config| config.common.engine.heartbeat_ms);
        assert_eq!(read(&[]), Ok(10_000));
        assert_eq!(read(&[(names::LEASE_MS, "6000")]), Ok(2_000));
        assert!(read(&[(names::LEASE_MS, "6000"), (names::HEARTBEAT_MS, "3000")]).is_err());
    }

    #[test]
    fn every_setting_is_listed_once() {
        let mut listed = names::ALL.to_vec();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed.len(), names::ALL.len());
        assert!(listed.iter().all(|name| name.starts_with("LONGHAUL_")));
    }
}
