//! Secrets: all instances get the same one.

use longhaul_aws::DynamoStore;
use longhaul_testkit::{SeededIds, at_once};

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
