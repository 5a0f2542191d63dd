//! A task and its parts, for all tests of this binary.

use longhaul_core::{
    Ask, Attempts, Cleanup, IdSource, Identity, LeaseToken, OwnerId, Payload, Policy, RequestedTerms, State,
    TaskRecord, Terms, Timestamp,
};

pub(crate) const CREATED: Timestamp = Timestamp::from_ms(1_000_000);

struct FixedIds;

impl IdSource for FixedIds {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

pub(crate) const fn token(byte: u8) -> LeaseToken {
    LeaseToken::from_random([byte; 16])
}

pub(crate) fn inline(text: &str) -> Payload {
    Payload::Inline(text.to_owned())
}

pub(crate) fn ask(key: &str) -> Ask {
    Ask { key: key.to_owned(), request: "{}".to_owned() }
}

/// A task in `state`, which attempt 2 claimed after one failure.
pub(crate) fn record(state: State) -> TaskRecord {
    let (half_an_hour, ttl_ms) = (1_800_000, 3_600_000);
    let policy = Policy { run_ms_max: half_an_hour, retention_ms: half_an_hour, ttl_ms, ..Policy::default() };
    let terms = Terms::negotiate(&policy, RequestedTerms::default());
    TaskRecord {
        owner: OwnerId::of(Identity::Anonymous),
        id: FixedIds.task_id(CREATED),
        tool: "tool".to_owned(),
        state,
        attempt: 2,
        failures: 1,
        last_failure: Some("it panicked".to_owned()),
        terms,
        created_at: CREATED,
        not_before: None,
        flow: None,
        labels: longhaul_core::Labels::default(),
        updated_at: CREATED,
        sent_at: CREATED,
        resends: 0,
        started_at: Some(CREATED),
        ended_at: None,
        expires_at: CREATED.plus_ms(terms.ttl_ms),
        progress: None,
        request: inline("{}"),
        trace: None,
        variables: None,
        cleanup: Cleanup::None,
        held_until: None,
        asked: Vec::new(),
        answered: Vec::new(),
        parent: None,
        resumes: None,
        attempts: Attempts::default(),
    }
}
