//! What a watch promises, with a clock that is set by hand and a store in memory.

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

const PAUSE_MS: u64 = 250;
const WAIT_MS: u64 = 1_000;

struct World {
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

    async fn running(&self) -> Task {
        given::running(&*self.store, &self.ids, given::owner("alice")).await
    }

    async fn apply(&self, task: &Task, event: TaskEvent) -> Task {
        self.store.apply(&task.key(), &event, self.clock.now()).await.unwrap()
    }

    fn watch(&self, tasks: &[&Task]) -> TaskWatch {
        let told = |task: &&Task| ((*task).clone(), Told::default());
        TaskWatch::new(&self.engine, &self.settings, &self.closing, WAIT_MS, tasks.iter().map(told))
    }

    /// Notes each look at a task, and which of them fail.
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

    /// The next event. Time passes only where the watch waits for it.
    async fn next(&self, watch: &mut TaskWatch) -> Option<Event> {
        let fly = async {
            loop {
                tokio::task::yield_now().await;
                if let Some(moment) = self.clock.next_wake() {
                    self.clock.advance_to(moment);
                }
            }
        };
        tokio::select! {
            biased;
            event = watch.next() => event,
            never = fly => never,
        }
    }

    /// The names of the next events, as many as are expected.
    async fn tells(&self, watch: &mut TaskWatch, expected: &[&str]) {
        let mut told = Vec::new();
        for _ in expected {
            told.push(self.next(watch).await.as_ref().map_or("nothing".to_owned(), name));
        }
        assert_eq!(told, expected);
    }
}

fn name(event: &Event) -> String {
    match event {
        Event::KeepAlive => "keep-alive".to_owned(),
        Event::Gone(_) => "gone".to_owned(),
        Event::Changed(_) => "changed".to_owned(),
        Event::Status(task) => task.status().as_str().to_owned(),
        Event::Progress(_, progress) => format!("progress {}", progress.done),
        Event::Question(_, ask) => format!("question {}", ask.key),
        Event::Ended(_) => "ended".to_owned(),
        Event::Left => "left".to_owned(),
        Event::Close(tasks) => format!("close with {}", tasks.len()),
    }
}

#[tokio::test]
async fn everything_is_told_in_order_and_once() {
    let world = World::new();
    let task = world.running().await;
    let task = world.apply(&task, given::progress(1, NOW, 3.0)).await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "working", "progress 3"]).await;
    assert_eq!(world.now_ms(), 0, "what is known needs no look");
    world.clock.advance_ms(1);
    world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    world.tells(&mut watch, &["changed", "input_required", "question a", "question b"]).await;
    world.clock.advance_ms(1);
    world.apply(&task, given::answer(&["a", "b"])).await;
    world.apply(&task, given::claim(2, world.clock.now())).await;
    world.apply(&task, given::progress(2, world.clock.now(), 4.0)).await;
    world.apply(&task, given::finish(2, "{}")).await;
    world.tells(&mut watch, &["changed", "completed", "progress 4", "ended", "close with 0", "nothing"]).await;
}

#[tokio::test]
async fn progress_is_told_where_it_has_grown() {
    let world = World::new();
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "working"]).await;
    for (done, told) in [(3.0, "progress 3"), (2.0, ""), (3.0, ""), (3.5, "progress 3.5")] {
        world.clock.advance_ms(1);
        watch.wait_until_after(WAIT_MS);
        world.apply(&task, given::progress(1, NOW, done)).await;
        let told = [Some("changed"), Some(told).filter(|told| !told.is_empty())];
        world.tells(&mut watch, &told.into_iter().flatten().collect::<Vec<_>>()).await;
    }
    world.tells(&mut watch, &["close with 1"]).await;
}

#[tokio::test]
async fn what_a_client_was_told_goes_out_and_comes_back() {
    let world = World::new();
    let task = world.running().await;
    world.apply(&task, given::progress(1, NOW, 3.0)).await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "input_required", "progress 3", "question a"]).await;
    let told = serde_json::to_value(watch.told(task.id)).unwrap();
    assert_eq!(told, json!({"d": 3.0, "u": "input_required", "a": [short("a")]}));
    let told: Told = serde_json::from_value(told).unwrap();
    let mut resumed = TaskWatch::new(&world.engine, &world.settings, &world.closing, WAIT_MS, [(task, told)]);
    world.tells(&mut resumed, &["changed", "question b", "close with 1"]).await;
}

