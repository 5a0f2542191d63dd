//! The capacity units of the simulation's model, beside those of the real adapter: the same calls, and units as the
//! items in the table have them. `docs/scale.md` says what follows from the model.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::{NewTask, TaskStore};
use longhaul_core::{Entry, EntryKind, Payload, Suspension, Task, TaskEvent, TaskKey};
use longhaul_sim::MeteredStore;
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{FakeStore, Layered, ManualClock, SeededIds};
use serde_json::Value;

use crate::counts::item_size;
use crate::fresh;
use crate::meter::{Call, Meter};

/// By how many bytes an item may be larger than the model says: by what the adapter notes for itself, which is as how
/// many the task was counted, when the latest heartbeat was sent, and the hash of the idempotency key.
const OWN_BYTES_MAX: usize = 64;

/// Both stores, and the items of the real one.
struct Beside {
    real: DynamoStore,
    model: Layered<MeteredStore>,
    meter: Meter,
    client: Client,
    table: String,
    sizes: HashMap<(String, String), usize>,
    model_used: (u64, u64),
}

/// What one operation does to a store.
enum Act {
    Create(Box<NewTask>),
    Get,
    Apply(TaskEvent),
    Record(Entry),
    Journal,
}

impl Beside {
    async fn new() -> Self {
        let (clients, table) = fresh().await;
        let meter = Meter::default();
        let real = DynamoStore::new(meter.on(&clients.dynamo), &table).with_quota(QuotaMode::Counted);
        let (fake, clock, ids) =
            (Arc::new(FakeStore::default()), Arc::new(ManualClock::at(NOW)), Arc::new(SeededIds::new(7)));
        let model = MeteredStore::new(fake, None, clock, ids);
        Self { real, model, meter, client: clients.dynamo, table, sizes: HashMap::new(), model_used: (0, 0) }
    }

    /// Does the same to both, and compares what it costs.
    async fn compare(&mut self, what: &str, key: &TaskKey, act: &Act) {
        let real = done(&self.real, key, act).await;
        let calls = self.meter.calls();
        let model = done(&self.model, key, act).await;
        assert_eq!(real, model, "{what}");
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(self.model.take_names(), names, "{what}");
        let (mut write, mut read) = (0, 0);
        for call in &calls {
            let (more_written, more_read) = self.units(call).await;
            (write, read) = (write + more_written, read + more_read);
        }
        let usage = self.model.usage();
        let used = (usage.write - self.model_used.0, usage.read - self.model_used.1);
        self.model_used = (usage.write, usage.read);
        println!("{what}: {names:?}, {write} write units, {read} read units");
        assert_eq!(used, (write, read), "{what}: write and read units of the model, and of the items");
    }

    /// The units of a call, by the items that it is about.
    async fn units(&mut self, call: &Call) -> (u64, u64) {
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let unit = |bytes: usize, of: usize| bytes.div_ceil(of).max(1) as u64;
        match call.name.as_str() {
            "GetItem" => (0, unit(self.size(&body["Key"]).await, 4_096)),
            "PutItem" => (unit(self.larger(&body["Item"]).await, 1_024), 0),
            "UpdateItem" => (unit(self.larger(&body["Key"]).await, 1_024), 0),
            "TransactWriteItems" => {
                let mut write = 0;
                for member in body["TransactItems"].as_array().unwrap() {
                    write += 2 * unit(self.larger(&member["Put"]["Item"]).await, 1_024);
                }
                (write, 0)
            }
            "Query" => {
                let partition = body["ExpressionAttributeValues"].as_object().unwrap().values();
                let pk = partition.filter_map(|value| value["S"].as_str()).find(|text| text.starts_with("t#")).unwrap();
                let sizes = self.sizes.iter().filter(|((held, _), _)| held == pk).map(|(_, size)| size);
                (0, unit(sizes.sum(), 4_096))
            }
            other => panic!("no units are known for {other}"),
        }
    }

    /// The size of an item now, and of what it was before, whatever is larger: that is what a write costs.
    async fn larger(&mut self, key: &Value) -> usize {
        let names = ["pk", "sk"].map(|name| key[name]["S"].as_str().unwrap().to_owned());
        let before = self.sizes.get(&names.clone().into()).copied().unwrap_or(0);
        before.max(self.size(key).await)
    }

