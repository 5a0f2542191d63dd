//! The lists of all servers: read when the gateway starts, and again later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use longhaul::{SystemClock, TaskPolicy};
use longhaul_core::Clock;
use tokio::task::JoinHandle;

use crate::catalog::{Catalog, Listed, unmatched};
use crate::changes::Changes;
use crate::config::Server;
use crate::limits;
use crate::policy::with_policies;
use crate::upstream::Upstream;
use crate::upstream::client::Client;

/// The lists of all servers.
pub(crate) struct Lists {
    servers: Vec<Server>,
    /// The lists that each server has sent last. A change holds the lock until the catalog is put together again.
    listed: tokio::sync::Mutex<Vec<Listed>>,
    catalog: RwLock<Arc<Catalog>>,
    /// When those of each server are read again; none if they never are.
    due: Vec<Due>,
    /// Why the last reading of each server's lists failed; `None` where it succeeded.
    unwell: Vec<Mutex<Option<String>>>,
    changes: Changes,
}

/// The lists of one server, and why their last reading failed, if it did.
pub(crate) struct Found {
    pub(crate) listed: Listed,
    pub(crate) unwell: Option<String>,
}

/// Whether the lists are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The servers are asked again.
    Asked,
    /// They are those of a lock file.
    Pinned,
}

/// When the lists of one server are read again.
struct Due {
    /// In milliseconds; the earliest time, and the time if nothing happens.
    times_ms: Mutex<(u64, u64)>,
    reading: AtomicBool,
    /// The pause after the next time that they cannot be read.
    retry: Mutex<Duration>,
}

impl Due {
    fn after(ttl: Option<Duration>) -> (u64, u64) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let now_ms = SystemClock.now().as_ms();
        let ttl = ttl.unwrap_or(limits::LISTS_TTL).clamp(limits::LISTS_PAUSE, limits::LISTS_TTL_MAX);
        (now_ms.saturating_add(ms(limits::LISTS_PAUSE)), now_ms.saturating_add(ms(ttl)))
    }

    fn times_ms(&self) -> MutexGuard<'_, (u64, u64)> {
        self.times_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets the pause after a failed reading.
    fn is_read(&self) {
        *self.retry.lock().unwrap_or_else(PoisonError::into_inner) = limits::LISTS_PAUSE;
    }

    /// The pause after a failed reading, which grows each time.
    fn next_retry(&self) -> Duration {
        let mut retry = self.retry.lock().unwrap_or_else(PoisonError::into_inner);
        let now = *retry;
        *retry = (now * 2).min(limits::LISTS_RETRY);
        now
    }

    /// Whether the lists are to be read now.
    fn is_now(&self, upstream: &Upstream) -> bool {
        let (earliest_ms, latest_ms) = *self.times_ms();
        let now_ms = SystemClock.now().as_ms();
        now_ms >= latest_ms || (now_ms >= earliest_ms && upstream.has_changed())
    }
}

impl Lists {
    /// The lists that are known at the start, put together as `catalog`.
    pub(crate) fn new(
        servers: Vec<Server>,
        found: Vec<Found>,
        catalog: Catalog,
        renewal: Renewal,
        changes: Changes,
    ) -> Self {
        let due = |found: &Found| {
            let ttl = if found.unwell.is_some() { Some(limits::LISTS_PAUSE) } else { found.listed.ttl };
            Due {
                times_ms: Mutex::new(Due::after(ttl)),
                reading: AtomicBool::new(false),
                retry: Mutex::new(limits::LISTS_PAUSE),
            }
        };
        let due = match renewal {
            Renewal::Asked => found.iter().map(due).collect(),
            Renewal::Pinned => Vec::new(),
        };
        let (mut listed, mut unwell) = (Vec::new(), Vec::new());
        for one in found {
            listed.push(one.listed);
            unwell.push(Mutex::new(one.unwell));
        }
        let (listed, catalog) = (tokio::sync::Mutex::new(listed), RwLock::new(Arc::new(catalog)));
        Self { servers, listed, catalog, due, unwell, changes }
    }

    /// The servers, in the order of their numbers.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The latest lists of each server.
    pub(crate) async fn listed(&self) -> Vec<Listed> {
        self.listed.lock().await.clone()
    }

    /// The servers whose last reading failed, and why.
    pub(crate) fn unwell(&self) -> Vec<(String, String)> {
        let why = |unwell: &Mutex<Option<String>>| unwell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = self.servers.iter().zip(&self.unwell);
        all.filter_map(|(server, unwell)| Some((server.name.clone(), why(unwell)?))).collect()
    }

