//! The systems that are compared: how each is started, and in what its durability differs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;

use super::Ground;
use super::aws::Aws;
use super::protocol::Protocol;
use crate::process;
use crate::spawned::free_address;

/// How long a client waits between two polls of a task that it waits for. On AWS longer, since the emulator is one
/// process that answers all calls, and would be busy with polls.
const POLL_PAUSE: Duration = Duration::from_millis(5);
const POLL_PAUSE_AWS: Duration = Duration::from_millis(20);

/// A system, in one way of using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum System {
    /// Longhaul; the client calls a task and polls it.
    Longhaul,
    /// Longhaul; a client without tasks, whose call is answered with the result.
    LonghaulCall,
    /// Restate, one node.
    Restate,
    /// DBOS on SQLite with a write-ahead log.
    DbosWal,
    /// DBOS on SQLite as it is shipped.
    Dbos,
    /// FastMCP with Docket, on Redis that waits for the disk at each write.
    FastmcpAlways,
    /// FastMCP with Docket, on Redis that waits for the disk once a second.
    FastmcpEverysec,
    /// The task runtime of rmcp, in memory.
    Rmcp,
    /// Longhaul in a container, on DynamoDB and SQS; the client calls a task and polls it.
    AwsLonghaul,
    /// The same; a client without tasks, whose call is answered with the result.
    AwsLonghaulCall,
    /// `pmcp` with `pmcp-tasks` on DynamoDB.
    AwsPmcp,
    /// `turul-mcp-server` with `turul-mcp-ext-tasks` on DynamoDB.
    AwsTurul,
    /// No system: the calls of the AWS SDK that one would have to make at least.
    AwsSdk,
}

/// Where systems are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On this machine alone.
    Machine,
    /// On AWS, as the emulator has it.
    Aws,
}

impl Stage {
    /// The heading of a table.
    pub(crate) fn title(self, title: &str) -> String {
        match self {
            Self::Machine => title.to_owned(),
            Self::Aws => format!("On AWS: {}", title.to_lowercase()),
        }
    }
}

impl System {
    /// Where it is compared with others.
    pub(crate) const fn stage(self) -> Stage {
        match self {
            Self::Longhaul | Self::LonghaulCall | Self::Restate | Self::DbosWal | Self::Dbos => Stage::Machine,
            Self::FastmcpAlways | Self::FastmcpEverysec | Self::Rmcp => Stage::Machine,
            Self::AwsLonghaul | Self::AwsLonghaulCall | Self::AwsPmcp | Self::AwsTurul | Self::AwsSdk => Stage::Aws,
        }
    }

    /// Whether its figures are Longhaul's.
    pub(crate) const fn is_longhaul(self) -> bool {
        matches!(self, Self::Longhaul | Self::LonghaulCall | Self::AwsLonghaul | Self::AwsLonghaulCall)
    }

    /// Whether its clients are answered with the result, and what it stores is what another row stores.
    pub(crate) const fn is_plain_call(self) -> bool {
        matches!(self, Self::LonghaulCall | Self::AwsLonghaulCall)
    }

    /// Whether it has processes of its own.
    pub(crate) const fn is_served(self) -> bool {
        !matches!(self, Self::AwsSdk)
    }