    async fn size(&mut self, key: &Value) -> usize {
        let [pk, sk] = ["pk", "sk"].map(|name| key[name]["S"].as_str().unwrap().to_owned());
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let get = get.key("pk", AttributeValue::S(pk.clone())).key("sk", AttributeValue::S(sk.clone()));
        let size = get.send().await.unwrap().item.map_or(0, |item| item_size(&item));
        self.sizes.insert((pk, sk), size);
        size
    }

    /// Compares the size of the task's item with that of the model.
    async fn compare_size(&mut self, task: &Task) {
        let key = task.key();
        let pk = format!("o#{}#{:x}", key.owner, key.id.shard(16));
        let size = self.sizes[&(pk, key.id.to_string())];
        let model = usize::try_from(MeteredStore::item_bytes(task)).unwrap();
        println!("{size} bytes, {model} in the model");
        assert!((model..=model + OWN_BYTES_MAX).contains(&size), "{size} bytes, {model} in the model: {task:?}");
    }
}

/// Does something to a store; the record or the journal afterwards, or that it was refused.
async fn done(store: &dyn TaskStore, key: &TaskKey, act: &Act) -> String {
    match act {
        Act::Create(new) => {
            format!("{:?}", store.create(NewTask::clone(new), NOW).await.map_err(|error| error.to_string()))
        }
        Act::Get => format!("{:?}", store.get(key, NOW).await.map_err(|error| error.to_string())),
        Act::Apply(event) => {
            format!("{:?}", store.apply(key, event, NOW).await.map_err(|error| error.to_string()))
        }
        Act::Record(entry) => format!("{:?}", store.record(key, entry).await.map_err(|error| error.to_string())),
        Act::Journal => {
            format!("{:?}", store.journal(key).await.map(|entries| entries.len()).map_err(|error| error.to_string()))
        }
    }
}

/// A task of this many bytes of arguments, and as many of its result, from its creation to its end.
async fn compare_life(beside: &mut Beside, ids: &SeededIds, bytes: usize, adjust: impl FnOnce(NewTask) -> NewTask) {
    let task = given::task_with(ids, owner("alice"), NOW, |record| record.request = Payload::Inline("x".repeat(bytes)));
    let key = task.key();
    let entry = |name: &str| Entry {
        kind: EntryKind::Step,
        name: name.to_owned(),
        value: Payload::Inline("y".repeat(bytes)),
        recording: None,
    };
    let acts = [
        ("create", Act::Create(Box::new(adjust(given::new(task))))),
        ("poll", Act::Get),
        ("claim", Act::Apply(given::claim(1, NOW))),
        ("a second claim, refused", Act::Apply(given::claim(2, NOW))),
        ("heartbeat", Act::Apply(given::heartbeat(1, NOW))),
        ("progress", Act::Apply(given::progress(1, NOW, 0.5))),
        ("a step", Act::Record(entry("a"))),
        ("another step", Act::Record(entry("b"))),
        ("suspend", Act::Apply(given::suspend(1, Suspension::Timer(NOW)))),
        ("the next claim", Act::Apply(given::claim(3, NOW))),
        ("journal", Act::Journal),
        ("finish", Act::Apply(given::finish(2, &"z".repeat(bytes)))),
        ("a poll of the end", Act::Get),
        ("a cancel that comes too late", Act::Apply(TaskEvent::Cancel)),
    ];
    for (what, act) in acts {
        beside.compare(&format!("{what}, {bytes} bytes"), &key, &act).await;
        if let Some(task) = beside.real.get(&key, NOW).await.unwrap() {
            beside.compare_size(&task).await;
        }
        beside.meter.calls();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_makes_the_calls_of_the_adapter_and_uses_the_units_of_its_items() {
    let (mut beside, ids) = (Beside::new().await, SeededIds::new(1));
    for bytes in [10, 200, 1_000, 2_100] {
        compare_life(&mut beside, &ids, bytes, |new| new).await;
    }
    let mut sampled = Vec::new();
    for _ in 0..8 {
        compare_life(&mut beside, &ids, 200, |new| {
            sampled.push(new.task.id.as_bytes()[14] % 4 == 0);
            NewTask { open_max: 10_000, ..new }
        })
        .await;
    }
    assert!(sampled.contains(&true) && sampled.contains(&false), "some are counted, and some are not: {sampled:?}");
    compare_life(&mut beside, &ids, 200, |new| NewTask { idempotency: given::key(1, 1), ..new }).await;
}
