//! The resources to which sessions of older revisions have subscribed, and the streams that carry the notifications.
//! Both are in the memory of this process: a session that has no stream here cannot subscribe here.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::{Clock, OwnerId, Timestamp};
use rmcp::ErrorData;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long what a session has subscribed to is kept after its stream has ended: clients open it again.
const KEPT_MS: u64 = 60_000;

/// How long a subscription waits for the stream, which clients open meanwhile.
const STREAM_WAIT_MS: u64 = 5_000;

/// Resources to which one session may subscribe, and the longest of their names, in bytes.
const RESOURCES_MAX: usize = 64;
const URI_BYTES_MAX: usize = 2_048;

/// Sessions whose stream has ended and may come back.
const AWAY_MAX: usize = 1_024;

/// A session, by its owner and its random part.
pub(crate) type SessionKey = (OwnerId, String);

/// The streams of all sessions. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct SessionStreams {
    sessions: Arc<Mutex<HashMap<SessionKey, Subscribed>>>,
    opened: watch::Sender<()>,
}

struct Subscribed {
    uris: watch::Sender<BTreeSet<String>>,
    /// Ends its stream; `None` if it has none now.
    stream: Option<CancellationToken>,
    left_at: Timestamp,
}

/// The stream of a session. When this is dropped, the session has none.
pub(crate) struct Attached {
    streams: SessionStreams,
    clock: Arc<dyn Clock>,
    key: SessionKey,
    pub(crate) uris: watch::Receiver<BTreeSet<String>>,
    /// Cancelled when the session has opened another stream.
    pub(crate) replaced: CancellationToken,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut sessions = self.streams.lock();
        let Some(session) = sessions.get_mut(&self.key).filter(|_| !self.replaced.is_cancelled()) else { return };
        (session.stream, session.left_at) = (None, self.clock.now());
        if session.uris.borrow().is_empty() {
            sessions.remove(&self.key);
        }
    }
}

impl SessionStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Subscribed>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the stream of a session. An earlier one ends: its client may not have noticed yet that it lost the
    /// connection.
    pub(crate) fn open(&self, key: SessionKey, clock: Arc<dyn Clock>) -> Attached {
        let now = clock.now();
        let mut sessions = self.lock();
        forget(&mut sessions, now);
        let session = sessions.entry(key.clone()).or_insert_with(|| Subscribed {
            uris: watch::Sender::default(),
            stream: None,
            left_at: now,
        });
        let replaced = CancellationToken::new();
        if let Some(earlier) = session.stream.replace(replaced.clone()) {
            earlier.cancel();
        }
        let uris = session.uris.subscribe();
        drop(sessions);
        self.opened.send_replace(());
        Attached { streams: self.clone(), clock, key, uris, replaced }
    }

    /// Subscribes a session to a resource. Waits for a while until the session has a stream. Fails if it has none, or
    /// has subscribed to too much.
    pub(crate) async fn subscribe(&self, key: &SessionKey, uri: &str, clock: &dyn Clock) -> Result<(), ErrorData> {
        if uri.len() > URI_BYTES_MAX {
            return Err(ErrorData::invalid_params(format!("`uri` is longer than {URI_BYTES_MAX} bytes"), None));
        }
        let mut opened = self.opened.subscribe();
        let mut late = clock.sleep_ms(STREAM_WAIT_MS);
        loop {
            if let Some(subscribed) = self.try_subscribe(key, uri) {
                return subscribed;
            }
            tokio::select! {
                biased;
                _opened = opened.changed() => {}
                () = &mut late => return Err(no_stream()),
            }
        }
    }

    fn try_subscribe(&self, key: &SessionKey, uri: &str) -> Option<Result<(), ErrorData>> {
        let sessions = self.lock();
        let session = sessions.get(key).filter(|session| session.stream.is_some())?;
        let mut is_full = false;
        session.uris.send_if_modified(|uris| {
            is_full = uris.len() == RESOURCES_MAX && !uris.contains(uri);
            !is_full && uris.insert(uri.to_owned())
        });
        let too_many = || format!("a session may subscribe to {RESOURCES_MAX} resources at most");
        Some(if is_full { Err(ErrorData::invalid_params(too_many(), None)) } else { Ok(()) })
    }

    /// Ends a subscription, if there is one.
    pub(crate) fn unsubscribe(&self, key: &SessionKey, uri: &str) {
        if let Some(session) = self.lock().get(key) {
            session.uris.send_if_modified(|uris| uris.remove(uri));
        }
    }
}

/// Forgets sessions that did not come back.
fn forget(sessions: &mut HashMap<SessionKey, Subscribed>, now: Timestamp) {
    sessions.retain(|_, session| session.stream.is_some() || now.since_ms(session.left_at) < KEPT_MS);
    let away =
        |(key, session): (&SessionKey, &Subscribed)| session.stream.is_none().then(|| (session.left_at, key.clone()));
    let mut away: Vec<_> = sessions.iter().filter_map(away).collect();
    away.sort();
    for (_, key) in away.iter().rev().skip(AWAY_MAX) {
        sessions.remove(key);
    }
}

fn no_stream() -> ErrorData {
    let message = "this session has no stream on which it could be told: open one with GET, then subscribe";
    ErrorData::invalid_request(message, None)
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::ManualClock;
    use longhaul_testkit::given::owner;

    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(ManualClock::default())
    }

    fn key(name: &str) -> SessionKey {
        (owner("alice"), name.to_owned())
    }

    #[test]
    fn a_session_subscribes_while_it_has_a_stream_and_keeps_it_for_the_next_one() {
        let (streams, clock) = (SessionStreams::default(), clock());
        assert!(streams.try_subscribe(&key("a"), "x:1").is_none());
        let first = streams.open(key("a"), Arc::clone(&clock));
        assert!(matches!(streams.try_subscribe(&key("a"), "x:1"), Some(Ok(()))));
        assert!(streams.try_subscribe(&key("b"), "x:1").is_none(), "another session");
        drop(first);
        assert!(streams.try_subscribe(&key("a"), "x:2").is_none());
        let second = streams.open(key("a"), Arc::clone(&clock));
        assert_eq!(second.uris.borrow().len(), 1);
        let third = streams.open(key("a"), Arc::clone(&clock));
        assert!(second.replaced.is_cancelled() && !third.replaced.is_cancelled());
        drop(second);
        assert!(matches!(streams.try_subscribe(&key("a"), "x:2"), Some(Ok(()))));
        streams.unsubscribe(&key("a"), "x:1");
        streams.unsubscribe(&key("a"), "x:2");
        drop(third);
        assert!(streams.lock().is_empty(), "sessions without subscriptions take no space");
    }

    #[test]
    fn a_session_may_not_subscribe_to_everything() {
        let streams = SessionStreams::default();
        let _open = streams.open(key("a"), clock());
        for number in 0..RESOURCES_MAX {
            assert!(matches!(streams.try_subscribe(&key("a"), &format!("x:{number}")), Some(Ok(()))));
        }
        assert!(matches!(streams.try_subscribe(&key("a"), "x:one more"), Some(Err(_))));
        assert!(matches!(streams.try_subscribe(&key("a"), "x:0"), Some(Ok(()))), "the same again");
    }
}
