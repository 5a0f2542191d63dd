//! What is announced of which task, under which name, and that it is passed on at least once.

use std::sync::Mutex;

use async_trait::async_trait;
use longhaul_core::ports::{Outbox, StoreError};
use longhaul_core::{
    Announced, Announcement, NOTICE_TOOL, Policy, RequestedTerms, Status, Task, TaskEvent, TaskKey, Terms,
};
use longhaul_engine::{Notice, Notices, Settings};
use longhaul_testkit::{SeededIds, given};

use crate::world::{World, ann, call, run};

/// An outbox in memory, which may forget to remove what it was told to.
#[derive(Default)]
struct Kept {
    announcements: Mutex<Vec<Announcement>>,
    removes: bool,
}

#[async_trait]
impl Outbox for Kept {
    async fn announcements(&self, max: usize, _wait_ms: u64) -> Result<Vec<Announcement>, StoreError> {
        Ok(self.announcements.lock().unwrap().iter().take(max).cloned().collect())
    }

    async fn remove(&self, gone: &[Announcement]) -> Result<(), StoreError> {
        if self.removes {
            self.announcements.lock().unwrap().retain(|announcement| !gone.contains(announcement));
            return Ok(());
        }
        Err(StoreError::Unavailable("planted".into()))
    }
}

/// Tells these endpoints of everything.
struct Everything(&'static [&'static str]);

impl Notices for Everything {
    fn of(&self, announcement: &Announcement) -> Vec<Notice> {
        let terms = Terms::negotiate(&Policy::default(), RequestedTerms::default());
        let notice = |endpoint: &&str| Notice { endpoint: (*endpoint).to_owned(), request: announcement.id(), terms };
        self.0.iter().map(notice).collect()
    }
}

fn announcement(seed: u64) -> Announcement {
    let task = given::task(&SeededIds::new(seed), ann(), given::NOW);
    Announcement::of(&task.apply(&TaskEvent::Cancel, given::NOW).unwrap()).unwrap()
}

#[test]
fn each_announcement_becomes_a_task_for_each_endpoint_and_leaves_the_outbox() {
    run(async {
        let world = World::new();
        let outbox = Kept { announcements: Mutex::new(vec![announcement(1), announcement(2)]), removes: true };
        let announced = world.engine.announce(&outbox, &Everything(&["a", "b"]), 0).await.unwrap();
        assert_eq!((announced, outbox.announcements.lock().unwrap().len()), (2, 0));
        for (announcement, endpoint) in [(1, "a"), (1, "b"), (2, "a"), (2, "b")] {
            let id = announcement_key(announcement, endpoint);
            let notice = world.on_record(&id).await;
            assert!(notice.is_notice());
        }
    });
}

fn announcement_key(seed: u64, endpoint: &str) -> TaskKey {
    TaskKey::new(ann(), announcement(seed).notice_id(endpoint))
}

#[test]
fn who_dies_before_the_announcement_is_removed_makes_no_second_task() {
    run(async {
        let world = World::new();
        let outbox = Kept { announcements: Mutex::new(vec![announcement(1)]), removes: false };
        for _ in 0..2 {
            let told = world.engine.announce(&outbox, &Everything(&["a"]), 0);
            world.while_time_passes(100, told).await.unwrap_err();
        }
        let listed = world.engine.list(&ann(), None, 9).await.unwrap().tasks;
        assert_eq!(listed.len(), 1);
        assert_eq!(world.delays().len(), 2, "its message may be the one that was lost: it is sent again");
    });
}

#[test]
fn no_limit_of_the_owner_refuses_a_notice() {
    run(async {
        let world = World::with(Settings { open_tasks_max: 1, new_tasks_max: Some(1), ..Settings::default() });
        world.engine.accept(call()).await.unwrap();
        world.engine.accept(call()).await.unwrap_err();
        world.engine.tell(&announcement(1), &Everything(&["a", "b"])).await.unwrap();
        assert_eq!(world.engine.list(&ann(), None, 9).await.unwrap().tasks.len(), 3);
    });
}

fn task(events: &[TaskEvent]) -> (Task, Task) {
    let first = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW);
    let mut last = [first.clone(), first];
    for event in events {
        let [_, before] = last;
        let after = before.apply(event, given::NOW).expect("it applies");
        last = [before, after];
    }
    let [before, after] = last;
    (before, after)
}

#[test]
fn each_end_and_each_question_is_announced_once() {
    let claimed = || given::claim(1, given::NOW);
    for (events, what) in [
        (vec![claimed()], None),
        (vec![claimed(), given::finish(1, "{}")], Some(Announced::Completed)),
        (vec![claimed(), given::fail(1)], Some(Announced::Failed)),
        (vec![TaskEvent::Cancel], Some(Announced::Cancelled)),
        (vec![claimed(), given::asks(1, &["a", "b"], None)], Some(Announced::InputRequired)),
        (vec![claimed(), given::asks(1, &["a", "b"], None), TaskEvent::Answer { keys: vec!["a".to_owned()] }], None),
    ] {
        let (before, after) = task(&events);
        assert_eq!(Announcement::between(&before, &after).map(|announcement| announcement.what), what, "{events:?}");
    }
}

#[test]
fn two_rounds_of_questions_are_two_announcements() {
    let round = |attempt| {
        let (_, mut after) = task(&[given::claim(1, given::NOW), given::asks(1, &["a"], None)]);
        let mut record = after.into_record();
        record.attempt = attempt;
        after = Task::restore(record);
        Announcement::of(&after).expect("it is announced")
    };
    assert_ne!(round(1).id(), round(2).id());
    assert_ne!(round(1).notice_id("a"), round(2).notice_id("a"));
    assert_ne!(round(1).notice_id("a"), round(1).notice_id("b"));
    assert_eq!(round(1).notice_id("a"), round(1).notice_id("a"));
}

#[test]
fn nothing_that_a_tool_says_is_announced() {
    let (_, failed) = task(&[given::claim(1, given::NOW), given::fail(1)]);
    let announcement = Announcement::of(&failed).expect("it is announced");
    assert_eq!(announcement.message, None);
    assert_eq!(failed.status(), Status::Failed);
}

#[test]
fn no_notice_is_announced() {
    let (_, ended) = task(&[TaskEvent::Cancel]);
    let mut record = ended.into_record();
    record.tool = NOTICE_TOOL.to_owned();
    let notice = Task::restore(record);
    assert!(notice.is_notice());
    assert_eq!(Announcement::of(&notice), None);
}
