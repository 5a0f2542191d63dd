//! What operations cost on a table with many tasks of the same owner: what they cost on one with few.

use futures::StreamExt;
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::{NewTask, TaskStore};
use longhaul_core::{Status, TaskFilter};
use longhaul_testkit::SeededIds;
use longhaul_testkit::given::{self, NOW, owner};
use serde_json::Value;

use crate::fresh;
use crate::meter::{Call, Meter};

/// Tasks in the table with few of them: more than several pages have.
const FEW: u64 = 300;

/// Tasks in the other one.
const MANY: u64 = 2_000;

/// What one operation cost: the calls, and how many items its queries may read.
#[derive(Debug, PartialEq)]
struct Cost {
    what: &'static str,
    names: Vec<String>,
    items: u64,
}

fn cost(what: &'static str, calls: &[Call]) -> Cost {
    let limit = |call: &Call| serde_json::from_str::<Value>(&call.body).unwrap()["Limit"].as_u64().unwrap_or(0);
    Cost { what, names: calls.iter().map(|call| call.name.clone()).collect(), items: calls.iter().map(limit).sum() }
}

/// The costs of a poll, of lists and of a life, with so many finished tasks of the same owner beside.
async fn costs_beside(count: u64) -> Vec<Cost> {
    let (clients, table) = fresh().await;
    let (meter, ids, alice) = (Meter::default(), SeededIds::new(1), owner("alice"));
    let store = DynamoStore::new(meter.on(&clients.dynamo), &table).with_quota(QuotaMode::Counted);
    let new = |at| NewTask { open_max: 1_000_000, ..given::new(given::task(&ids, alice, NOW.plus_ms(at))) };
    let old: Vec<NewTask> = (0..count).map(new).collect();
    let key = old[0].task.key();
    let finished = |new: NewTask| async {
        let key = new.task.key();
        store.create(new, NOW).await.unwrap();
        store.apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
        store.apply(&key, &given::finish(1, "{}"), NOW).await.unwrap();
    };
    futures::stream::iter(old.into_iter().map(finished)).buffer_unordered(32).collect::<Vec<()>>().await;
    meter.calls();
    let mut costs = Vec::new();
    let mut note = |what| costs.push(cost(what, &meter.calls()));
    store.get(&key, NOW).await.unwrap().unwrap();
    note("poll");
    let page = store.list(&alice, None, 20, NOW).await.unwrap();
    note("list");
    store.list(&alice, page.next, 20, NOW).await.unwrap();
    note("next page");
    let completed = TaskFilter { statuses: [Status::Completed].into(), ..TaskFilter::default() };
    store.list_filtered(&alice, &completed, None, 20, NOW).await.unwrap();
    note("filtered list");
    // One that is counted, and one that is not.
    for (what, counted) in [("life of a counted task", true), ("life", false)] {
        let new = (0..).map(|more| new(count + more)).find(|new| (new.task.id.as_bytes()[14] % 4 == 0) == counted);
        finished(new.unwrap()).await;
        note(what);
    }
    costs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_a_list_and_a_life_cost_the_same_beside_many_finished_tasks_as_beside_few() {
    let (few, many) = (costs_beside(FEW).await, costs_beside(MANY).await);
    many.iter().for_each(|cost| println!("{}: {:?}, {} items", cost.what, cost.names, cost.items));
    assert_eq!(many, few);
}
