//! Promises about mailboxes.

use longhaul_core::ports::{Left, TaskStore};
use longhaul_core::{MailboxId, Timestamp, limits};

use crate::at_once;
use crate::given::{NOW, owner};

/// How many callers leave a text at the same time.
const CALLERS: usize = 16;

/// How often that is tried: a race that is lost now and then should be found by one run.
const ROUNDS: usize = 8;

/// When a text expires here, unless a test says otherwise.
const LIFE_MS: u64 = 60_000;

fn expiry() -> Timestamp {
    NOW.plus_ms(LIFE_MS)
}

fn mailbox(name: &str) -> MailboxId {
    MailboxId::of(&[name.as_bytes()])
}

fn earlier(text: &str) -> Left {
    Left::Earlier(text.to_owned())
}

/// Promise: a text can be read as soon as it was left, and collecting does not remove it.
pub async fn a_text_that_was_left_is_collected_as_often_as_wanted(store: &dyn TaskStore) {
    let (alice, mailbox) = (owner("alice"), mailbox("a"));
    assert_eq!(store.collect(&alice, &mailbox, NOW).await.unwrap(), None);
    assert_eq!(store.leave(&alice, &mailbox, "text", expiry(), NOW).await.unwrap(), Left::First);
    for _ in 0..3 {
        assert_eq!(store.collect(&alice, &mailbox, NOW).await.unwrap().as_deref(), Some("text"));
    }
}

/// Promise: the first text stays, and later callers get it.
pub async fn the_first_text_in_a_mailbox_stays(store: &dyn TaskStore) {
    let (alice, mailbox) = (owner("alice"), mailbox("a"));
    assert_eq!(store.leave(&alice, &mailbox, "first", expiry(), NOW).await.unwrap(), Left::First);
    for text in ["second", "", "first"] {
        let left = store.leave(&alice, &mailbox, text, expiry(), NOW.plus_ms(1)).await.unwrap();
        assert_eq!(left, earlier("first"));
    }
    assert_eq!(store.collect(&alice, &mailbox, NOW).await.unwrap().as_deref(), Some("first"));
}

/// Promise: an empty text is a text.
pub async fn an_empty_text_fills_a_mailbox_too(store: &dyn TaskStore) {
    let (alice, mailbox) = (owner("alice"), mailbox("a"));
    assert_eq!(store.leave(&alice, &mailbox, "", expiry(), NOW).await.unwrap(), Left::First);
    assert_eq!(store.leave(&alice, &mailbox, "second", expiry(), NOW).await.unwrap(), earlier(""));
    assert_eq!(store.collect(&alice, &mailbox, NOW).await.unwrap().as_deref(), Some(""));
}

/// Promise: two owners who use the same name have two mailboxes.
pub async fn a_mailbox_is_found_by_its_owner_only(store: &dyn TaskStore) {
    let mailbox = mailbox("a");
    assert_eq!(store.leave(&owner("alice"), &mailbox, "alice's", expiry(), NOW).await.unwrap(), Left::First);
    assert_eq!(store.collect(&owner("bob"), &mailbox, NOW).await.unwrap(), None);
    assert_eq!(store.leave(&owner("bob"), &mailbox, "bob's", expiry(), NOW).await.unwrap(), Left::First);
    for (name, text) in [("alice", "alice's"), ("bob", "bob's")] {
        assert_eq!(store.collect(&owner(name), &mailbox, NOW).await.unwrap().as_deref(), Some(text));
    }
}

/// Promise: the mailboxes of an owner are independent of each other.
pub async fn mailboxes_of_other_names_are_separate(store: &dyn TaskStore) {
    let alice = owner("alice");
    let names = ["", "a", "b", "A", "ab"];
    for name in names {
        assert_eq!(store.collect(&alice, &mailbox(name), NOW).await.unwrap(), None);
        let left = store.leave(&alice, &mailbox(name), &format!("in {name}"), expiry(), NOW).await.unwrap();
        assert_eq!(left, Left::First);
    }
    for name in names {
        let text = store.collect(&alice, &mailbox(name), NOW).await.unwrap();
        assert_eq!(text, Some(format!("in {name}")));
    }
}

