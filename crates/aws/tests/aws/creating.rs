//! What creations leave in the table.

use futures::future::join_all;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::Clients;
use longhaul_core::PartsName;
use longhaul_core::ports::{Created, NewTask, TaskStore};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{SeededIds, block_on};

use crate::emulator;

/// All of them see that there is no task yet, and write their parts before the first record is there.
#[test]
fn of_large_calls_with_one_key_at_once_only_one_leaves_its_parts() {
    block_on(async {
        let clients = Clients::new(&emulator::config());
        let store = DynamoStore::new(clients.dynamo.clone(), emulator::table(&clients).await);
        let ids = SeededIds::new(1);
        let call = |_| {
            let new = given::new_with_parts(&ids, owner("alice"), &["a", "b"]);
            NewTask { request_parts: new.request_parts, ..given::new_with_key(new.task, 1, 1) }
        };
        let calls: Vec<NewTask> = (0..6).map(call).collect();
        // Each is sent twice, as by a client that did not get its answer in time.
        let created = calls.iter().chain(&calls).map(|new| store.create(new.clone(), NOW));
        let made = join_all(created).await.into_iter().map(|created| match created.unwrap() {
            Created::New(task) | Created::Existing(task) => task.key(),
        });
        let made: Vec<_> = made.collect();
        let one = made[0];
        assert!(made.iter().all(|key| *key == one), "{made:?}");
        for new in &calls {
            let key = new.task.key();
            let parts = store.parts(&key, &PartsName::Request, 2).await.unwrap();
            assert_eq!(parts.as_deref(), (key == one).then_some("ab"));
        }
    });
}
