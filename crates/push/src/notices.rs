//! What the notices of an announcement are made with.

use longhaul_core::{Announcement, Policy, RequestedTerms, Terms};
use longhaul_engine::{Notice, Notices};
use serde::{Deserialize, Serialize};

use crate::Endpoints;
use crate::schedule::RUN_MS_MAX;

/// How long it is shown how a notice went.
const RETENTION_MS: u64 = 6 * 60 * 60 * 1_000;

/// How many legs in a row may die without a try on record.
const FAILURES_MAX: u32 = 20;

/// The request of a notice. It has the form of a call, so that whatever shows calls shows it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) arguments: Arguments,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Arguments {
    pub(crate) endpoint: String,
    pub(crate) announcement: Announcement,
}

impl Notices for Endpoints {
    fn of(&self, announcement: &Announcement) -> Vec<Notice> {
        let wanted = self.iter().filter(|endpoint| endpoint.wants(announcement));
        wanted.filter_map(|endpoint| notice(&endpoint.name, announcement)).collect()
    }
}

fn notice(endpoint: &str, announcement: &Announcement) -> Option<Notice> {
    let arguments = Arguments { endpoint: endpoint.to_owned(), announcement: announcement.clone() };
    // Nothing in it can fail to be written.
    let request = serde_json::to_string(&Told { arguments }).ok()?;
    Some(Notice { endpoint: endpoint.to_owned(), request, terms: terms() })
}

fn terms() -> Terms {
    let policy = Policy {
        run_ms_max: RUN_MS_MAX,
        retention_ms: RETENTION_MS,
        ttl_ms: 0,
        ttl_ms_max: 0,
        poll_ms: None,
        consecutive_failures_max: FAILURES_MAX,
    };
    Terms::negotiate(&policy, RequestedTerms::default())
}