    /// The key of its table in DynamoDB, if it has one.
    pub(crate) const fn key(self) -> &'static [&'static str] {
        match self {
            Self::AwsPmcp => &["PK", "SK"],
            Self::AwsTurul => &["taskId"],
            Self::AwsLonghaul | Self::AwsLonghaulCall | Self::AwsSdk => &["pk", "sk"],
            Self::Longhaul | Self::LonghaulCall | Self::Restate | Self::DbosWal | Self::Dbos => &[],
            Self::FastmcpAlways | Self::FastmcpEverysec | Self::Rmcp => &[],
        }
    }

    /// What tables call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "Longhaul, task",
            Self::LonghaulCall => "Longhaul, plain call",
            Self::Restate => "Restate",
            Self::DbosWal => "DBOS, SQLite in WAL",
            Self::Dbos => "DBOS, SQLite as shipped",
            Self::FastmcpAlways => "FastMCP + Docket, AOF always",
            Self::FastmcpEverysec => "FastMCP + Docket, AOF each second",
            Self::Rmcp => "rmcp TaskManager",
            Self::AwsLonghaul => "Longhaul on AWS, task",
            Self::AwsLonghaulCall => "Longhaul on AWS, plain call",
            Self::AwsPmcp => "pmcp + pmcp-tasks",
            Self::AwsTurul => "turul + turul-mcp-ext-tasks",
            Self::AwsSdk => "AWS SDK alone",
        }
    }

    /// What makes a life durable, and in what that differs from the others.
    pub(crate) const fn durable_by(self) -> &'static str {
        match self {
            Self::Longhaul | Self::LonghaulCall => {
                "SQLite, WAL, `synchronous=FULL`: each answer waits for the disk; steps are journalled"
            }
            Self::Restate => "log of one node and RocksDB, waits for the disk; steps are journalled (defaults)",
            Self::DbosWal => "SQLite, WAL, `synchronous=FULL`, as Longhaul; steps are journalled",
            Self::Dbos => "SQLite with a rollback journal, `FULL`; steps are journalled (defaults)",
            Self::FastmcpAlways => {
                "Redis, `appendfsync always`; **no journal**: a crash repeats all steps, so steps are loops"
            }
            Self::FastmcpEverysec => "Redis, `appendfsync everysec`: **a loss of power loses a second**; no journal",
            Self::Rmcp => "**nothing**: tasks are lost with the process; what the protocol costs",
            Self::AwsLonghaul | Self::AwsLonghaulCall => {
                "DynamoDB; SQS brings the work, to any process; steps are journalled (a container: `--store dynamodb:`)"
            }
            Self::AwsPmcp | Self::AwsTurul => {
                "DynamoDB has the record; **the work is in the process that accepted the call** and is lost with it; \
                 no journal"
            }
            Self::AwsSdk => {
                "DynamoDB and SQS: a `PutItem` and a `SendMessage` as the call, a `GetItem` as the poll; **runs \
                 nothing**"
            }
        }
    }

    /// How the client speaks to it.
    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Self::Longhaul | Self::FastmcpAlways | Self::FastmcpEverysec | Self::Rmcp => Protocol::Tasks(POLL_PAUSE),
            Self::AwsLonghaul | Self::AwsPmcp | Self::AwsTurul | Self::AwsSdk => Protocol::Tasks(POLL_PAUSE_AWS),
            Self::LonghaulCall | Self::AwsLonghaulCall => Protocol::Plain,
            Self::Restate => Protocol::Restate,
            Self::DbosWal | Self::Dbos => Protocol::Dbos,
        }
    }

    /// Whether each step is journalled.
    pub(crate) const fn has_journal(self) -> bool {
        match self {
            Self::FastmcpAlways | Self::FastmcpEverysec | Self::Rmcp => false,
            Self::AwsPmcp | Self::AwsTurul | Self::AwsSdk => false,
            Self::Longhaul | Self::LonghaulCall | Self::Restate | Self::DbosWal | Self::Dbos => true,
            Self::AwsLonghaul | Self::AwsLonghaulCall => true,
        }
    }

    /// Whether what was recorded outlives the process.
    pub(crate) const fn is_durable(self) -> bool {
        !matches!(self, Self::Rmcp | Self::AwsSdk)
    }

    /// Its processes, in the order in which they are started, with their data in `folder`.
    pub(crate) fn commands(self, ground: &Ground, folder: &Path, places: &Places) -> Vec<Command> {
        match self {
            Self::Longhaul | Self::LonghaulCall => {
                let mut server = Command::new(&ground.own);
                server.arg("serve-noop").arg(places.front.to_string()).arg(folder.join("longhaul.db"));
                vec![server]
            }
            Self::Restate => restate(ground, folder, places),
            Self::DbosWal => vec![dbos(ground, folder, places, "wal")],
            Self::Dbos => vec![dbos(ground, folder, places, "rollback")],
            Self::FastmcpAlways => fastmcp(ground, folder, places, "always"),
            Self::FastmcpEverysec => fastmcp(ground, folder, places, "everysec"),
            Self::Rmcp => {
                let mut server = Command::new(&ground.own);
                server.arg("serve-rmcp").arg(places.front.to_string());
                vec![server]
            }
            Self::AwsLonghaul | Self::AwsLonghaulCall => {
                let mut server = Command::new(&ground.own);
                server.arg("serve-aws").arg(places.front.to_string());
                vec![on_aws(server, folder, places, |name| vec![name.to_owned(), Aws::queue_url(name)])]
            }
            Self::AwsPmcp => vec![on_aws_alone(ground, folder, places, "pmcp-life")],
            Self::AwsTurul => vec![on_aws_alone(ground, folder, places, "turul-life")],
            Self::AwsSdk => Vec::new(),
        }
    }
}

