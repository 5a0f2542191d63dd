//! What a watch guarantees, with a clock that is set by hand and a store in memory.

use std::sync::Mutex;

use futures::FutureExt;
use longhaul_core::ports::{Created, TaskStore};
use longhaul_core::{Clock, TaskEvent};
use longhaul_engine::{Ports, Settings};
use longhaul_sqlite::Database;
use longhaul_testkit::given::{self, NOW};
use longhaul_testkit::{Fault, FaultyStore, ManualClock, SeededIds, StoreCall};
use serde_json::json;

use super::*;

mod changes;

pub(super) const PAUSE_MS: u64 = 250;

pub(super) const WAIT_MS: u64 = 1_000;

pub(super) struct World {
    clock: Arc<ManualClock>,
    store: Arc<FaultyStore>,
    engine: Engine,
    ids: SeededIds,
    settings: McpSettings,
    closing: CancellationToken,
    /// When tasks were looked at, and which, from [`counting`](Self::counting) on.
    looks: Arc<Mutex<Vec<(u64, TaskId)>>>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        let database = Database::in_memory(Arc::<ManualClock>::clone(&clock), longhaul_sqlite::Settings::default());
        let database = database.unwrap();
        let store = Arc::new(FaultyStore::new(Arc::new(database.store()), |_call| Fault::None));
        let ports = Ports {
            store: Arc::<FaultyStore>::clone(&store),
            queue: Arc::new(database.queue()),
            clock: Arc::<ManualClock>::clone(&clock),
            ids: Arc::new(SeededIds::new(1)),
        };
        // No poll here sends a message again, which would change the task.
        let engine = Engine::new(ports, Settings { resend_ms: 3_600_000, ..Settings::default() });
        let settings = McpSettings { listen_poll_ms: PAUSE_MS, ..McpSettings::new([7; 32]) };
        let (closing, looks) = (CancellationToken::new(), Arc::default());
        Self { clock, store, engine, ids: SeededIds::new(2), settings, closing, looks }
    }

    async fn with_task() -> (Self, Task) {
        let world = Self::new();
        let task = world.running().await;
        (world, task)
    }

    /// The same with a watch, whose first events were seen.
    async fn watched() -> (Self, Task, TaskWatch) {
        let (world, task) = Self::with_task().await;
        let mut watch = world.watch(&[&task]);
        world.expect_events(&mut watch, &["changed", "working"]).await;
        (world, task, watch)
    }

    async fn running(&self) -> Task {
        given::running(&*self.store, &self.ids, given::owner("alice")).await
    }

    async fn apply(&self, task: &Task, event: TaskEvent) -> Task {
        self.store.apply(&task.key(), &event, self.clock.now()).await.unwrap()
    }

    fn watch(&self, tasks: &[&Task]) -> TaskWatch {
        let reported = |task: &&Task| ((*task).clone(), Reported::default());
        TaskWatch::new(self.engine.listener(), &self.settings, &self.closing, WAIT_MS, tasks.iter().map(reported))
    }

    /// Records each look at a task from now on; `fails` decides which of them fail.
    fn counting(&self, mut fails: impl FnMut(usize) -> bool + Send + 'static) {
        let (clock, looks) = (Arc::clone(&self.clock), Arc::clone(&self.looks));
        self.store.follow(move |call| {
            let StoreCall::Get(key) = call else { return Fault::None };
            let mut looks = looks.lock().unwrap();
            looks.push((clock.now().since_ms(NOW), key.id));
            if fails(looks.len()) { Fault::Before } else { Fault::None }
        });
    }

    /// When the looks were, in milliseconds since the beginning.
    fn looked_ms(&self) -> Vec<u64> {
        self.looks.lock().unwrap().iter().map(|(at_ms, _)| *at_ms).collect()
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().since_ms(NOW)
    }

    /// The next event. Time passes only while the watch waits for it.
    async fn next(&self, watch: &mut TaskWatch) -> Option<Event> {
        tokio::select! {
            biased;
            event = watch.next() => event,
            never = self.pass_time() => never,
        }
    }

    /// Lets time pass without an end.
    async fn pass_time(&self) -> Option<Event> {
        loop {
            tokio::task::yield_now().await;
            if let Some(moment) = self.clock.next_wake() {
                self.clock.advance_to(moment);
            }
        }
    }

    /// The names of the next events, as many as are expected.
    async fn expect_events(&self, watch: &mut TaskWatch, expected: &[&str]) {
        let mut reported = Vec::new();
        for _ in expected {
            reported.push(self.next(watch).await.as_ref().map_or("nothing".to_owned(), name));
        }
        assert_eq!(reported, expected);
    }
}