    pub(crate) fn is_unwell(&self) -> bool {
        self.unwell.iter().any(|unwell| unwell.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    fn note(&self, server: usize, why: Option<String>) {
        if let Some(unwell) = self.unwell.get(server) {
            *unwell.lock().unwrap_or_else(PoisonError::into_inner) = why;
        }
    }

    /// The tools, prompts and resources of all servers that are known.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The policy of a tool; `None` if there is none of this name, or its calls become no tasks.
    pub(crate) fn policy(&self, tool: &str) -> Option<TaskPolicy> {
        self.catalog().tools.get(tool).and_then(|route| route.policy.clone())
    }

    /// Begins to read the lists that are due.
    pub(crate) fn refresh(self: &Arc<Self>, upstreams: &[Arc<Upstream>]) -> Vec<JoinHandle<()>> {
        let due = self.due.iter().zip(upstreams).enumerate();
        let due = due.filter(|(_, (due, upstream))| due.is_now(upstream) && !due.reading.swap(true, Ordering::AcqRel));
        due.map(|(server, (_, upstream))| read_again(Arc::clone(self), server, Arc::clone(upstream))).collect()
    }

    /// The same, for a client that wants the lists: waits until they are there, but not for long.
    pub(crate) async fn refreshed(self: &Arc<Self>, upstreams: &[Arc<Upstream>]) -> Arc<Catalog> {
        let reading = self.refresh(upstreams);
        if !reading.is_empty() {
            // Lists that come later count for the next request.
            drop(tokio::time::timeout(limits::LISTS_WAIT, futures::future::join_all(reading)).await);
        }
        self.catalog()
    }

    /// Warns of names in the section of a server that newly fit none of its tools. All of them count as new if the
    /// server was not available before.
    fn warn_of_names(&self, server: usize, old: &Listed, all: &[Listed]) {
        let (Some(new), Some(server)) = (all.get(server), self.servers.get(server)) else { return };
        let before = if old.is_absent { Vec::new() } else { unmatched(old, server) };
        for problem in unmatched(new, server).into_iter().filter(|problem| !before.contains(problem)) {
            tracing::warn!(%problem, "a name in the configuration fits no tool");
        }
    }

    async fn replace(&self, server: usize, new: Listed) {
        let mut all = self.listed.lock().await;
        let Some(old) = all.get_mut(server) else { return };
        let old = std::mem::replace(old, new);
        match self.catalog().again(&all, &self.servers) {
            Ok((mut catalog, left_out)) => {
                self.warn_of_names(server, &old, &all);
                for problem in left_out {
                    tracing::warn!(%problem, "something new is left out of the lists");
                }
                for problem in with_policies(&mut catalog).await {
                    tracing::warn!(%problem, "a new tool is left out of the lists");
                }
                let catalog = Arc::new(catalog);
                let before = std::mem::replace(
                    &mut *self.catalog.write().unwrap_or_else(PoisonError::into_inner),
                    Arc::clone(&catalog),
                );
                self.changes.note(&before, &catalog);
            }
            Err(problem) => {
                tracing::warn!(%problem, "the lists stay as they were");
                if let Some(kept) = all.get_mut(server) {
                    *kept = old;
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "ends when the lists are read, for which there is a longest time")]
fn read_again(lists: Arc<Lists>, server: usize, upstream: Arc<Upstream>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let Some(due) = lists.due.get(server) else { return };
        // A change from here on is a change of the lists that are read now.
        upstream.forget_change();
        let ttl = match list(&upstream).await {
            Ok(listed) => {
                let ttl = listed.ttl;
                lists.replace(server, listed).await;
                lists.note(server, None);
                due.is_read();
                ttl
            }
            Err(why) => {
                tracing::warn!(why, "a server keeps its last lists");
                lists.note(server, Some(why));
                Some(due.next_retry())
            }
        };
        *due.times_ms() = Due::after(ttl);
        due.reading.store(false, Ordering::Release);
    })
}

pub(crate) async fn list(upstream: &Upstream) -> Result<Listed, String> {
    let connected = upstream.connect_for_a_request(Client::of_lists(upstream.name())).await;
    let connection = connected.map_err(|error| error.to_string())?;
    let name = upstream.name();
    match tokio::time::timeout(limits::ANSWER_MAX, Listed::read(name, connection.peer())).await {
        Ok(Ok(mut listed)) => {
            connection.give_back();
            upstream.learn(&listed.tools);
            upstream.learn_task_tools().await;
            listed.task_tools = upstream.task_tools().known();
            Ok(listed)
        }
        Ok(Err(error)) => Err(format!("the server `{name}` does not list what it has: {error}")),
        Err(_late) => {
            let seconds = limits::ANSWER_MAX.as_secs();
            Err(format!("the server `{name}` does not list what it has within {seconds} seconds"))
        }
    }
}
