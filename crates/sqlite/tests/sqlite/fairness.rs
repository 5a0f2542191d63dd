//! Owners take turns, and no owner has more messages in flight than its share: wherever the messages are.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::ports::{Delivery, Message, NewTask, TaskStore, WorkQueue};
use longhaul_core::{Clock as _, OwnerId};
use longhaul_sqlite::{Database, Settings, SqliteQueue, SqliteStore};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{ManualClock, SeededIds, block_on};

/// How long deliveries are hidden.
const HIDDEN_MS: u64 = 10_000;

/// Where the messages are that are visible at once.
#[derive(Clone, Copy)]
enum Place {
    Table,
    Memory,
    /// Those with an even number in the table, the others in memory.
    Both,
}

struct World {
    place: Place,
    store: SqliteStore,
    queue: SqliteQueue,
    clock: Arc<ManualClock>,
    ids: SeededIds,
}

impl World {
    fn with(owner_in_flight_max: usize, place: Place) -> Self {
        let clock = Arc::new(ManualClock::default());
        let settings = Settings { owner_in_flight_max, receives_max: 3, ..Settings::default() };
        let database = Database::in_memory(Arc::clone(&clock) as _, settings).unwrap();
        let (store, queue) = (database.store_with_queue(), database.queue());
        Self { place, store, queue, clock, ids: SeededIds::new(1) }
    }

    async fn send(&self, owner: OwnerId, count: usize) {
        for number in 0..count {
            let is_new_task = match self.place {
                Place::Table => false,
                Place::Memory => true,
                Place::Both => number % 2 == 1,
            };
            if is_new_task {
                let task = given::task(&self.ids, owner, NOW);
                let new = NewTask { send_in_ms: Some(0), open_max: u32::MAX, ..given::new(task) };
                self.store.create(new, NOW).await.unwrap();
            } else {
                self.send_later(owner, 1, 0).await;
            }
        }
    }

    async fn send_later(&self, owner: OwnerId, count: usize, delay_ms: u64) {
        for _ in 0..count {
            let message = Message { task: given::task(&self.ids, owner, NOW).key(), trace: None, attempt: None };
            self.queue.send(&message, delay_ms).await.unwrap();
        }
    }

    async fn receive(&self, max: usize) -> Vec<Delivery> {
        self.queue.receive(max, HIDDEN_MS, 0).await.unwrap()
    }

    /// Receives one message after the other, each done before the next, and returns their owners in order.
    async fn served(&self, count: usize) -> Vec<OwnerId> {
        let mut owners = Vec::new();
        for _ in 0..count {
            let [delivery] = self.receive(1).await.try_into().unwrap();
            owners.push(delivery.message.task.owner);
            self.queue.delete(&delivery.receipt).await.unwrap();
        }
        owners
    }
}

/// Runs `test` with messages in the table, in memory, and in both.
fn wherever(owner_in_flight_max: usize, test: impl AsyncFn(World)) {
    for place in [Place::Table, Place::Memory, Place::Both] {
        block_on(test(World::with(owner_in_flight_max, place)));
    }
}

fn counts(deliveries: &[Delivery]) -> BTreeMap<OwnerId, usize> {
    let mut counts = BTreeMap::new();
    for delivery in deliveries {
        *counts.entry(delivery.message.task.owner).or_default() += 1;
    }
    counts
}

#[test]
fn a_worker_that_runs_one_attempt_at_a_time_serves_the_owners_in_turn() {
    wherever(usize::MAX, async |world| {
        let (alice, bob, carol) = (owner("alice"), owner("bob"), owner("carol"));
        world.send(alice, 5).await;
        world.send(bob, 2).await;
        world.send(carol, 1).await;
        let order = world.served(8).await;
        assert!(order.iter().take(3).all(|first| order.iter().take(3).filter(|one| *one == first).count() == 1));
        assert!(order.iter().take(5).filter(|one| **one == bob).count() == 2, "{order:?}");
        assert_eq!(order.iter().skip(5).collect::<Vec<_>>(), [&alice; 3]);
    });
}

#[test]
fn messages_of_one_owner_come_in_the_order_in_which_they_became_visible() {
    wherever(usize::MAX, async |world| {
        let task = || given::task(&world.ids, owner("alice"), NOW).key();
        let (late, early) = (task(), task());
        world.queue.send(&Message { task: late, trace: None, attempt: None }, 2_000).await.unwrap();
        world.queue.send(&Message { task: early, trace: None, attempt: None }, 1_000).await.unwrap();
        world.clock.advance_ms(3_000);
        let came: Vec<_> = world.receive(2).await.into_iter().map(|delivery| delivery.message.task).collect();
        assert_eq!(came, [early, late]);
    });
}

#[test]
fn an_owner_with_less_in_flight_comes_first() {
    wherever(usize::MAX, async |world| {
        let (alice, bob) = (owner("alice"), owner("bob"));
        world.send(alice, 20).await;
        assert_eq!(world.receive(6).await.len(), 6);
        world.send(bob, 10).await;
        assert_eq!(counts(&world.receive(4).await), BTreeMap::from([(bob, 4)]));
        // Bob has 4, Alice 6: both have 7 afterwards.
        assert_eq!(counts(&world.receive(4).await), BTreeMap::from([(alice, 1), (bob, 3)]));
    });
}