#[tokio::test]
async fn questions_that_were_answered_are_not_remembered() {
    let world = World::new();
    let task = world.running().await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "input_required", "question a", "question b"]).await;
    world.apply(&task, given::answer(&["a"])).await;
    world.tells(&mut watch, &["changed"]).await;
    assert_eq!(watch.told(task.id).unwrap().asked, [short("b")]);
}

#[tokio::test]
async fn what_is_put_back_comes_again_with_the_next_look() {
    let world = World::new();
    let task = world.running().await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    for expected in ["changed", "input_required", "question a"] {
        let event = world.next(&mut watch).await.unwrap();
        assert_eq!(name(&event), expected);
        watch.put_back(&event);
    }
    world.tells(&mut watch, &["question b"]).await;
    assert_eq!(world.now_ms(), 0, "the rest is not held up");
    world.tells(&mut watch, &["changed", "input_required", "question a"]).await;
    assert_eq!(world.now_ms(), PAUSE_MS);
}

#[tokio::test]
async fn a_watch_stays_open_until_the_end_could_be_told() {
    let world = World::new();
    let task = world.running().await;
    let task = world.apply(&task, given::finish(1, "{}")).await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "completed"]).await;
    let ended = world.next(&mut watch).await.unwrap();
    watch.put_back(&ended);
    assert_eq!(world.next(&mut watch).await, Some(ended));
    world.tells(&mut watch, &["close with 0"]).await;
    // Subscribers hear of the end as of any other change.
    let mut watch = world.watch(&[&task]);
    let changed = world.next(&mut watch).await.unwrap();
    watch.put_back(&changed);
    world.tells(&mut watch, &["completed", "ended"]).await;
    assert_eq!(world.next(&mut watch).await, Some(changed));
    world.tells(&mut watch, &["close with 0"]).await;
}

#[tokio::test]
async fn a_watch_closes_when_its_time_is_over_and_names_what_goes_on() {
    let world = World::new();
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.counting(|_| false);
    world.tells(&mut watch, &["changed", "working"]).await;
    assert_eq!(world.next(&mut watch).await, Some(Event::Close(vec![Arc::new(task)])));
    assert_eq!(world.next(&mut watch).await, None);
    assert_eq!(world.looked_ms(), [250, 500, 750, 1_000]);
}

#[tokio::test]
async fn a_watch_without_time_tells_what_is_known_and_looks_no_further() {
    let world = World::new();
    let task = world.running().await;
    world.counting(|_| false);
    let tasks = [(task, Told::default())];
    let mut watch = TaskWatch::new(&world.engine, &world.settings, &world.closing, 0, tasks);
    world.tells(&mut watch, &["changed", "working", "close with 1", "nothing"]).await;
    assert_eq!(world.looked_ms(), Vec::<u64>::new());
}

#[tokio::test]
async fn short_pauses_double_up_to_the_longest_one() {
    let world = World::new();
    let task = world.running().await;
    let mut watch = world.watch(&[&task]).starting_with_short_pauses();
    world.counting(|_| false);
    world.tells(&mut watch, &["changed", "working", "close with 1"]).await;
    assert_eq!(world.looked_ms(), [4, 12, 28, 60, 124, 252, 502, 752, 1_000]);
}

#[tokio::test]
async fn a_server_that_closes_ends_the_pause_after_what_is_known() {
    let world = World::new();
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.closing.cancel();
    world.tells(&mut watch, &["changed", "working", "close with 1", "nothing"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_pause() {
    let world = World::new();
    let task = world.running().await;
    let leaving = CancellationToken::new();
    let mut watch = world.watch(&[&task]).until_left(leaving.clone());
    world.tells(&mut watch, &["changed", "working"]).await;
    assert_eq!(watch.next().now_or_never(), None, "it waits");
    leaving.cancel();
    world.closing.cancel();
    world.tells(&mut watch, &["left", "nothing"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_no_news() {
    let world = World::new();
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "working"]).await;
    assert_eq!(watch.next().now_or_never(), None, "it waits");
    assert_eq!(world.clock.sleepers(), 0, "and leaves nothing behind");
    world.clock.advance_ms(1);
    world.apply(&task, given::finish(1, "{}")).await;
    world.tells(&mut watch, &["changed", "completed", "ended", "close with 0"]).await;
}

#[tokio::test]
async fn a_sign_of_life_is_due_when_nothing_was_sent_for_a_while() {
    let mut world = World::new();
    world.settings.keep_alive_ms = 500;
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "working", "keep-alive"]).await;
    assert_eq!(world.now_ms(), 500);
    watch.sent();
    world.tells(&mut watch, &["keep-alive"]).await;
    assert_eq!(world.now_ms(), 1_000);
    world.tells(&mut watch, &["close with 1"]).await;
}

#[tokio::test]
async fn a_sign_of_life_comes_before_the_news_of_the_same_look() {
    let mut world = World::new();
    world.settings.keep_alive_ms = PAUSE_MS;
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "working"]).await;
    world.clock.advance_ms(1);
    world.apply(&task, given::finish(1, "{}")).await;
    world.tells(&mut watch, &["keep-alive", "changed", "completed", "ended", "close with 0"]).await;
}

