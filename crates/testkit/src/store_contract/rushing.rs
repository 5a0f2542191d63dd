//! Promises about concurrent calls.

use std::pin::pin;

use longhaul_core::ports::{CreateError, Created, NewTask, Recorded, TaskStore};
use longhaul_core::{Entry, EntryKind, State, TaskEvent};

use crate::given::{self, LEASE_MS, NOW, on_record, owner, queued, running};
use crate::{SeededIds, at_once};

/// How many concurrent callers there are.
const CALLERS: usize = 16;

/// How often it is tried: a race that is lost now and then should be found by one run.
const ROUNDS: u64 = 8;

fn number(caller: usize) -> u8 {
    u8::try_from(caller).unwrap()
}

/// Promise: one claim wins, and its lease is the one recorded.
pub async fn of_many_claims_at_once_one_wins(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    for _ in 0..ROUNDS {
        let key = queued(store, &ids, owner("alice")).await.key();
        let claims = at_once(CALLERS, |caller| async move {
            let event = given::claim(number(caller), NOW);
            store.apply(&key, &event, NOW).await.ok()
        });
        let won: Vec<_> = claims.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{} claims won", won.len());
        assert_eq!(on_record(store, &key).await.as_ref(), won.first());
    }
}

/// Promise: one end wins, no matter who wrote it.
pub async fn of_many_ends_at_once_one_wins(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    for _ in 0..ROUNDS {
        let key = running(store, &ids, owner("alice")).await.key();
        let ends = at_once(CALLERS, |caller| async move {
            let event = match caller % 3 {
                0 => TaskEvent::Cancel,
                1 => given::fail(1),
                _ => given::finish(1, &format!("{{\"n\":{caller}}}")),
            };
            store.apply(&key, &event, NOW).await.ok()
        });
        let won: Vec<_> = ends.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{} ends won", won.len());
        assert_eq!(on_record(store, &key).await.as_ref(), won.first());
    }
}

/// Promise: one record of an entry wins, and all other callers get it.
pub async fn of_many_records_of_one_entry_at_once_one_wins(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    for round in 0..ROUNDS {
        let entry = |caller: usize| Entry {
            kind: EntryKind::Step,
            name: format!("step {round}"),
            value: given::inline(&caller.to_string()),
            recording: None,
        };
        let records = at_once(CALLERS, |caller| async move { store.record(&key, &entry(caller)).await.unwrap() });
        let first: Vec<usize> = (0..CALLERS).filter(|caller| records[*caller] == Recorded::First).collect();
        assert_eq!(first.len(), 1, "{} records were first", first.len());
        let earlier = Recorded::Earlier(entry(first[0]));
        assert!((0..CALLERS).all(|caller| caller == first[0] || records[caller] == earlier), "{records:?}");
        assert!(store.journal(&key).await.unwrap().contains(&entry(first[0])));
    }
}

/// Promise: retries that overtake each other create one task.
pub async fn of_many_creations_with_one_key_at_once_one_wins(store: &dyn TaskStore) {
    let ids = &SeededIds::new(1);
    for round in 0..ROUNDS {
        let round = u8::try_from(round).unwrap();
        let created = at_once(CALLERS, |_caller| async move {
            let new = given::new_with_key(given::task(ids, owner("alice"), NOW), round, 1);
            store.create(new, NOW).await.unwrap()
        });
        let new: Vec<_> = created.iter().filter(|created| matches!(created, Created::New(_))).collect();
        assert_eq!(new.len(), 1, "{} tasks were created", new.len());
        let ids: std::collections::BTreeSet<_> = created
            .iter()
            .map(|created| match created {
                Created::New(task) | Created::NewAndSent(task) | Created::Existing(task) => task.id,
            })
            .collect();
        assert_eq!(ids.len(), 1, "the callers got different tasks");
    }
}

