//! Secrets: all instances get the same one.

use harness::emulator;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::Clients;
use longhaul_testkit::{SeededIds, at_once, block_on};

#[test]
fn instances_that_start_at_the_same_time_get_the_same_secret() {
    block_on(async {
        let clients = Clients::new(&emulator::config());
        let table = emulator::table(&clients).await;
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
    });
}
