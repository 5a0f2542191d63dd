//! Promises about how many tasks an owner may create in a minute.

use longhaul_core::ports::{CreateError, Created, NewTask, TaskStore};
use longhaul_core::{OwnerId, Task, TaskEvent, Timestamp};

use crate::given::{self, NOW, on_record, owner};
use crate::{SeededIds, at_once};

/// The limit in these promises.
const NEW_MAX: u32 = 3;

/// The longest time that a refused caller may be asked to wait: a minute, or two after a clock was set back.
const RETRY_MS_MAX: u64 = 120_000;

/// `task`, under this limit and no other one that matters.
fn new(task: Task) -> NewTask {
    NewTask { new_max: Some(NEW_MAX), ..given::new(task) }
}

/// The outcome of a creation: the task, or after how long to try again.
async fn outcome(store: &dyn TaskStore, new: NewTask, now: Timestamp) -> Result<Task, u64> {
    let limit = new.new_max;
    match store.create(new, now).await {
        Ok(Created::New(task)) => Ok(task),
        Err(CreateError::TooManyNew { new_max, retry_ms }) => {
            assert_eq!(Some(new_max), limit);
            assert!((1..=RETRY_MS_MAX).contains(&retry_ms), "{retry_ms}");
            Err(retry_ms)
        }
        other => panic!("{other:?}"),
    }
}

async fn create(store: &dyn TaskStore, ids: &SeededIds, owner: OwnerId, now: Timestamp) -> Result<Task, u64> {
    outcome(store, new(given::task(ids, owner, now)), now).await
}

/// Creates as many tasks as are allowed; returns them, and after how long there is room for the next.
async fn fill(store: &dyn TaskStore, ids: &SeededIds, owner: OwnerId, now: Timestamp) -> (Vec<Task>, u64) {
    let mut tasks = Vec::new();
    for _ in 0..NEW_MAX {
        tasks.push(create(store, ids, owner, now).await.expect("there is room"));
    }
    let retry_ms = create(store, ids, owner, now).await.expect_err("the limit does not hold");
    (tasks, retry_ms)
}

/// Promise: an owner creates at most as many tasks in a minute as allowed.
pub async fn the_limit_of_new_tasks_holds(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let (_, retry_ms) = fill(store, &ids, alice, NOW).await;
    assert_eq!(retry_ms, 60_000);
    for later_ms in [1, 30_000, 59_999] {
        assert_eq!(create(store, &ids, alice, NOW.plus_ms(later_ms)).await, Err(60_000 - later_ms));
    }
}

/// Promise: after the time that a refusal names there is room again, for as many as before.
pub async fn a_minute_later_there_is_room_for_new_tasks(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let mut now = NOW;
    for _ in 0..3 {
        let (_, retry_ms) = fill(store, &ids, alice, now).await;
        now = now.plus_ms(retry_ms);
    }
    fill(store, &ids, alice, now.plus_ms(86_400_000)).await;
}

/// Promise: what counts is that a task was created, not whether it is unfinished.
pub async fn an_end_makes_no_room_for_new_tasks(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    for task in fill(store, &ids, alice, NOW).await.0 {
        store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
        assert!(create(store, &ids, alice, NOW).await.is_err());
    }
}

/// Promise: a retry is answered even where no new task may be created, and takes no room.
pub async fn a_retry_is_not_a_new_task(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let with_key = || NewTask { new_max: Some(NEW_MAX), ..given::new_with_key(given::task(&ids, alice, NOW), 1, 1) };
    let first = outcome(store, with_key(), NOW).await.unwrap();
    let retries = async || {
        for _ in 0..=NEW_MAX {
            assert_eq!(store.create(with_key(), NOW).await.unwrap(), Created::Existing(first.clone()));
            assert_eq!(store.create(new(first.clone()), NOW).await.unwrap(), Created::Existing(first.clone()));
        }
    };
    retries().await;
    for _ in 1..NEW_MAX {
        create(store, &ids, alice, NOW).await.unwrap();
    }
    create(store, &ids, alice, NOW).await.unwrap_err();
    retries().await;
}

