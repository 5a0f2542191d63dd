//! The executor of the simulation: one thread, virtual time, and a seed that decides who runs next.
//!
//! Every actor is one future. An actor that waits registers a timer; if several are ready at the same time,
//! the seed picks. Nothing else decides, so one seed is one run.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use longhaul_testkit::models::{Randomness, mix};

use super::story::{Line, StoryMode};

/// The first time of every world.
pub(crate) const EPOCH_MS: u64 = 2_000_000_000_000;

/// The number of an actor.
pub(crate) type Actor = usize;

/// The work of an actor.
pub(crate) type Play = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Time, randomness, and the list of actors that are ready.
pub(crate) struct Kernel {
    core: Mutex<Core>,
}

struct Core {
    now_ms: u64,
    seed: u64,
    events: u64,
    hash: u64,
    /// By their times; what is due at the same one is woken in the order that the seed says.
    timers: BTreeMap<(u64, u64, u64), Waker>,
    timers_made: u64,
    ready: Vec<Actor>,
    is_ready: Vec<bool>,
    current: Actor,
    randomness: Vec<Randomness>,
    streams: Vec<u64>,
    order: Randomness,
    spawned: Vec<(u64, String, Play)>,
    names: Vec<String>,
    over: bool,
    story: Option<Vec<Line>>,
}

struct ActorWaker {
    kernel: Arc<Kernel>,
    actor: Actor,
}

impl Wake for ActorWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.kernel.lock().make_ready(self.actor);
    }
}

impl Core {
    fn make_ready(&mut self, actor: Actor) {
        if !std::mem::replace(&mut self.is_ready[actor], true) {
            self.ready.push(actor);
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// An actor ended it.
    Over,
    /// No actor can continue.
    Stuck,
    /// There were more events than any world needs.
    TooManyEvents,
}

impl Kernel {
    /// Time 0 of the world of `seed`. Records a story if asked to.
    pub(crate) fn new(seed: u64, story_mode: StoryMode) -> Arc<Self> {
        let story = match story_mode {
            StoryMode::Record => Some(Vec::new()),
            StoryMode::Skip => None,
        };
        Arc::new(Self {
            core: Mutex::new(Core {
                now_ms: 0,
                seed,
                events: 0,
                hash: seed,
                timers: BTreeMap::new(),
                timers_made: 0,
                ready: Vec::with_capacity(16),
                is_ready: Vec::with_capacity(16),
                current: 0,
                randomness: Vec::with_capacity(16),
                streams: Vec::with_capacity(16),
                order: Randomness::stream(seed, 0),
                spawned: Vec::new(),
                names: Vec::new(),
                over: false,
                story,
            }),
        })
    }

    /// Adds an actor. `stream` names its random numbers, and stays the same when other actors come or go.
    pub(crate) fn spawn(&self, stream: u64, name: String, play: impl Future<Output = ()> + Send + 'static) {
        self.lock().spawned.push((stream, name, Box::pin(play)));
    }

    /// Runs all actors until the run ends.
    pub(crate) fn run(self: &Arc<Self>, events_max: u64) -> RunEnd {
        let mut plays: Vec<Option<(Waker, Play)>> = Vec::with_capacity(16);
        loop {
            self.admit(&mut plays);
            let Some(actor) = self.next_actor() else { return RunEnd::Stuck };
            let Some(Some((waker, play))) = plays.get_mut(actor) else { continue };
            if play.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                plays[actor] = None;
            }
            let core = self.lock();
            if core.over {
                return RunEnd::Over;
            }
            if core.events > events_max {
                return RunEnd::TooManyEvents;
            }
        }
    }

    fn admit(self: &Arc<Self>, plays: &mut Vec<Option<(Waker, Play)>>) {
        let mut core = self.lock();
        if core.spawned.is_empty() {
            return;
        }
        for (stream, name, play) in std::mem::take(&mut core.spawned) {
            let actor = plays.len();
            let waker = Arc::new(ActorWaker { kernel: Arc::clone(self), actor });
            plays.push(Some((Waker::from(waker), play)));
            let seed = core.seed;
            core.randomness.push(Randomness::stream(seed, stream));
            core.streams.push(stream);
            core.names.push(name);
            core.is_ready.push(false);
            core.make_ready(actor);
        }
    }

    /// Picks the next actor; advances time if no actor is ready.
    fn next_actor(&self) -> Option<Actor> {
        loop {
            let mut core = self.lock();
            let waiting = core.ready.len() as u64;
            if waiting > 0 {
                let pick = match waiting {
                    1 => 0,
                    several => core.order.below(several) as usize,
                };
                let actor = core.ready.swap_remove(pick);
                core.is_ready[actor] = false;
                core.current = actor;
                core.events += 1;
                core.hash = mix(core.hash ^ core.now_ms.rotate_left(20) ^ actor as u64);
                return Some(actor);
            }
            let ((at_ms, ..), waker) = core.timers.pop_first()?;
            core.now_ms = core.now_ms.max(at_ms);
            drop(core);
            // Outside the lock: a waker takes it.
            waker.wake();
        }
    }

    /// Milliseconds since the beginning, on a clock that no actor sees.
    pub(crate) fn now_ms(&self) -> u64 {
        self.lock().now_ms
    }

    /// How many events there were.
    pub(crate) fn events(&self) -> u64 {
        self.lock().events
    }

    /// A hash of the whole order of events.
    pub(crate) fn hash(&self) -> u64 {
        self.lock().hash
    }

    /// Mixes into the hash something that a second run of the same seed has to repeat.
    pub(crate) fn note(&self, number: u64) {
        let mut core = self.lock();
        core.hash = mix(core.hash ^ number);
    }

    /// The actor whose turn it is.
    pub(crate) fn actor(&self) -> Actor {
        self.lock().current
    }

    /// The random stream of the actor whose turn it is.
    pub(crate) fn stream(&self) -> u64 {
        let core = self.lock();
        core.streams[core.current]
    }

    /// Draws from the random numbers of the actor whose turn it is.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Randomness) -> T) -> T {
        let mut core = self.lock();
        let current = core.current;
        draw(&mut core.randomness[current])
    }

