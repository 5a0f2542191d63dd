//! Who listens hears what this process changes, and reads it again.

use std::collections::BTreeSet;

use futures::FutureExt;
use longhaul_core::ports::Left;
use longhaul_core::{IdSource, MailboxId, TaskKey};
use longhaul_engine::{Listener, Subject};
use longhaul_testkit::SeededIds;

use crate::world::{World, ann, quick};

/// What the listener has heard, without waiting.
fn heard(listener: &mut Listener) -> BTreeSet<Subject> {
    listener.changed().now_or_never().unwrap_or_default()
}

#[tokio::test]
async fn a_listener_hears_of_its_tasks_and_mailboxes_and_of_nothing_else() {
    let world = World::new();
    let (added, polled) = (world.accepted().await.key(), world.accepted().await.key());
    let _other = world.accepted().await;
    let (mailbox, other_mailbox) = (MailboxId::of(&[b"one"]), MailboxId::of(&[b"other"]));
    let mut listener = world.engine.listener();
    listener.add(added);
    listener.poll(&polled).await.unwrap();
    assert_eq!(listener.collect(&ann(), &mailbox).await.unwrap(), None);
    assert_eq!(heard(&mut listener), BTreeSet::new());

    world.work(&quick()).await;
    let expires_at = world.now().plus_ms(60_000);
    for mailbox in [mailbox, other_mailbox] {
        let left = world.engine.leave(&ann(), &mailbox, "a text", expires_at).await.unwrap();
        assert!(matches!(left, Left::First));
    }
    let expected = [Subject::Task(added), Subject::Task(polled), Subject::Mailbox(ann(), mailbox)];
    assert_eq!(heard(&mut listener), BTreeSet::from(expected));
    assert_eq!(listener.collect(&ann(), &mailbox).await.unwrap().as_deref(), Some("a text"));
    assert_eq!(heard(&mut listener), BTreeSet::new());
}

#[tokio::test]
async fn a_listener_that_is_gone_leaves_its_places_to_others() {
    let world = World::new();
    let ids = SeededIds::new(9);
    let mut first = world.engine.listener();
    for _ in 0..65_536 {
        first.add(TaskKey::new(ann(), ids.task_id(world.now())));
    }
    for is_full in [true, false] {
        let key = world.accepted().await.key();
        let mut second = world.engine.listener();
        // Twice is once.
        second.add(key);
        second.add(key);
        let task = second.poll(&key).await.unwrap();
        assert_eq!(task.key(), key);
        world.engine.cancel(&key).await.unwrap();
        assert_eq!(heard(&mut second).is_empty(), is_full);
        first = world.engine.listener();
    }
    drop(first);
}