/// Promise: a creation that is sent twice creates one task.
pub async fn of_many_creations_of_one_task_at_once_one_wins(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    for _ in 0..ROUNDS {
        let task = &given::task(&ids, owner("alice"), NOW);
        let created =
            at_once(CALLERS, |_caller| async move { store.create(given::new(task.clone()), NOW).await.unwrap() });
        let new = created.iter().filter(|created| **created == Created::New(task.clone())).count();
        let existing = created.iter().filter(|created| **created == Created::Existing(task.clone())).count();
        assert_eq!((new, existing), (1, CALLERS - 1));
    }
}

/// Promise: concurrent calls do not exceed the limit.
pub async fn the_limit_holds_for_many_creations_at_once(store: &dyn TaskStore) {
    let ids = &SeededIds::new(1);
    let created = at_once(CALLERS, |_caller| async move {
        let task = given::task(ids, owner("alice"), NOW);
        match store.create(NewTask { open_max: 5, ..given::new(task) }, NOW).await {
            Ok(Created::New(_)) => 1,
            Err(CreateError::TooManyOpen { open_max: 5 }) => 0,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(created.into_iter().sum::<u32>(), 5);
    assert_eq!(store.list(&owner("alice"), None, 100, NOW).await.unwrap().tasks.len(), 5);
}

/// Promise: a result is not lost to progress that is written concurrently.
pub async fn progress_and_an_end_at_once_never_lose_the_end(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    for _ in 0..ROUNDS {
        let key = running(store, &ids, owner("alice")).await.key();
        let done = at_once(CALLERS, |caller| async move {
            let event =
                if caller == CALLERS / 2 { given::finish(1, "{}") } else { given::progress(1, NOW.plus_ms(1), 0.5) };
            store.apply(&key, &event, NOW.plus_ms(1)).await.is_ok()
        });
        assert!(done[CALLERS / 2], "the end was refused");
        let ended = on_record(store, &key).await.unwrap();
        assert!(matches!(ended.state, State::Completed { .. }), "{:?}", ended.state);
    }
}

/// Begins `call`, and drops it if it is not answered after so many polls.
async fn give_up_after<T>(polls: u64, call: impl Future<Output = T>) {
    let mut call = pin!(call);
    for _ in 0..polls {
        if futures::poll!(call.as_mut()).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Promise: a heartbeat whose caller went away is applied before later ones, or not at all.
pub async fn a_heartbeat_that_was_given_up_undoes_no_later_one(store: &dyn TaskStore) {
    let key = running(store, &SeededIds::new(1), owner("alice")).await.key();
    let mut latest = None;
    for round in 0..ROUNDS {
        let (now, next) = (NOW.plus_ms(2 * round + 1), NOW.plus_ms(2 * round + 2));
        let given_up = given::progress(1, now, 0.25);
        give_up_after(round + 1, store.apply(&key, &given_up, now)).await;
        let beat = given::progress(1, next, 0.75);
        latest = Some(store.apply(&key, &beat, next).await.unwrap());
        assert_eq!(on_record(store, &key).await, latest);
    }
    // Heartbeats that were given up had the time of several calls to arrive.
    assert_eq!(on_record(store, &key).await, latest);
}

/// Promise: a busy store keeps the tasks of owners apart, and loses none.
pub async fn many_owners_at_once_do_not_disturb_each_other(store: &dyn TaskStore) {
    let ended = at_once(CALLERS, |caller| async move {
        let (ids, owner) = (SeededIds::new(7), owner(&format!("owner {caller}")));
        for _ in 0..4 {
            let key = queued(store, &ids, owner).await.key();
            store.apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
            let later = NOW.plus_ms(LEASE_MS);
            store.apply(&key, &given::claim(2, later), later).await.unwrap();
            store.apply(&key, &given::finish(2, &caller.to_string()), later).await.unwrap();
        }
        store.list(&owner, None, 100, NOW).await.unwrap().tasks
    });
    for (caller, tasks) in ended.into_iter().enumerate() {
        assert_eq!(tasks.len(), 4);
        let result = given::inline(&caller.to_string());
        let has_own = |state: &State| matches!(state, State::Completed { result: own, .. } if *own == result);
        assert!(tasks.iter().all(|task| task.attempt == 2 && has_own(&task.state)), "{tasks:?}");
    }
}