/// Promise: a creation that is refused, for whichever reason, takes no room.
pub async fn a_creation_that_is_refused_is_not_a_new_task(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let first = new(given::task(&ids, alice, NOW));
    outcome(store, NewTask { idempotency: given::key(1, 1), ..first }, NOW).await.unwrap();
    for _ in 0..=NEW_MAX {
        let another = || new(given::task(&ids, alice, NOW));
        let refused = store.create(NewTask { open_max: 1, ..another() }, NOW).await;
        assert!(matches!(refused, Err(CreateError::TooManyOpen { .. })), "{refused:?}");
        let refused = store.create(NewTask { stored_max: 1, ..another() }, NOW).await;
        assert!(matches!(refused, Err(CreateError::TooMuchStored { .. })), "{refused:?}");
        let refused = store.create(NewTask { idempotency: given::key(1, 2), ..another() }, NOW).await;
        assert!(matches!(refused, Err(CreateError::KeyReused)), "{refused:?}");
    }
    for _ in 1..NEW_MAX {
        create(store, &ids, alice, NOW).await.unwrap();
    }
    for _ in 0..=NEW_MAX {
        create(store, &ids, alice, NOW).await.unwrap_err();
    }
    fill(store, &ids, alice, NOW.plus_ms(60_000)).await;
}

/// Promise: a creation that is refused writes nothing, and its key is free.
pub async fn a_creation_above_the_limit_of_new_tasks_leaves_nothing(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let (_, retry_ms) = fill(store, &ids, alice, NOW).await;
    let with_key = |task, request| NewTask { new_max: Some(NEW_MAX), ..given::new_with_key(task, 1, request) };
    let refused = given::task(&ids, alice, NOW);
    outcome(store, with_key(refused.clone(), 1), NOW).await.unwrap_err();
    assert_eq!(on_record(store, &refused.key()).await, None);
    let later = NOW.plus_ms(retry_ms);
    outcome(store, with_key(given::task(&ids, alice, later), 2), later).await.unwrap();
}

/// Promise: the limit is per owner.
pub async fn one_owner_does_not_use_up_the_new_tasks_of_another(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    fill(store, &ids, owner("alice"), NOW).await;
    fill(store, &ids, owner("bob"), NOW).await;
}

/// Promise: a window that began in the future, because a clock was set back, is not waited for.
pub async fn a_clock_that_was_set_back_does_not_lock_an_owner_out(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    fill(store, &ids, alice, NOW.plus_ms(86_400_000)).await;
    let (_, _) = fill(store, &ids, alice, NOW).await;
    // Less than a minute: the clocks of two instances may differ.
    let earlier = NOW.minus_ms(10_000);
    let retry_ms = create(store, &ids, alice, earlier).await.expect_err("the limit does not hold");
    create(store, &ids, alice, earlier.plus_ms(retry_ms)).await.unwrap();
}

/// Promise: the limit is that of the creation, not of earlier ones. Without a limit, any number is created.
pub async fn a_limit_of_new_tasks_that_is_changed_holds_at_once(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    fill(store, &ids, alice, NOW).await;
    let under = async |new_max| {
        let new = NewTask { new_max, ..given::new(given::task(&ids, alice, NOW)) };
        outcome(store, new, NOW).await
    };
    under(Some(NEW_MAX - 1)).await.unwrap_err();
    under(Some(NEW_MAX + 1)).await.unwrap();
    under(Some(NEW_MAX + 1)).await.unwrap_err();
    for _ in 0..NEW_MAX {
        under(None).await.unwrap();
    }
}

/// Promise: concurrent calls do not exceed the limit, even where a window ends.
pub async fn the_limit_of_new_tasks_holds_for_many_creations_at_once(store: &dyn TaskStore) {
    let ids = &SeededIds::new(1);
    for minute in 0..3 {
        let now = NOW.plus_ms(minute * 60_000);
        let created = at_once(20, |_caller| async move { create(store, ids, owner("alice"), now).await.is_ok() });
        assert_eq!(created.into_iter().filter(|created| *created).count(), NEW_MAX as usize, "in minute {minute}");
    }
}