    /// Ends the run after this turn.
    pub(crate) fn end(&self) {
        self.lock().over = true;
    }

    /// Adds a sentence to the story, if one is recorded.
    pub(crate) fn tell(&self, sentence: impl FnOnce() -> String) {
        let mut core = self.lock();
        if core.story.is_none() {
            return;
        }
        let (at_ms, who) = (core.now_ms, core.names[core.current].clone());
        drop(core);
        let line = Line { at_ms, who, what: sentence() };
        core = self.lock();
        if let Some(story) = &mut core.story {
            story.push(line);
        }
    }

    /// Takes the story.
    pub(crate) fn take_story(&self) -> Vec<Line> {
        self.lock().story.take().unwrap_or_default()
    }

    /// Drops everything that refers back to the kernel.
    pub(crate) fn dissolve(&self) {
        let mut core = self.lock();
        let timers = std::mem::take(&mut core.timers);
        let spawned = std::mem::take(&mut core.spawned);
        drop(core);
        drop((timers, spawned));
    }

    /// Returns `ms` later, and never at once: every wait lets others go first.
    pub(crate) const fn sleep(self: &Arc<Self>, ms: u64) -> Sleep<'_> {
        Sleep { kernel: self, ms, due_ms: None }
    }

    fn set_timer(&self, at_ms: u64, waker: Waker) {
        let mut core = self.lock();
        let (tie, number) = (core.order.next(), core.timers_made);
        core.timers_made += 1;
        core.timers.insert((at_ms, tie, number), waker);
    }

    /// Wakes the actor that polls, `ms` from now.
    pub(crate) fn wake_in(&self, ms: u64, context: &Context<'_>) {
        let at_ms = self.now_ms().saturating_add(ms);
        self.set_timer(at_ms, context.waker().clone());
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Kernel::sleep`].
pub(crate) struct Sleep<'a> {
    kernel: &'a Arc<Kernel>,
    ms: u64,
    due_ms: Option<u64>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now_ms = self.kernel.now_ms();
        match self.due_ms {
            None => {
                let due_ms = now_ms.saturating_add(self.ms);
                self.due_ms = Some(due_ms);
                self.kernel.set_timer(due_ms, context.waker().clone());
                Poll::Pending
            }
            Some(due_ms) if now_ms >= due_ms => Poll::Ready(()),
            Some(_) => Poll::Pending,
        }
    }
}