/// Promise: a text is found until the millisecond before its expiry, and not from then on, whether or not it was
/// deleted.
pub async fn an_expired_text_is_not_found(store: &dyn TaskStore) {
    let (alice, mailbox, expires_at) = (owner("alice"), mailbox("a"), NOW.plus_ms(1_500));
    store.leave(&alice, &mailbox, "text", expires_at, NOW).await.unwrap();
    let last = expires_at.minus_ms(1);
    assert_eq!(store.collect(&alice, &mailbox, last).await.unwrap().as_deref(), Some("text"));
    assert_eq!(store.leave(&alice, &mailbox, "late", expiry(), last).await.unwrap(), earlier("text"));
    for now in [expires_at, expires_at.plus_ms(1), expires_at.plus_ms(1_000_000)] {
        assert_eq!(store.collect(&alice, &mailbox, now).await.unwrap(), None);
    }
}

/// Promise: an expired text does not block another one, which then has its own expiry.
pub async fn an_expired_text_can_be_replaced(store: &dyn TaskStore) {
    let (alice, mailbox, expires_at) = (owner("alice"), mailbox("a"), NOW.plus_ms(1_500));
    store.leave(&alice, &mailbox, "first", expires_at, NOW).await.unwrap();
    let second = store.leave(&alice, &mailbox, "second", expiry(), expires_at).await.unwrap();
    assert_eq!(second, Left::First);
    assert_eq!(store.leave(&alice, &mailbox, "third", expiry(), expires_at).await.unwrap(), earlier("second"));
    let last = expiry().minus_ms(1);
    assert_eq!(store.collect(&alice, &mailbox, last).await.unwrap().as_deref(), Some("second"));
    assert_eq!(store.collect(&alice, &mailbox, expiry()).await.unwrap(), None);
}

/// Promise: a later text of any size changes neither the first text nor its expiry.
pub async fn a_later_text_does_not_move_the_expiry_of_the_first(store: &dyn TaskStore) {
    let (alice, large) = (owner("alice"), "x".repeat(2 * limits::PART_BYTES));
    for (name, text) in [("small", "text"), ("large", large.as_str())] {
        let mailbox = mailbox(name);
        store.leave(&alice, &mailbox, text, expiry(), NOW).await.unwrap();
        for other in [expiry().minus_ms(30_000), expiry().plus_ms(30_000)] {
            let left = store.leave(&alice, &mailbox, text, other, NOW).await.unwrap();
            assert!(left == earlier(text), "the first text was not returned");
        }
        let last = expiry().minus_ms(1);
        assert!(store.collect(&alice, &mailbox, last).await.unwrap().as_deref() == Some(text), "expired too early");
        assert_eq!(store.collect(&alice, &mailbox, expiry()).await.unwrap(), None);
    }
}

/// Promise: a text of any script comes back whole, up to the size of the largest answer, to later callers too.
pub async fn texts_of_any_size_and_script_come_back_whole(store: &dyn TaskStore) {
    let alice = owner("alice");
    let sizes = [1, 1_024, limits::PART_BYTES, limits::PART_BYTES + 1, limits::ENTRY_BYTES_MAX];
    for (script, unit) in [("ascii", "x"), ("mixed", "é🚀\0\"\\")] {
        for size in sizes {
            let text = unit.repeat((size / unit.len()).max(1));
            let mailbox = mailbox(&format!("{script} {size}"));
            assert_eq!(store.leave(&alice, &mailbox, &text, expiry(), NOW).await.unwrap(), Left::First);
            let collected = store.collect(&alice, &mailbox, NOW).await.unwrap();
            assert!(collected.as_deref() == Some(&text), "{script} of {size} bytes differs");
            let left = store.leave(&alice, &mailbox, "late", expiry(), NOW).await.unwrap();
            assert!(left == Left::Earlier(text), "{script} of {size} bytes differs for a later caller");
        }
    }
}

/// Promise: if callers leave a text at the same time, one text stays, and all other callers get it.
pub async fn of_many_texts_left_at_once_one_stays(store: &dyn TaskStore) {
    let alice = owner("alice");
    for round in 0..ROUNDS {
        let mailbox = mailbox(&format!("round {round}"));
        let left = at_once(CALLERS, |caller| async move {
            store.leave(&alice, &mailbox, &caller.to_string(), expiry(), NOW).await.unwrap()
        });
        let first: Vec<usize> = (0..CALLERS).filter(|caller| left[*caller] == Left::First).collect();
        assert_eq!(first.len(), 1, "{} of them were first", first.len());
        let text = first[0].to_string();
        assert!((0..CALLERS).all(|caller| caller == first[0] || left[caller] == earlier(&text)), "{left:?}");
        assert_eq!(store.collect(&alice, &mailbox, NOW).await.unwrap(), Some(text));
    }
}
