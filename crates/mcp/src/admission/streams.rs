//! How many streams and waits an owner has open: subscriptions, requests that wait for a result, and plain calls.
//!
//! One process counts its own streams, and stops to count a stream at any end of it. Where each process has one request
//! at a time, the store counts. Each stream takes one of the owner's permits, which is a mailbox, until the latest time
//! of its end. That is one write, and nothing has to be given back. The permits of a dead process expire on their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use longhaul_core::audit::{Entry, Event, Outcome};
use longhaul_core::ports::Left;
use longhaul_core::{MailboxId, OwnerId, Timestamp};
use longhaul_engine::Engine;
use rmcp::ErrorData;

use crate::Body;
use crate::reply::{errors, holding};
use crate::settings::{McpSettings, StreamsCounted};

/// When to come again, if nothing says when a stream ends.
const RETRY_MS: u64 = 1_000;

/// How many permits are tried in the store. An owner who has taken half of them is wrongly refused in one of 250 tries.
const TRIES_MAX: u32 = 8;

pub(crate) struct Streams {
    engine: Engine,
    max: Option<u32>,
    counted: StreamsCounted,
    open_here: Counts,
}

/// The open streams of one process, by owner. Owners without one are not in it.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<HashMap<OwnerId, u32>>>);

struct TooMany {
    max: u32,
    retry_ms: u64,
}

/// A stream that is counted until this is dropped.
#[derive(Default)]
pub(crate) struct Held(Option<(Counts, OwnerId)>);

impl Held {
    /// Counts the stream until the answer has ended, or its client has left.
    pub(crate) fn until_end_of(self, answer: Response<Body>) -> Response<Body> {
        if self.0.is_none() { answer } else { answer.map(|body| holding(body, self)) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some((Counts(open), owner)) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let left = open.get(owner).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            open.remove(owner);
        } else {
            open.insert(*owner, left);
        }
    }
}

impl Counts {
    fn open(&self, owner: OwnerId, max: u32) -> Option<Held> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.get(&owner).copied().unwrap_or(0);
        if count >= max {
            return None;
        }
        open.insert(owner, count.saturating_add(1));
        Some(Held(Some((self.clone(), owner))))
    }
}

impl Streams {
    pub(crate) fn new(engine: Engine, settings: &McpSettings) -> Self {
        Self { engine, max: settings.streams_max, counted: settings.streams_counted, open_here: Counts::default() }
    }

    /// Whether all streams are those of this process.
    pub(crate) fn are_here(&self) -> bool {
        self.counted == StreamsCounted::InProcess
    }

    /// Counts a stream or a wait of the owner that lasts for `longest_ms` at most. Fails if the owner has too many
    /// already.
    pub(crate) async fn open(&self, owner: OwnerId, longest_ms: u64) -> Result<Held, ErrorData> {
        self.permit(owner, longest_ms).await.map_err(|TooMany { max, retry_ms }| {
            Entry::new(Event::Request, Outcome::Refused).because("too_many_streams").by(owner).log();
            let message = format!(
                "you have {max} streams, waits and calls open, which is the limit; close some, or poll for results \
                 instead"
            );
            errors::too_much_for_now("openStreams", message, retry_ms)
        })
    }

    /// Counts a wait of the owner that lasts for `longest_ms` at most; `None` if the owner has too many already.
    /// Nothing is refused then: the request is answered without waiting.
    pub(crate) async fn open_if_free(&self, owner: OwnerId, longest_ms: u64) -> Option<Held> {
        self.permit(owner, longest_ms).await.ok()
    }

    async fn permit(&self, owner: OwnerId, longest_ms: u64) -> Result<Held, TooMany> {
        let Some(max) = self.max else { return Ok(Held::default()) };
        let too_many = |retry_ms| TooMany { max, retry_ms };
        match self.counted {
            StreamsCounted::InProcess => self.open_here.open(owner, max).ok_or(too_many(RETRY_MS)),
            StreamsCounted::InStore => match self.take_permit(owner, max, longest_ms).await {
                Ok(()) => Ok(Held::default()),
                Err(retry_ms) => Err(too_many(retry_ms)),
            },
        }
    }

    /// Takes one of the owner's permits in the store. Fails if all that it tries are taken, with the time after which
    /// one of them is free.
    async fn take_permit(&self, owner: OwnerId, max: u32, longest_ms: u64) -> Result<(), u64> {
        let ports = self.engine.ports();
        let mut random = [0; 4];
        ports.ids.fill(&mut random);
        let first = u32::from_be_bytes(random);
        let mut free_at: Option<Timestamp> = None;
        for number in 0..TRIES_MAX.min(max) {
            let permit = first.wrapping_add(number) % max.max(1);
            let mailbox = MailboxId::of(&[b"open stream", &permit.to_be_bytes()]);
            let until = ports.clock.now().plus_ms(longest_ms);
            match self.engine.leave(&owner, &mailbox, &until.as_ms().to_string(), until).await {
                Ok(Left::First) => return Ok(()),
                Ok(Left::Earlier(until)) => {
                    let until = until.parse().ok().map(Timestamp::from_ms);
                    free_at = [free_at, until].into_iter().flatten().min();
                }
                // Without a store the stream says so itself.
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "an open stream was not counted");
                    return Ok(());
                }
            }
        }
        Err(free_at.map_or(RETRY_MS, |at| at.since_ms(ports.clock.now()).clamp(1, longest_ms.max(1))))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::given::owner;

    use super::*;

    #[test]
    fn a_stream_counts_until_it_is_dropped_and_for_its_owner_only() {
        let streams = Counts::default();
        let (alice, bob) = (owner("alice"), owner("bob"));
        let first = streams.open(alice, 2).unwrap();
        let _second = streams.open(alice, 2).unwrap();
        assert!(streams.open(alice, 2).is_none() && streams.open(bob, 2).is_some());
        drop(first);
        let third = streams.open(alice, 2);
        assert!(third.is_some() && streams.open(alice, 2).is_none());
        drop((third, _second));
        assert!(streams.0.lock().unwrap().is_empty(), "owners without streams take no space");
    }
}
