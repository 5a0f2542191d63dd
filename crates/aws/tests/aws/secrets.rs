//! Secrets: all instances get the same one.

use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::MailboxId;
use longhaul_core::ports::TaskStore;
use longhaul_testkit::given::{NOW, owner};
use longhaul_testkit::{SeededIds, at_once};

use crate::counts::Counted;
use crate::fresh;

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_start_at_the_same_time_get_the_same_secret() {
    let (clients, table) = fresh().await;
    let store = |seed: usize| {
        let ids = SeededIds::new(u64::try_from(seed).unwrap());
        (DynamoStore::new(clients.dynamo.clone(), &table), ids)
    };
    let secrets = at_once(16, |number| {
        let (store, ids) = store(number);
        async move { store.secret("cursors", &ids).await.unwrap() }
    });
    assert!(secrets.iter().all(|secret| *secret == secrets[0] && *secret != [0; 32]));
    let (late, ids) = store(99);
    assert_eq!(late.secret("cursors", &ids).await.unwrap(), secrets[0]);
    assert_ne!(late.secret("states", &ids).await.unwrap(), secrets[0]);
}

/// A function reads all that it needs before its first request at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_and_texts_are_one_read() {
    let counted = Counted::new(QuotaMode::Off).await;
    let (store, alice) = (&counted.store, owner("alice"));
    let [left, expired, empty] = [b"left" as &[u8], b"expired", b"empty"].map(|word| MailboxId::of(&[word]));
    let mailboxes = [left, expired, empty].map(|mailbox| (alice, mailbox));
    store.leave(&alice, &left, "text", NOW.plus_ms(2), NOW).await.unwrap();
    store.leave(&alice, &expired, "text", NOW.plus_ms(1), NOW).await.unwrap();
    counted.meter.calls();
    let read = async || store.secret_and_texts("states", &counted.ids, &mailboxes, NOW.plus_ms(1)).await.unwrap();
    let (secret, texts) = read().await;
    counted.expect("make the secret", &["BatchGetItem", "PutItem"]);
    assert_eq!(texts, [(left, Some("text".to_owned())), (expired, None), (empty, None)].into());
    assert_eq!(store.secret("states", &counted.ids).await.unwrap(), secret);
    counted.meter.calls();
    assert_eq!(read().await, (secret, texts));
    counted.expect("start", &["BatchGetItem"]);
}
