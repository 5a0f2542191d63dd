//! The limit of running attempts per owner: an attempt takes a permit before its claim and gives it back after its end,
//! a task that finds none waits, and nothing but its turn depends on that.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::FutureExt;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, Delivery, StoreError, Taken, WorkQueue};
use longhaul_core::{FailureKind, LeaseToken, PermitGroup, State, Status, TaskId, TaskKey, Timestamp};
use longhaul_engine::{AttemptEnd, AttemptLimit, Disposition, Settings, WorkerSignals};
use longhaul_testkit::{FakePermits, SeededIds, StoreCall, given};

use super::world::{Tool, World, ann, call, completed, crashing, hangs, quick, tool};

/// How long a permit is taken in a worker that is not told when it ends.
pub(super) const ATTEMPT_MS: u64 = 900_000;

/// Permits in memory that log what they are asked, and do not answer on request.
#[derive(Default)]
pub(super) struct Permits {
    pub(super) inner: FakePermits,
    pub(super) log: Mutex<Vec<&'static str>>,
    pub(super) silent: AtomicBool,
    /// The one request that is not answered.
    pub(super) silent_about: Mutex<Option<&'static str>>,
    /// Permits of other tasks that are taken when this task's permit is given back.
    pub(super) taken_meanwhile: Mutex<Option<AttemptPermit>>,
}

impl Permits {
    pub(super) fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn answer(&self, asked: &'static str) -> Result<(), StoreError> {
        self.log.lock().unwrap().push(asked);
        let is_silent = self.silent.load(Ordering::Relaxed) || *self.silent_about.lock().unwrap() == Some(asked);
        if is_silent { Err(StoreError::Unavailable("it is silent".into())) } else { Ok(()) }
    }
}

#[async_trait]
impl AttemptPermits for Permits {
    async fn take(&self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        self.answer("take")?;
        self.inner.take(permit, attempts_max, now).await
    }

    async fn take_over(
        &self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        self.answer("take over")?;
        let meanwhile = self.taken_meanwhile.lock().unwrap().take();
        if let Some(other) = meanwhile {
            // The other attempt gives its permit back, and another attempt takes it.
            self.inner.give_back(held, now).await?;
            assert_eq!(self.inner.take(&other, attempts_max, now).await?, Taken::Permit);
        }
        self.inner.take_over(permit, held, attempts_max, now).await
    }

    async fn give_back(&self, permit: &AttemptPermit, now: Timestamp) -> Result<Option<TaskKey>, StoreError> {
        self.answer("give back")?;
        self.inner.give_back(permit, now).await
    }
}

/// A world in which an owner may run so many attempts at a time.
pub(super) fn limited(attempts_max: u32, settings: Settings) -> (World, Arc<Permits>) {
    let mut world = World::with(settings);
    let permits = Arc::<Permits>::default();
    world.engine = world.engine.clone().limited_by(AttemptLimit::new(Arc::clone(&permits) as _, attempts_max));
    (world, permits)
}

/// Another task of Ann's.
pub(super) fn other(until: Timestamp) -> AttemptPermit {
    let id: TaskId = given::task(&SeededIds::new(99), ann(), given::NOW).id;
    let since = until.minus_ms(1);
    AttemptPermit {
        group: PermitGroup::Owner(ann()),
        task: TaskKey::new(ann(), id),
        lease: LeaseToken::from_random([3; 16]),
        since,
        until,
        turn: None,
    }
}

/// Whether all of Ann's permits but `taken` are free, of `attempts_max`.
pub(super) async fn has_room(world: &World, permits: &Permits, attempts_max: u32) -> bool {
    let probe = other(world.now().plus_ms(1));
    let taken = permits.inner.take(&probe, attempts_max, world.now()).await.unwrap();
    permits.inner.give_back(&probe, world.now()).await.unwrap();
    taken == Taken::Permit
}

