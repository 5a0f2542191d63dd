//! The systems that are compared: how each is started, and in what its durability differs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

use super::Ground;
use super::protocol::Protocol;
use crate::spawned::free_address;

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
}

impl System {
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
        }
    }

    /// How the client speaks to it.
    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Self::Longhaul | Self::FastmcpAlways | Self::FastmcpEverysec | Self::Rmcp => Protocol::Tasks,
            Self::LonghaulCall => Protocol::Plain,
            Self::Restate => Protocol::Restate,
            Self::DbosWal | Self::Dbos => Protocol::Dbos,
        }
    }

    /// Whether each step is journalled.
    pub(crate) const fn has_journal(self) -> bool {
        !matches!(self, Self::FastmcpAlways | Self::FastmcpEverysec | Self::Rmcp)
    }

    /// Whether tasks outlive the process.
    pub(crate) const fn is_durable(self) -> bool {
        !matches!(self, Self::Rmcp)
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
}

impl Places {
    /// Addresses on which nothing listens now.
    pub(crate) fn free() -> anyhow::Result<Self> {
        Ok(Self { front: free_address()?, second: free_address()?, third: free_address()?, fourth: free_address()? })
    }
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