/// The addresses that a system may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Where the client is answered.
    pub(crate) front: SocketAddr,
    /// Restate: its administration. FastMCP: Redis.
    pub(crate) second: SocketAddr,
    /// Restate: the service that its server calls.
    pub(crate) third: SocketAddr,
    /// Restate: its nodes among each other.
    pub(crate) fourth: SocketAddr,
    /// Where a system finds AWS that does not call the emulator itself, but through a counter.
    pub(crate) aws: Option<SocketAddr>,
}

impl Places {
    /// Addresses on which nothing listens now.
    pub(crate) fn free() -> anyhow::Result<Self> {
        let [front, second, third, fourth] = [free_address()?, free_address()?, free_address()?, free_address()?];
        Ok(Self { front, second, third, fourth, aws: None })
    }
}

/// A process that finds its table, and whatever else `names` says, as its arguments, and AWS by its environment.
fn on_aws(mut server: Command, folder: &Path, places: &Places, names: impl Fn(&str) -> Vec<String>) -> Command {
    let endpoint = places.aws.map_or_else(|| process::endpoint().to_owned(), |address| format!("http://{address}"));
    server.args(names(&Aws::name(folder))).current_dir(folder);
    for (name, value) in process::environment(&endpoint) {
        server.env(name, value);
    }
    server
}

/// A peer's process, which gets its address and its table.
fn on_aws_alone(ground: &Ground, folder: &Path, places: &Places, program: &str) -> Command {
    let mut server = Command::new(ground.tool(program));
    server.arg(places.front.to_string());
    on_aws(server, folder, places, |name| vec![name.to_owned()])
}

fn restate(ground: &Ground, folder: &Path, places: &Places) -> Vec<Command> {
    let mut service = Command::new(ground.tool("restate-life"));
    service.arg(places.third.to_string());
    let mut server = Command::new(ground.tool("restate-server"));
    server
        .current_dir(folder)
        .arg("--no-logo")
        .env("RESTATE_BASE_DIR", folder.join("data"))
        .env("RESTATE_LISTEN_MODE", "tcp")
        .env("RESTATE_BIND_IP", Ipv4Addr::LOCALHOST.to_string())
        .env("RESTATE_BIND_PORT", places.fourth.port().to_string())
        .env("RESTATE_INGRESS__BIND_PORT", places.front.port().to_string())
        .env("RESTATE_ADMIN__BIND_PORT", places.second.port().to_string())
        .env("RESTATE_DISABLE_TELEMETRY", "true")
        .env("RESTATE_LOG_FILTER", "error");
    vec![service, server]
}

fn dbos(ground: &Ground, folder: &Path, places: &Places, journal: &str) -> Command {
    let mut server = Command::new(ground.tool("python-dbos"));
    server.current_dir(folder).arg(ground.source("dbos/life.py"));
    server.arg(places.front.port().to_string()).arg(folder.join("dbos.db")).arg(journal);
    server
}

fn fastmcp(ground: &Ground, folder: &Path, places: &Places, sync: &str) -> Vec<Command> {
    let redis_port = places.second.port().to_string();
    let mut redis = Command::new(ground.tool("redis-server"));
    redis.current_dir(folder).args(["--bind", "127.0.0.1", "--port", &redis_port, "--appendonly", "yes"]);
    redis.args(["--appendfsync", sync, "--save", ""]).arg("--dir").arg(folder);
    let mut server = Command::new(ground.tool("python-fastmcp"));
    server.current_dir(folder).arg(ground.source("fastmcp/life.py"));
    server.arg(places.front.port().to_string()).arg(redis_port);
    vec![redis, server]
}