/// A task whose worker was killed while it had the only permit, and the delivery that it worked on.
pub(super) async fn killed(world: &World) -> (TaskKey, Delivery) {
    let key = world.accepted().await.key();
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    (key, delivery)
}

/// A second task, whose owner's only permit is taken, and its delivery.
async fn second(world: &World) -> (TaskKey, Delivery) {
    let (first, _) = killed(world).await;
    let second = world.accepted().await.key();
    (second, all_but_the_first(world, &first).await)
}

async fn all_but_the_first(world: &World, first: &TaskKey) -> Delivery {
    loop {
        let delivery = world.receive().await.unwrap();
        if delivery.message.task != *first {
            return delivery;
        }
    }
}

#[tokio::test]
async fn an_attempt_takes_a_permit_before_its_claim_and_gives_it_back_after_its_end() {
    let (world, permits) = limited(1, Settings::default());
    let key = world.accepted().await.key();
    world.took();
    world.work(&quick()).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
    assert_eq!(permits.asked(), ["take", "give back"]);
    assert_eq!(world.took(), ["claim", "finish", "get"]);
    assert!(has_room(&world, &permits, 1).await);
}

#[tokio::test]
async fn a_task_without_a_permit_waits_unclaimed_with_a_new_message() {
    let (world, _permits) = limited(1, Settings::default());
    let (first, _) = killed(&world).await;
    let second = world.accepted().await.key();
    world.delays();
    let tool = quick();
    for round in 0..30 {
        let delivery = all_but_the_first(&world, &first).await;
        assert_eq!((delivery.message.task, delivery.receives), (second, 1), "no try counts as a delivery");
        world.took();
        assert_eq!(world.deliver(&delivery, &tool).await, Disposition::Acknowledge);
        assert_eq!(world.took(), ["get", "send"], "round {round}");
        let [delay_ms] = world.delays().try_into().unwrap();
        let waited_ms = world.now().since_ms(world.on_record(&second).await.created_at);
        let longest_ms = (waited_ms / 4).clamp(2_000, 60_000);
        assert!((longest_ms.div_ceil(2)..=longest_ms).contains(&delay_ms), "{delay_ms} of {longest_ms}");
        world.clock.advance_ms(delay_ms);
    }
    assert_eq!(tool.runs(), 0);
    assert_eq!(world.queue.receive_dead(1, 1).await.unwrap(), []);
    assert_eq!(world.on_record(&second).await.status(), Status::Working);
}

#[tokio::test]
async fn the_permit_of_a_dead_worker_is_free_when_its_attempt_could_no_longer_run_and_not_before() {
    let (world, permits) = limited(1, Settings::default());
    let began_at = world.now();
    killed(&world).await;
    world.clock.advance_to(began_at.plus_ms(ATTEMPT_MS - 1));
    assert!(!has_room(&world, &permits, 1).await);
    world.clock.advance_ms(1);
    assert!(has_room(&world, &permits, 1).await);
}

#[tokio::test]
async fn a_permit_is_taken_for_as_long_as_the_worker_lives() {
    let (world, permits) = limited(1, Settings::default());
    world.accepted().await;
    let delivery = world.receive().await.unwrap();
    let hang = hangs();
    let until = world.now().plus_ms(12_345);
    let signals = WorkerSignals { until: Some(until), ..WorkerSignals::default() };
    drop(world.begun_with(&delivery, &hang, &signals));
    world.clock.advance_to(until.minus_ms(1));
    assert!(!has_room(&world, &permits, 1).await);
    world.clock.advance_ms(1);
    assert!(has_room(&world, &permits, 1).await);
}