#[tokio::test]
async fn a_store_that_fails_in_the_middle_is_asked_again() {
    let world = World::new();
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "working"]).await;
    world.clock.advance_ms(1);
    world.apply(&task, given::finish(1, "{}")).await;
    world.counting(|look| look <= 2);
    world.tells(&mut watch, &["changed", "completed", "ended"]).await;
    assert_eq!(world.looked_ms(), [251, 501, 751]);
}

#[tokio::test]
async fn a_task_that_is_no_longer_there_is_gone() {
    let world = World::new();
    let expiring = given::task_with(&world.ids, given::owner("alice"), NOW, |record| {
        record.expires_at = NOW.plus_ms(400);
    });
    let Created::New(expiring) = world.store.create(given::new(expiring), NOW).await.unwrap() else {
        panic!("the id was never used");
    };
    let other = world.running().await;
    let mut watch = world.watch(&[&expiring, &other]);
    world.tells(&mut watch, &["changed", "working", "changed", "working"]).await;
    assert_eq!(world.next(&mut watch).await, Some(Event::Gone(expiring.key())));
    assert_eq!(world.now_ms(), 500);
    world.counting(|_| false);
    assert_eq!(world.next(&mut watch).await, Some(Event::Close(vec![Arc::new(other.clone())])));
    assert!(world.looks.lock().unwrap().iter().all(|(_, id)| *id == other.id), "it is not looked for any more");
}

#[tokio::test]
async fn several_tasks_are_watched_until_the_last_one_has_ended() {
    let world = World::new();
    let (one, two) = (world.running().await, world.running().await);
    let mut watch = world.watch(&[&one, &two]);
    world.tells(&mut watch, &["changed", "working", "changed", "working"]).await;
    world.clock.advance_ms(1);
    world.apply(&one, given::finish(1, "{}")).await;
    world.tells(&mut watch, &["changed", "completed", "ended"]).await;
    world.apply(&two, given::fail(1)).await;
    world.counting(|_| false);
    let told = world.next(&mut watch).await.unwrap();
    assert!(matches!(&told, Event::Changed(task) if task.id == two.id), "{told:?}");
    world.tells(&mut watch, &["failed", "ended", "close with 0"]).await;
    assert_eq!(world.looks.lock().unwrap().len(), 1, "one that has ended is not looked at again");
}

#[tokio::test]
async fn without_tasks_there_is_nothing_to_wait_for() {
    let world = World::new();
    let mut watch = world.watch(&[]);
    world.tells(&mut watch, &["close with 0", "nothing"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_watch_that_was_stopped_says_nothing_more() {
    let world = World::new();
    let task = world.running().await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed"]).await;
    watch.stop();
    world.tells(&mut watch, &["nothing"]).await;
}

#[tokio::test]
async fn a_look_replaces_what_the_look_before_has_left() {
    let world = World::new();
    let task = world.running().await;
    let task = world.apply(&task, given::asks(1, &["a", "b"], None)).await;
    let mut watch = world.watch(&[&task]);
    world.tells(&mut watch, &["changed", "input_required", "question a"]).await;
    world.clock.advance_ms(WAIT_MS);
    world.apply(&task, given::answer(&["a", "b"])).await;
    watch.wait_until_after(WAIT_MS);
    watch.look().await;
    world.tells(&mut watch, &["changed", "working", "close with 1"]).await;
    assert_eq!(world.now_ms(), 2 * WAIT_MS);
}
