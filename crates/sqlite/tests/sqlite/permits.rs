//! The permits of attempts in a file.

use std::sync::Arc;

use longhaul_core::ports::{AttemptPermit, AttemptPermits, Taken};
use longhaul_core::{Clock, LeaseToken, PermitGroup, TaskKey};
use longhaul_sqlite::{Database, Settings};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{ManualClock, SeededIds, permits_answer_as_the_model};

use crate::new_file;

#[test]
fn any_order_of_calls_is_answered_as_the_model_answers() {
    permits_answer_as_the_model(24, async || {
        Database::in_memory(Arc::new(ManualClock::default()), Settings::default()).unwrap().store()
    });
}

/// The process that opens a file knows that no attempt runs. What has begun within a time has begun nevertheless.
#[tokio::test]
async fn the_permits_of_a_process_that_died_are_free_for_the_next_one_and_its_rates_go_on() {
    let (_folder, path) = new_file();
    let of = |group, number| {
        let task = TaskKey::new(owner("alice"), given::task(&SeededIds::new(number), owner("alice"), NOW).id);
        let lease = LeaseToken::from_random([1; 16]);
        AttemptPermit { group, task, lease, since: NOW, until: NOW.plus_ms(3_600_000), turn: None }
    };
    let (running, begun) = (PermitGroup::Running([1; 32]), PermitGroup::Begun([2; 32]));
    let open = || Database::open(&path, Arc::new(ManualClock::default()) as Arc<dyn Clock>, Settings::default());
    let database = open().unwrap();
    for group in [running, begun] {
        assert_eq!(database.store().take(&of(group, 1), 1, NOW).await.unwrap(), Taken::Permit);
        assert_eq!(database.store().take(&of(group, 2), 1, NOW).await.unwrap(), Taken::Full);
    }
    database.close().await;
    let database = open().unwrap();
    database.take_up(NOW).await.unwrap();
    assert_eq!(database.store().take(&of(running, 2), 1, NOW).await.unwrap(), Taken::Permit);
    assert_eq!(database.store().take(&of(begun, 2), 1, NOW).await.unwrap(), Taken::Full);
}