/// Runs the first delivery of a task with `tool` to its end, and expects that the permit is free again.
async fn gives_back_after(settings: Settings, signals: WorkerSignals, tool: &Tool, expected: &str) {
    let (world, permits) = limited(1, settings);
    let key = world.accepted().await.key();
    let delivery = world.receive().await.unwrap();
    let attempt = AssertUnwindSafe(world.engine.run_delivery(&delivery, tool, &signals)).catch_unwind();
    let ended = world.while_time_passes(1_000, attempt).await;
    assert_eq!(tool.runs(), 1);
    assert_eq!(ended.is_err(), expected == "panics");
    let state = format!("{:?}", world.on_record(&key).await.state);
    assert!(state.starts_with(expected) || expected == "panics", "{state}");
    assert_eq!(permits.asked(), ["take", "give back"], "{state}");
    assert!(has_room(&world, &permits, 1).await, "{state}");
}

#[tokio::test]
async fn a_permit_is_given_back_however_an_attempt_ends() {
    let usual = (Settings::default(), WorkerSignals::default());
    gives_back_after(usual.0, usual.1.clone(), &quick(), "Completed").await;
    gives_back_after(usual.0, usual.1.clone(), &crashing(), "Sleeping").await;
    gives_back_after(usual.0, usual.1.clone(), &tool(|_attempt| async { panic!("the runner panics") }), "panics").await;
    let fails = tool(|_attempt| async { AttemptEnd::Failed { message: "no".to_owned(), detail: "{}".to_owned() } });
    gives_back_after(usual.0, usual.1.clone(), &fails, "Failed").await;
    let sleeps = tool(|attempt| async move {
        attempt.sleep_ms(60_000).await;
        completed("1")
    });
    gives_back_after(usual.0, usual.1.clone(), &sleeps, "Sleeping").await;
    let asks = tool(|attempt| async move {
        attempt.ask("q", "{}".to_owned()).await;
        completed("1")
    });
    gives_back_after(usual.0, usual.1.clone(), &asks, "InputRequired").await;
    let short = Settings { attempt_ms_max: Some(20_000), ..usual.0 };
    gives_back_after(short, usual.1.clone(), &hangs(), "Sleeping").await;
    let until = Some(given::NOW.plus_ms(20_000));
    gives_back_after(usual.0, WorkerSignals { until, ..usual.1.clone() }, &hangs(), "Sleeping").await;
    let stopping = WorkerSignals::default();
    stopping.stop.cancel();
    gives_back_after(usual.0, stopping, &hangs(), "Queued").await;
}

#[tokio::test]
async fn two_deliveries_of_a_task_have_one_permit() {
    let (world, permits) = limited(1, Settings::default());
    let key = world.accepted().await.key();
    let delivery = world.receive().await.unwrap();
    let hang = hangs();
    let signals = WorkerSignals::default();
    let attempt = world.begun_with(&delivery, &hang, &signals);
    permits.asked();
    let tool = quick();
    let again = world.engine.run_delivery(&delivery, &tool, &signals).await;
    assert!(matches!(again, Disposition::RetryAfter { .. }), "the message stays, in case the worker dies: {again:?}");
    assert_eq!((permits.asked(), tool.runs()), (vec!["take"], 0));
    assert!(!has_room(&world, &permits, 1).await, "the permit is the first delivery's");
    assert!(has_room(&world, &permits, 2).await, "and only one");
    world.engine.cancel(&key).await.unwrap();
    world.while_time_passes(1_000, attempt).await;
    assert!(has_room(&world, &permits, 1).await);
}

#[tokio::test]
async fn a_task_that_was_cancelled_while_it_waited_leaves_no_message() {
    let (world, _permits) = limited(1, Settings::default());
    let (second, delivery) = second(&world).await;
    world.engine.cancel(&second).await.unwrap();
    assert_eq!(world.on_record(&second).await.status(), Status::Cancelled, "no worker is needed");
    world.took();
    assert_eq!(world.deliver(&delivery, &quick()).await, Disposition::Acknowledge);
    assert_eq!(world.took(), ["get"]);
}