pub(super) fn name(event: &Event) -> String {
    match event {
        Event::KeepAlive => "keep-alive".to_owned(),
        Event::Gone(_) => "gone".to_owned(),
        Event::Changed(_) => "changed".to_owned(),
        Event::Status(task) => task.status().as_str().to_owned(),
        Event::Progress(_, progress) => format!("progress {}", progress.done),
        Event::Question(_, ask) => format!("question {}", ask.key),
        Event::Ended(_) => "ended".to_owned(),
        Event::Close(tasks) => format!("close with {}", tasks.len()),
    }
}

#[tokio::test]
async fn everything_is_reported_in_order_and_once() {
    let (world, task) = World::with_task().await;
    let task = world.apply(&task, given::progress(1, NOW, 3.0)).await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed", "working", "progress 3"]).await;
    assert_eq!(world.now_ms(), 0, "what is known needs no look");
    world.clock.advance_ms(1);
    world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    world.expect_events(&mut watch, &["changed", "input_required", "question a", "question b"]).await;
    world.clock.advance_ms(1);
    world.apply(&task, given::answer(&["a", "b"])).await;
    world.apply(&task, given::claim(2, world.clock.now())).await;
    world.apply(&task, given::progress(2, world.clock.now(), 4.0)).await;
    world.apply(&task, given::finish(2, "{}")).await;
    world.expect_events(&mut watch, &["changed", "completed", "progress 4", "ended", "close with 0", "nothing"]).await;
}

#[tokio::test]
async fn progress_is_reported_if_it_has_grown() {
    let (world, task, mut watch) = World::watched().await;
    for (done, reported) in [(3.0, "progress 3"), (2.0, ""), (3.0, ""), (3.5, "progress 3.5")] {
        world.clock.advance_ms(1);
        watch.wait_until_after(WAIT_MS);
        world.apply(&task, given::progress(1, NOW, done)).await;
        let reported = [Some("changed"), Some(reported).filter(|reported| !reported.is_empty())];
        world.expect_events(&mut watch, &reported.into_iter().flatten().collect::<Vec<_>>()).await;
    }
    world.expect_events(&mut watch, &["close with 1"]).await;
}

#[tokio::test]
async fn what_was_reported_goes_out_and_comes_back() {
    let (world, task) = World::with_task().await;
    world.apply(&task, given::progress(1, NOW, 3.0)).await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed", "input_required", "progress 3", "question a"]).await;
    let reported = serde_json::to_value(watch.reported(task.id)).unwrap();
    assert_eq!(reported, json!({"d": 3.0, "u": "input_required", "a": [short("a")]}));
    let reported: Reported = serde_json::from_value(reported).unwrap();
    let mut resumed =
        TaskWatch::new(world.engine.listener(), &world.settings, &world.closing, WAIT_MS, [(task, reported)]);
    world.expect_events(&mut resumed, &["changed", "question b", "close with 1"]).await;
}

#[tokio::test]
async fn questions_that_were_answered_are_dropped() {
    let (world, task) = World::with_task().await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed", "input_required", "question a", "question b"]).await;
    world.apply(&task, given::answer(&["a"])).await;
    world.expect_events(&mut watch, &["changed"]).await;
    assert_eq!(watch.reported(task.id).unwrap().asked, [short("b")]);
}

