//! A call of a handler that `rmcp` alone serves, such as over standard input and output or in a test.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use longhaul_core::{Clock, IdSource, Identity, OwnerId, Timestamp};
use longhaul_engine::{Attempt, Retry, Unstored};
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::RequestContext;

use super::plain::{PlainCall, Rounds};
use crate::revision::Generation;

/// The call of this context. It ends with its process, and may wait for as long as it likes until then.
pub(super) fn call_of(context: &RequestContext<RoleServer>) -> (Attempt, PlainCall) {
    let version = context.protocol_version();
    let rounds = match Generation::of_version(version.as_ref().map(ProtocolVersion::as_str)) {
        Generation::PerRequest => Rounds::Impossible,
        Generation::Handshake => Rounds::Unknown,
    };
    let attempt = Attempt::unstored(Unstored {
        clock: Arc::new(ProcessClock),
        ids: Arc::new(ProcessIds),
        owner: OwnerId::of(Identity::Anonymous),
        tool: String::new(),
        request: String::new(),
        wait_ms_max: u64::MAX,
        cancelled: context.ct.clone(),
    });
    let call = PlainCall {
        key: attempt.task().id.to_string().replace('-', ""),
        peer: context.peer.clone(),
        progress_token: context.meta.get_progress_token(),
        rounds,
        retry: Retry::default(),
        is_outside: true,
    };
    (attempt, call)
}

/// Random bytes of the process, in the same way.
struct ProcessIds;

impl IdSource for ProcessIds {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(size_of::<u64>()) {
            let random = RandomState::new().hash_one(0).to_le_bytes();
            chunk.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
        }
    }
}

/// The clock of the process, since there is no server that gives one.
struct ProcessClock;

#[async_trait]
#[expect(clippy::disallowed_methods, reason = "outside of Longhaul there is no clock that a server was given")]
impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