#[tokio::test]
async fn a_task_whose_deadline_passes_while_it_waits_times_out_even_without_polls() {
    let (world, permits) = limited(1, Settings::default());
    let key = world.accepted().await.key();
    let deadline = world.on_record(&key).await.deadline();
    permits.inner.take(&other(deadline.plus_ms(ATTEMPT_MS)), 1, world.now()).await.unwrap();
    let tool = quick();
    let ended = world.work_until_ended(&key, &tool, 30_000, 1_000_000).await;
    let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
    assert_eq!((failure.kind, tool.runs()), (FailureKind::TimedOut, 0));
    assert!(world.now().since_ms(deadline) <= 90_000);
}

#[tokio::test]
async fn polls_of_a_task_that_waits_until_its_last_minutes_do_not_end_it() {
    let (world, permits) = limited(1, Settings::default());
    let key = world.accept(call()).await.key();
    let free_at = world.on_record(&key).await.deadline().minus_ms(300_000);
    permits.inner.take(&other(free_at), 1, world.now()).await.unwrap();
    let tool = quick();
    while world.now() < free_at {
        world.work(&tool).await;
        world.engine.poll(&key).await.unwrap();
        world.clock.advance_ms(15_000);
    }
    assert_eq!(world.on_record(&key).await.status(), Status::Working);
    assert_eq!(world.work_until_ended(&key, &tool, 1_000, 120).await.status(), Status::Completed);
    assert_eq!(tool.runs(), 1);
}

#[tokio::test]
async fn an_attempt_runs_if_the_permits_cannot_be_reached() {
    let (world, permits) = limited(1, Settings::default());
    killed(&world).await;
    let second = world.accepted().await.key();
    permits.silent.store(true, Ordering::Relaxed);
    let tool = quick();
    let work = async {
        let mut delivery = world.receive().await.unwrap();
        if delivery.message.task != second {
            delivery = world.receive().await.unwrap();
        }
        world.deliver(&delivery, &tool).await
    };
    world.while_time_passes(100, work).await;
    assert_eq!((world.on_record(&second).await.status(), tool.runs()), (Status::Completed, 1));
}

#[tokio::test]
async fn a_task_that_cannot_be_read_while_it_waits_keeps_waiting() {
    let (world, _permits) = limited(1, Settings::default());
    let (_second, delivery) = second(&world).await;
    world.store_fails(|call| matches!(call, StoreCall::Get(_)));
    world.delays();
    assert_eq!(world.deliver(&delivery, &quick()).await, Disposition::Acknowledge);
    assert_eq!(world.delays().len(), 1);
}

/// Found by the simulation (seed 410783 with limited attempts): a message that could not be deleted was replaced at
/// every further delivery, and so were its copies.
#[tokio::test]
async fn a_message_stays_that_was_delivered_before_or_cannot_be_replaced() {
    for receives in [2, 1] {
        let (world, _permits) = limited(1, Settings::default());
        let (second, delivery) = second(&world).await;
        let delivery = Delivery { receives, ..delivery };
        world.took();
        if receives == 1 {
            world.sends_fail(1);
        }
        let Disposition::RetryAfter { after_ms } = world.deliver(&delivery, &quick()).await else { panic!("replaced") };
        assert!((1_000..=2_000).contains(&after_ms), "{after_ms}");
        assert_eq!(world.took(), ["get"], "nothing is sent");
        assert_eq!(world.on_record(&second).await.status(), Status::Working);
    }
}

#[tokio::test]
async fn owners_do_not_wait_for_each_other() {
    let (world, _permits) = limited(1, Settings::default());
    let (first, _) = killed(&world).await;
    let bobs = world.accept(longhaul_engine::Call { owner: given::owner("bob"), ..call() }).await.key();
    let delivery = all_but_the_first(&world, &first).await;
    world.deliver(&delivery, &quick()).await;
    assert_eq!(world.on_record(&bobs).await.status(), Status::Completed);
}
