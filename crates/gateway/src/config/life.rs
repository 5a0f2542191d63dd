//! How many processes or connections a server has, and how long each lives.

use std::time::Duration;

use super::Server;
use super::reader::{Members, Reader};
use crate::upstream::Keeping;

/// What a configuration says about it; `None` where it says nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Life {
    concurrency: Option<usize>,
    start_max: Option<Duration>,
    process: Option<Use>,
    idle_max: Option<Duration>,
    calls_max: Option<usize>,
}

/// How many calls a process or connection has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    PerCall,
    Pool,
}

impl Life {
    pub(super) fn read(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Self {
        let uses = [("per-call", Use::PerCall), ("pool", Use::Pool)];
        Self {
            concurrency: concurrency(reader, members),
            start_max: members.find("startAtMost").and_then(|node| reader.duration(&node)),
            process: members.find("process").and_then(|node| reader.one_of(&node, &uses)),
            idle_max: members.find("idleAtMost").and_then(|node| reader.duration(&node)),
            calls_max: members.find("callsAtMost").and_then(|node| reader.count(&node, 1..=1_000_000)),
        }
    }

    /// These, and `other` where they say nothing.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            concurrency: self.concurrency.or(other.concurrency),
            start_max: self.start_max.or(other.start_max),
            process: self.process.or(other.process),
            idle_max: self.idle_max.or(other.idle_max),
            calls_max: self.calls_max.or(other.calls_max),
        }
    }

    pub(super) fn apply(&self, server: &mut Server) {
        server.concurrency = self.concurrency.unwrap_or(server.concurrency);
        server.start_max = self.start_max.unwrap_or(server.start_max);
        let usual = Keeping::default();
        server.keeping = (self.process == Some(Use::Pool)).then(|| Keeping {
            idle_max: self.idle_max.unwrap_or(usual.idle_max),
            calls_max: self.calls_max.unwrap_or(usual.calls_max),
        });
    }
}

pub(super) fn concurrency(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<usize> {
    members.find("concurrency").and_then(|node| reader.count(&node, 1..=256))
}