#[test]
fn an_owner_with_its_share_in_flight_is_passed_over_until_a_message_is_done() {
    wherever(3, async |world| {
        let (alice, bob) = (owner("alice"), owner("bob"));
        world.send(alice, 10).await;
        let first = world.receive(10).await;
        assert_eq!(counts(&first), BTreeMap::from([(alice, 3)]));
        assert_eq!(world.receive(10).await, []);
        world.send(bob, 1).await;
        assert_eq!(counts(&world.receive(10).await), BTreeMap::from([(bob, 1)]));
        world.queue.delete(&first[0].receipt).await.unwrap();
        assert_eq!(counts(&world.receive(10).await), BTreeMap::from([(alice, 1)]));
        // A second deletion frees nothing, nor does one with a receipt that is no longer the latest.
        world.queue.delete(&first[0].receipt).await.unwrap();
        assert_eq!(world.receive(10).await, []);
    });
}

#[test]
fn a_message_that_was_given_back_is_in_flight_until_it_is_visible() {
    wherever(1, async |world| {
        let alice = owner("alice");
        world.send(alice, 2).await;
        let [first] = world.receive(2).await.try_into().unwrap();
        world.queue.extend(&first.receipt, 2_000).await.unwrap();
        assert_eq!(world.receive(2).await, []);
        world.clock.advance_ms(2_000);
        let [second] = world.receive(2).await.try_into().unwrap();
        // A heartbeat keeps it in flight beyond the time for which it was received.
        world.clock.advance_ms(HIDDEN_MS - 1);
        world.queue.extend(&second.receipt, HIDDEN_MS).await.unwrap();
        world.clock.advance_ms(HIDDEN_MS - 1);
        assert_eq!(world.receive(2).await, []);
        world.clock.advance_ms(1);
        assert_eq!(world.receive(2).await.len(), 1);
    });
}

#[test]
fn a_waiting_receive_wakes_when_an_owner_with_its_share_in_flight_is_done_with_a_message() {
    wherever(1, async |world| {
        world.send(owner("alice"), 2).await;
        let [first] = world.receive(2).await.try_into().unwrap();
        let done = async {
            while world.clock.sleepers() == 0 {
                tokio::task::yield_now().await;
            }
            world.queue.delete(&first.receipt).await.unwrap();
        };
        let (received, ()) = tokio::join!(world.queue.receive(1, HIDDEN_MS, 60_000), done);
        assert_eq!(received.unwrap().len(), 1);
    });
}

#[test]
fn a_waiting_receive_sleeps_although_passed_over_messages_are_visible() {
    wherever(1, async |world| {
        world.send(owner("alice"), 2).await;
        assert_eq!(world.receive(2).await.len(), 1);
        let due = world.clock.now().plus_ms(HIDDEN_MS);
        let passes = async {
            while world.clock.sleepers() == 0 {
                tokio::task::yield_now().await;
            }
            let wakes_at = world.clock.next_wake();
            world.clock.advance_ms(60_000);
            wakes_at
        };
        let (received, wakes_at) = tokio::join!(world.queue.receive(1, HIDDEN_MS, 60_000), passes);
        assert_eq!((received.unwrap().len(), wakes_at), (1, Some(due)));
    });
}

#[test]
fn an_owner_behind_a_long_line_of_another_is_found() {
    wherever(usize::MAX, async |world| {
        let (alice, bob) = (owner("alice"), owner("bob"));
        world.send(alice, 500).await;
        world.send(bob, 1).await;
        assert!(world.served(2).await.contains(&bob));
    });
}

#[test]
fn an_owner_is_found_among_many_that_sleep_behind_a_long_line() {
    wherever(2, async |world| {
        let (alice, bob) = (owner("alice"), owner("bob"));
        for number in 0..200 {
            world.send_later(owner(&format!("sleeper {number}")), 1, HIDDEN_MS * 100).await;
        }
        world.send(alice, 100).await;
        world.send(bob, 1).await;
        // Once Alice has her share, only Bob's message can be delivered, wherever he is among the others.
        let mut came = world.receive(2).await;
        came.extend(world.receive(2).await);
        assert_eq!(counts(&came), BTreeMap::from([(alice, 2), (bob, 1)]));
        assert_eq!(world.receive(2).await, []);
    });
}

#[test]
fn every_owner_is_found_in_time_although_a_search_is_cut_short() {
    wherever(usize::MAX, async |world| {
        let alice = owner("alice");
        world.send(alice, 80).await;
        for number in 0..70 {
            world.send(owner(&format!("owner {number}")), 1).await;
        }
        let served = world.served(150).await;
        // Each of the others was served before all of Alice's were.
        let last = served.iter().rposition(|one| *one != alice).unwrap();
        assert!(served.iter().take(last).filter(|one| **one == alice).count() < 80, "{last}");
        assert_eq!(world.receive(1).await, []);
    });
}

#[test]
fn dead_letters_of_one_owner_do_not_shorten_what_others_get() {
    wherever(usize::MAX, async |world| {
        let (alice, bob) = (owner("alice"), owner("bob"));
        world.send(alice, 3).await;
        for _ in 0..3 {
            for delivery in world.receive(3).await {
                world.queue.extend(&delivery.receipt, 0).await.unwrap();
            }
        }
        world.send(bob, 2).await;
        assert_eq!(counts(&world.receive(2).await), BTreeMap::from([(bob, 2)]));
        assert_eq!(world.receive(2).await, []);
        assert_eq!(world.queue.receive_dead(10, HIDDEN_MS).await.unwrap().len(), 3);
    });
}
