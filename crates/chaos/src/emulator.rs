//! The emulator of AWS, in a process group of its own.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, bail};
use harness::emulator::{config_of, create_queues, create_table};
use longhaul_aws::clients::Clients;
use rustix::process::{Pid, Signal, kill_process_group};
use url::Url;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/emulator.sh");

/// How often a message is delivered before it is a dead letter, as in the template.
const RECEIVES_MAX: u32 = 5;

/// A running emulator.
pub(crate) struct Emulator {
    group: Pid,
    endpoint: Url,
}

/// A table and queues in it.
pub(crate) struct Ground {
    pub(crate) table: String,
    pub(crate) queue_url: String,
}

impl Emulator {
    /// Starts one that logs to this file.
    pub(crate) fn start(log: &str) -> anyhow::Result<Self> {
        let output = Command::new(SCRIPT).args(["spawn", log]).output()?;
        if !output.status.success() {
            bail!("the emulator does not start: {}", String::from_utf8_lossy(&output.stderr));
        }
        let said = String::from_utf8(output.stdout)?;
        let (group, endpoint) = said.trim().split_once(' ').context("the emulator says where it is")?;
        let group = Pid::from_raw(group.parse()?).context("the emulator says which process group it is")?;
        Ok(Self { group, endpoint: endpoint.parse()? })
    }

    pub(crate) const fn group(&self) -> Pid {
        self.group
    }

    pub(crate) const fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        self.endpoint.socket_addrs(|| None)?.first().copied().context("the emulator has an address")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ended_already = kill_process_group(self.group, signal);
    }

    /// Makes a table and queues.
    pub(crate) async fn ground(&self) -> Ground {
        let clients = Clients::new(&config_of(self.endpoint.as_str()));
        create_table(&clients, "chaos").await;
        let (queue_url, _dead) = create_queues(&clients, "chaos", RECEIVES_MAX).await;
        Ground { table: "chaos".to_owned(), queue_url }
    }
}