#[tokio::test]
async fn what_is_put_back_comes_again_with_the_next_look() {
    let (world, task) = World::with_task().await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    for expected in ["changed", "input_required", "question a"] {
        let event = world.next(&mut watch).await.unwrap();
        assert_eq!(name(&event), expected);
        watch.put_back(&event);
    }
    world.expect_events(&mut watch, &["question b"]).await;
    assert_eq!(world.now_ms(), 0, "the rest is not delayed");
    world.expect_events(&mut watch, &["changed", "input_required", "question a"]).await;
    assert_eq!(world.now_ms(), PAUSE_MS);
}

#[tokio::test]
async fn a_watch_stays_open_until_the_end_could_be_reported() {
    let (world, task) = World::with_task().await;
    let task = world.apply(&task, given::finish(1, "{}")).await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed", "completed"]).await;
    let ended = world.next(&mut watch).await.unwrap();
    watch.put_back(&ended);
    assert_eq!(world.next(&mut watch).await, Some(ended));
    world.expect_events(&mut watch, &["close with 0"]).await;
    // To subscribers, the end is reported like any other change.
    let mut watch = world.watch(&[&task]);
    let changed = world.next(&mut watch).await.unwrap();
    watch.put_back(&changed);
    world.expect_events(&mut watch, &["completed", "ended"]).await;
    assert_eq!(world.next(&mut watch).await, Some(changed));
    world.expect_events(&mut watch, &["close with 0"]).await;
}

#[tokio::test]
async fn a_watch_closes_when_its_time_is_over_and_returns_unfinished_tasks() {
    let (world, task) = World::with_task().await;
    let mut watch = world.watch(&[&task]);
    world.counting(|_| false);
    world.expect_events(&mut watch, &["changed", "working"]).await;
    assert_eq!(world.next(&mut watch).await, Some(Event::Close(vec![Arc::new(task)])));
    assert_eq!(world.next(&mut watch).await, None);
    assert_eq!(world.looked_ms(), [250, 500, 750, 1_000]);
}

#[tokio::test]
async fn a_watch_without_time_reports_what_is_known_and_does_not_look() {
    let (world, task) = World::with_task().await;
    world.counting(|_| false);
    let tasks = [(task, Reported::default())];
    let mut watch = TaskWatch::new(world.engine.listener(), &world.settings, &world.closing, 0, tasks);
    world.expect_events(&mut watch, &["changed", "working", "close with 1", "nothing"]).await;
    assert_eq!(world.looked_ms(), Vec::<u64>::new());
}

#[tokio::test]
async fn short_pauses_double_up_to_the_longest_one() {
    let (world, task) = World::with_task().await;
    let mut watch = world.watch(&[&task]).starting_with_short_pauses();
    world.counting(|_| false);
    world.expect_events(&mut watch, &["changed", "working", "close with 1"]).await;
    assert_eq!(world.looked_ms(), [4, 12, 28, 60, 124, 252, 502, 752, 1_000]);
}

