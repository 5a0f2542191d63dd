//! What can be chosen about a local server, by flags and by the environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use longhaul_core::limits;
use longhaul_engine::Settings;
use longhaul_http::{Host, OriginPolicy};

/// What can be chosen about a local server. Each flag has an environment variable of the same name; the flag wins.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Address to listen on. Keep it on loopback: a local server lets everyone in.
    #[arg(long, env = "LONGHAUL_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// File that tasks and their queue are kept in; made where there is none. `:memory:` keeps nothing after the end.
    #[arg(long, env = "LONGHAUL_DB", value_name = "FILE", default_value = "longhaul.db")]
    pub db: PathBuf,

    /// Further names that this server may be called by, for the check of the Host header. Loopback always may.
    #[arg(long, env = "LONGHAUL_ALLOW_HOST", value_name = "HOST", value_delimiter = ',')]
    pub allow_host: Vec<String>,

    /// Web pages that may call this server, such as `https://app.example.com`. Pages on loopback always may.
    #[arg(long, env = "LONGHAUL_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub allow_origin: Vec<String>,

    /// How many legs run at a time.
    #[arg(long, env = "LONGHAUL_CONCURRENCY", value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub concurrency: u32,

    /// Longest leg in milliseconds; a task goes on in another leg at its next step boundary. Without it only a tool's
    /// own limit counts. On AWS it is the function's timeout.
    #[arg(long, env = "LONGHAUL_LEG_MS", value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub leg_ms: Option<u64>,

    /// How long before the end of a leg no further step is begun, in milliseconds; a quarter of the leg at the most.
    #[arg(long, env = "LONGHAUL_LEG_MARGIN_MS", value_name = "MS", default_value_t = 5_000)]
    pub leg_margin_ms: u64,

    /// How long a worker holds a task without a sign of life, in milliseconds: after a crash the next attempt starts
    /// this much later.
    #[arg(long, env = "LONGHAUL_LEASE_MS", value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub lease_ms: u64,

    /// How often a worker renews its lease, writes the progress and learns of a cancel request, in milliseconds; a
    /// third of the lease at the most.
    #[arg(long, env = "LONGHAUL_HEARTBEAT_MS", value_name = "MS", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(10..))]
    pub heartbeat_ms: u64,

    /// How long a message may be out before a poll sends it again, in milliseconds.
    #[arg(long, env = "LONGHAUL_RESEND_MS", value_name = "MS", default_value_t = 30_000)]
    pub resend_ms: u64,

    /// How many unfinished tasks one owner may have.
    #[arg(long, env = "LONGHAUL_OPEN_TASKS_MAX", value_name = "N", default_value_t = limits::OPEN_TASKS_MAX_DEFAULT)]
    pub open_tasks_max: u32,

    /// How long a `subscriptions/listen` stream stays open at the most, in milliseconds.
    #[arg(long, env = "LONGHAUL_LISTEN_MS_MAX", value_name = "MS", default_value_t = 300_000)]
    pub listen_ms_max: u64,

    /// How long a client that knows no tasks waits for a tool that may become a task, before it is given a job id
    /// instead, in seconds; `get_job_status` waits as long.
    #[arg(long, env = "LONGHAUL_INLINE_WAIT_S", value_name = "S", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(0..=3_600))]
    pub inline_wait_s: u64,

    /// What to log, as `tracing` filter directives.
    #[arg(long, env = "LONGHAUL_LOG", value_name = "FILTER", default_value = "info,rmcp=warn")]
    pub log: String,

    /// How to log: text for people, JSON for machines.
    #[arg(long, env = "LONGHAUL_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// A line of text for each event.
    Text,
    /// A JSON object for each event.
    Json,
}

impl Default for Options {
    /// What holds where neither a flag nor the environment says anything.
    fn default() -> Self {
        #[derive(Parser)]
        struct Defaults {
            #[command(flatten)]
            options: Options,
        }
        let defaults = std::iter::once("defaults");
        match Defaults::try_parse_from(defaults) {
            Ok(defaults) => defaults.options,
            Err(wrong_environment) => wrong_environment.exit(),
        }
    }
}

impl Options {
    pub(crate) fn in_memory(&self) -> bool {
        self.db.as_os_str() == ":memory:"
    }

    pub(crate) fn origin_policy(&self) -> OriginPolicy {
        let mut hosts: Vec<Host> = self.allow_host.iter().map(|name| Host::new(name)).collect();
        hosts.push(Host::new(&self.listen.ip().to_string()));
        OriginPolicy::new(hosts, self.allow_origin.clone())
    }

    pub(crate) fn engine(&self) -> Settings {
        Settings {
            lease_ms: self.lease_ms,
            heartbeat_ms: self.heartbeat_ms.min(self.lease_ms / 3),
            resend_ms: self.resend_ms,
            leg_ms_max: self.leg_ms,
            leg_margin_ms: self.leg_ms.map_or(self.leg_margin_ms, |leg_ms| self.leg_margin_ms.min(leg_ms / 4)),
            open_tasks_max: self.open_tasks_max,
            ..Settings::default()
        }
    }
}
