//! The keys of one issuer, kept: fetched when they are needed for the first time, looked at again from time to time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Either, Shared, select};
use longhaul_core::{Clock, Timestamp};

use crate::oauth::Fetch;
use crate::oauth::discovery::{self, DiscoveryError};
use crate::oauth::issuer::Issuer;
use crate::oauth::key_set::KeySet;

/// How long keys are used before the issuer is asked again. A key that it withdrew is accepted for no longer, if the
/// issuer answers.
const AGE_MS_MAX: u64 = 10 * 60 * 1_000;

/// The shortest time between two questions to an issuer whose keys are known: for keys that it may have published
/// since.
const AGAIN_MS_MIN: u64 = 60 * 1_000;

/// How long all documents of an issuer together may take.
const FETCH_MS_MAX: u64 = 4_000;

/// How long a request waits for newer keys if those that are known would do.
const REFRESH_WAIT_MS: u64 = 1_000;

/// The wait after the first failure while no keys are known; doubled by each further one.
const BACKOFF_MS: u64 = 1_000;

/// The longest wait after failures while no keys are known.
const BACKOFF_MS_MAX: u64 = 30_000;

/// The keys of one issuer.
pub(crate) struct IssuerKeys {
    pub(crate) issuer: Issuer,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Option<Keys>,
    fetched_at: Option<Timestamp>,
    /// When the issuer was asked last.
    asked_at: Option<Timestamp>,
    /// Failures since the last success.
    failures: u32,
    /// The question that is under way. Everyone who needs its answer waits for this one.
    asking: Option<Asking>,
}

type Asking = Shared<BoxFuture<'static, ()>>;

/// Keys that were published at some time.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) set: Arc<KeySet>,
    /// Another number for other keys.
    pub(crate) version: u64,
}

/// No keys of the issuer are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoKeys {
    pub(crate) retry_after_s: u64,
}

impl IssuerKeys {
    pub(crate) fn new(issuer: Issuer, fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> Self {
        Self { issuer, fetch, clock, state: Mutex::default() }
    }

    /// The keys that are known. They are fetched if there are none, and fetched again if they are old; if that fails,
    /// the old ones continue to be used.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Keys, NoKeys> {
        let now = self.clock.now();
        let (asking, wait_ms) = {
            let mut state = self.lock();
            match &state.keys {
                Some(keys) if !state.is_old(now) || !state.may_ask(now) => return Ok(keys.clone()),
                Some(_) => (self.ask(&mut state, now), REFRESH_WAIT_MS),
                None if state.asking.is_none() && !state.may_ask(now) => return Err(state.no_keys(now)),
                None => (self.ask(&mut state, now), FETCH_MS_MAX),
            }
        };
        self.wait(asking, wait_ms).await;
        let state = self.lock();
        state.keys.clone().ok_or_else(|| state.no_keys(self.clock.now()))
    }

    /// The keys that are known after a key was not found among `seen`: newer ones, if the issuer may be asked now.
    pub(crate) async fn after(self: &Arc<Self>, seen: &Keys) -> Option<Keys> {
        let now = self.clock.now();
        let asking = {
            let mut state = self.lock();
            let is_newer = state.keys.as_ref().is_some_and(|keys| keys.version != seen.version);
            if is_newer {
                return state.keys.clone();
            }
            if state.asking.is_none() && !state.may_ask(now) {
                return None;
            }
            self.ask(&mut state, now)
        };
        self.wait(asking, FETCH_MS_MAX).await;
        self.lock().keys.clone().filter(|keys| keys.version != seen.version)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question that is under way, or a new one. It continues when the request that began it is abandoned.
    #[expect(
        clippy::disallowed_methods,
        reason = "a client that leaves must not end the fetch that others wait for; every fetch is waited for by the \
                  request that began it, and its time is limited"
    )]
    fn ask(self: &Arc<Self>, state: &mut State, now: Timestamp) -> Asking {
        if let Some(asking) = &state.asking {
            return asking.clone();
        }
        state.asked_at = Some(now);
        let answered = tokio::spawn(Answered(Arc::clone(self)).ask());
        let asking = answered.map(|_ended| ()).boxed().shared();
        state.asking = Some(asking.clone());
        asking
    }

    async fn wait(&self, asking: Asking, wait_ms: u64) {
        drop(select(asking, self.clock.sleep_ms(wait_ms)).await);
    }

    async fn fetched(&self) -> Result<KeySet, DiscoveryError> {
        let keys = Box::pin(discovery::keys(&self.issuer, &*self.fetch));
        match select(keys, self.clock.sleep_ms(FETCH_MS_MAX)).await {
            Either::Left((keys, _)) => keys,
            Either::Right(_) => Err(DiscoveryError::Late),
        }
    }

    fn learn(&self, fetched: Result<KeySet, DiscoveryError>) {
        let now = self.clock.now();
        let mut state = self.lock();
        match fetched {
            Ok(set) => {
                state.fetched_at = Some(now);
                state.failures = 0;
                let version = state.keys.as_ref().map_or(0, |keys| keys.version);
                if state.keys.as_ref().is_none_or(|keys| !keys.set.is_same(&set)) {
                    state.keys = Some(Keys { set: Arc::new(set), version: version + 1 });
                }
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let (issuer, are_known) = (self.issuer.name(), state.keys.is_some());
                let error = &error as &dyn std::error::Error;
                tracing::warn!(issuer, error, are_known, "the keys of an issuer were not fetched");
            }
        }
    }
}

/// A question that is under way; it is not any more when this is dropped, however it ended.
struct Answered(Arc<IssuerKeys>);

impl Answered {
    async fn ask(self) {
        let fetched = self.0.fetched().await;
        self.0.learn(fetched);
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.lock().asking = None;
    }
}

impl State {
    fn is_old(&self, now: Timestamp) -> bool {
        self.fetched_at.is_none_or(|at| now.since_ms(at) >= AGE_MS_MAX)
    }

    /// Whether the issuer may be asked now, if no question is under way.
    fn may_ask(&self, now: Timestamp) -> bool {
        self.asked_at.is_none_or(|at| now.since_ms(at) >= self.pause_ms())
    }

    fn pause_ms(&self) -> u64 {
        match (&self.keys, self.failures) {
            (Some(_), _) => AGAIN_MS_MIN,
            (None, 0) => 0,
            (None, failures) => BACKOFF_MS.saturating_mul(1 << (failures - 1).min(16)).min(BACKOFF_MS_MAX),
        }
    }

    fn no_keys(&self, now: Timestamp) -> NoKeys {
        let waited_ms = self.asked_at.map_or(0, |at| now.since_ms(at));
        NoKeys { retry_after_s: self.pause_ms().saturating_sub(waited_ms).div_ceil(1_000).max(1) }
    }
}