#[tokio::test]
async fn a_server_that_closes_ends_the_pause_after_reporting_what_is_known() {
    let (world, task) = World::with_task().await;
    let mut watch = world.watch(&[&task]);
    world.closing.cancel();
    world.expect_events(&mut watch, &["changed", "working", "close with 1", "nothing"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_no_events() {
    let (world, task, mut watch) = World::watched().await;
    assert_eq!(watch.next().now_or_never(), None, "it waits");
    assert_eq!(world.clock.sleepers(), 0, "and leaves nothing behind");
    world.clock.advance_ms(1);
    world.apply(&task, given::finish(1, "{}")).await;
    world.expect_events(&mut watch, &["changed", "completed", "ended", "close with 0"]).await;
}

#[tokio::test]
async fn a_keep_alive_is_due_when_nothing_was_sent_for_a_while() {
    let mut world = World::new();
    world.settings.keep_alive_ms = 500;
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed", "working", "keep-alive"]).await;
    assert_eq!(world.now_ms(), 500);
    watch.sent();
    world.expect_events(&mut watch, &["keep-alive"]).await;
    assert_eq!(world.now_ms(), 1_000);
    world.expect_events(&mut watch, &["close with 1"]).await;
}

#[tokio::test]
async fn a_keep_alive_comes_before_the_events_of_the_same_look() {
    let mut world = World::new();
    world.settings.keep_alive_ms = PAUSE_MS;
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed", "working"]).await;
    world.clock.advance_ms(1);
    world.apply(&task, given::finish(1, "{}")).await;
    world.expect_events(&mut watch, &["keep-alive", "changed", "completed", "ended", "close with 0"]).await;
}

#[tokio::test]
async fn a_store_that_fails_in_the_middle_is_asked_again() {
    let (world, task, mut watch) = World::watched().await;
    world.clock.advance_ms(1);
    world.apply(&task, given::finish(1, "{}")).await;
    world.counting(|look| look <= 2);
    world.expect_events(&mut watch, &["changed", "completed", "ended"]).await;
    assert_eq!(world.looked_ms(), [251, 501, 751]);
}

#[tokio::test]
async fn a_task_that_no_longer_exists_is_gone() {
    let world = World::new();
    let expiring = given::task_with(&world.ids, given::owner("alice"), NOW, |record| {
        record.expires_at = NOW.plus_ms(400);
    });
    let Created::New(expiring) = world.store.create(given::new(expiring), NOW).await.unwrap() else {
        panic!("the id was never used");
    };
    let other = world.running().await;
    let mut watch = world.watch(&[&expiring, &other]);
    world.expect_events(&mut watch, &["changed", "working", "changed", "working"]).await;
    assert_eq!(world.next(&mut watch).await, Some(Event::Gone(expiring.key())));
    assert_eq!(world.now_ms(), 500);
    world.counting(|_| false);
    assert_eq!(world.next(&mut watch).await, Some(Event::Close(vec![Arc::new(other.clone())])));
    assert!(world.looks.lock().unwrap().iter().all(|(_, id)| *id == other.id), "the gone task is not read any more");
}

#[tokio::test]
async fn several_tasks_are_watched_until_the_last_one_has_ended() {
    let world = World::new();
    let (one, two) = (world.running().await, world.running().await);
    let mut watch = world.watch(&[&one, &two]);
    world.expect_events(&mut watch, &["changed", "working", "changed", "working"]).await;
    world.clock.advance_ms(1);
    world.apply(&one, given::finish(1, "{}")).await;
    world.expect_events(&mut watch, &["changed", "completed", "ended"]).await;
    world.apply(&two, given::fail(1)).await;
    world.counting(|_| false);
    let reported = world.next(&mut watch).await.unwrap();
    assert!(matches!(&reported, Event::Changed(task) if task.id == two.id), "{reported:?}");
    world.expect_events(&mut watch, &["failed", "ended", "close with 0"]).await;
    assert_eq!(world.looks.lock().unwrap().len(), 1, "one that has ended is not looked at again");
}

#[tokio::test]
async fn without_tasks_there_is_nothing_to_wait_for() {
    let world = World::new();
    let mut watch = world.watch(&[]);
    world.expect_events(&mut watch, &["close with 0", "nothing"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_watch_that_was_stopped_reports_nothing_more() {
    let (world, task) = World::with_task().await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed"]).await;
    watch.stop();
    world.expect_events(&mut watch, &["nothing"]).await;
}

#[tokio::test]
async fn a_look_replaces_what_the_look_before_left() {
    let (world, task) = World::with_task().await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    world.expect_events(&mut watch, &["changed", "input_required", "question a"]).await;
    world.clock.advance_ms(WAIT_MS);
    world.apply(&task, given::answer(&["a", "b"])).await;
    watch.wait_until_after(WAIT_MS);
    watch.look().await;
    world.expect_events(&mut watch, &["changed", "working", "close with 1"]).await;
    assert_eq!(world.now_ms(), 2 * WAIT_MS);
}
