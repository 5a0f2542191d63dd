//! The publisher function: records of the stream in, events and webhook deliveries out, and the records that come
//! again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use longhaul_aws::clients::{SdkConfig, function_config};
use longhaul_aws::{EventBus, StreamEvent};
use longhaul_core::{Clock, Timestamp, WEBHOOK_DELIVERY_TOOL};
use longhaul_lambda::Publisher;
use longhaul_push::{Endpoints, Reach, read_without_secrets};
use longhaul_testkit::given::owner;
use serde_json::{Value, json};

use crate::world::World;

const TASK: &str = "0199aaaa-0000-7000-8000-00000000002a";

/// An event bus, as far as the publisher uses one. It takes what `takes` says, and keeps all that it was asked to take.
struct Bus {
    port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Bus {
    fn new(takes: impl Fn(usize, &Value) -> bool + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (call, stream) in listener.incoming().flatten().enumerate() {
                let entries = entries_of(&stream);
                let answers: Vec<Value> = entries.iter().map(|entry| answer(takes(call, entry))).collect();
                kept.lock().unwrap().push(Value::Array(entries));
                respond(stream, &json!({"FailedEntryCount": 0, "Entries": answers}).to_string());
            }
        });
        Self { port, asked }
    }

    fn config(&self) -> SdkConfig {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let config = function_config(move |name| match name {
            "AWS_REGION" => Some("eu-west-1".to_owned()),
            "AWS_ENDPOINT_URL_EVENTBRIDGE" => Some(endpoint.clone()),
            _ => None,
        });
        let credentials = Credentials::new("test", "test", None, None, "tests");
        config.into_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
    }

    /// The ids of the notifications in each call.
    fn asked(&self) -> Vec<Vec<String>> {
        let ids = |call: &Value| {
            call.as_array().unwrap().iter().map(|entry| detail(entry)["id"].as_str().unwrap().to_owned()).collect()
        };
        self.asked.lock().unwrap().iter().map(ids).collect()
    }
}

fn answer(taken: bool) -> Value {
    if taken {
        json!({"EventId": "1"})
    } else {
        json!({"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"})
    }
}

fn entries_of(stream: &TcpStream) -> Vec<Value> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut is_put) = (String::new(), 0, false);
    while reader.read_line(&mut line).unwrap() > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        is_put |= lower.trim_end() == "x-amz-target: awsevents.putevents";
        line.clear();
    }
    assert!(is_put);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice::<Value>(&body).unwrap()["Entries"].as_array().unwrap().clone()
}

fn respond(mut stream: TcpStream, body: &str) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).unwrap();
}

fn detail(entry: &Value) -> Value {
    serde_json::from_str(entry["Detail"].as_str().unwrap()).unwrap()
}

/// The item of a task, as the stream has it.
fn image(id: &str, tool: &str, state: &str) -> Value {
    let number = |value: u64| json!({"N": value.to_string()});
    let now = 1_763_750_000_123;
    let mut image = json!({
        "pk": {"S": format!("o#{}#0", owner("alice"))}, "sk": {"S": id}, "tool": {"S": tool}, "state": {"S": state},
        "attempt": number(1), "failures": number(0), "ttl_ms": number(3_600_000), "keep_ms": number(3_600_000),
        "run_ms": number(1_800_000), "consecutive_failures_max": number(3), "created_at": number(now),
        "updated_at": number(now), "sent_at": number(now), "expires_at": number(now + 3_600_000),
        "request": {"S": "{\"arguments\":{\"password\":\"hunter2\"}}"}, "revision": number(2),
    });
    match state {
        "completed" => {
            image["result"] = json!({"S": "{\"content\":[{\"type\":\"text\",\"text\":\"hunter2\"}]}"});
            image["result_kind"] = json!({"S": "success"});
        }
        "running" => {
            image["lease_until"] = number(now);
            image["lease_token"] = json!({"S": "00000000-0000-4000-8000-000000000000"});
        }
        _ => {}
    }
    image
}

fn record(number: usize, before: Value, after: Value) -> Value {
    json!({
        "eventName": "MODIFY",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:111122223333:table/tasks/stream/2026-11-23T00:00:00.000",
        "dynamodb": {"SequenceNumber": number.to_string(), "OldImage": before, "NewImage": after},
    })
}

/// The end of the task with this number.
fn end(number: usize, state: &str) -> Value {
    let id = format!("0199aaaa-0000-7000-8000-{number:012x}");
    record(number, image(&id, "report", "running"), image(&id, "report", state))
}

fn event(records: &[Value]) -> StreamEvent {
    serde_json::from_value(json!({"Records": records})).unwrap()
}

fn endpoints() -> Endpoints {
    let endpoint =
        |name: &str| json!({"name": name, "url": format!("https://{name}.example.com/"), "secrets": ["ssm:a"]});
    let config = json!({"endpoints": [endpoint("a"), endpoint("b")]}).to_string();
    read_without_secrets(&config, Reach::Public).unwrap().0
}

/// What the function answers.
async fn published(world: &World, bus: &Bus, endpoints: Endpoints, event: &StreamEvent) -> Value {
    let bus = EventBus::new(&bus.config(), "tasks", Arc::new(Pausing));
    let publisher = Publisher::new(world.engine.clone(), bus, endpoints);
    serde_json::to_value(publisher.publish(event).await).unwrap()
}

/// A clock that stands still, and pauses as long as it is asked to.
struct Pausing;

#[async_trait]
impl Clock for Pausing {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(1_763_750_000_123)
    }

    #[expect(clippy::disallowed_methods, reason = "a request over the network takes real time")]
    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
    }
}

fn failed(numbers: &[usize]) -> Value {
    let failures = numbers.iter().map(|number| json!({"itemIdentifier": number.to_string()}));
    json!({"batchItemFailures": failures.collect::<Vec<_>>()})
}

#[tokio::test]
async fn an_end_becomes_a_thin_event() {
    let (world, bus) = (World::new(), Bus::new(|_, _| true));
    let ends = event(&[record(1, image(TASK, "report", "running"), image(TASK, "report", "completed"))]);
    assert_eq!(published(&world, &bus, Endpoints::default(), &ends).await, failed(&[]));
    let entry = bus.asked.lock().unwrap()[0][0].clone();
    assert_eq!(entry["Source"], "dev.longhaul");
    assert_eq!(entry["DetailType"], "Longhaul Task Completed");
    assert_eq!(entry["EventBusName"], "tasks");
    assert_eq!(entry["Resources"], json!(["arn:aws:dynamodb:eu-west-1:111122223333:table/tasks"]));
    assert_eq!(
        detail(&entry),
        json!({"id": format!("evt_{TASK}_completed"), "taskId": TASK, "tool": "report", "status": "completed",
               "timestamp": "2025-11-21T18:33:20.123Z"})
    );
    assert!(!entry.to_string().contains("hunter2"), "neither arguments nor results: {entry}");
}

#[tokio::test]
async fn what_the_filter_would_not_let_through_is_done_with() {
    let (world, bus) = (World::new(), Bus::new(|_, _| true));
    let nothing = event(&[
        record(1, image(TASK, "report", "queued"), image(TASK, "report", "running")),
        record(2, image(TASK, "report", "completed"), image(TASK, "report", "completed")),
        record(3, image(TASK, WEBHOOK_DELIVERY_TOOL, "running"), image(TASK, WEBHOOK_DELIVERY_TOOL, "completed")),
        record(4, json!({}), json!({"pk": {"S": "q#1"}, "sk": {"S": "-"}})),
    ]);
    assert_eq!(published(&world, &bus, endpoints(), &nothing).await, failed(&[]));
    assert!(bus.asked().is_empty() && world.queue.asked().is_empty());
}

#[tokio::test]
async fn events_are_put_ten_at_a_time_and_those_that_were_not_taken_again() {
    let (world, bus) = (World::new(), Bus::new(|call, entry| call > 0 || !entry.to_string().contains("00000000000b_")));
    let ends: Vec<Value> = (1..=23).map(|number| end(number, "cancelled")).collect();
    let bus_takes_late = published(&world, &bus, Endpoints::default(), &event(&ends)).await;
    assert_eq!(bus_takes_late, failed(&[]));
    assert_eq!(bus.asked().iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 3]);

    let bus = Bus::new(|call, entry| call > 0 || !detail(entry)["taskId"].as_str().unwrap().ends_with("02"));
    assert_eq!(published(&world, &bus, Endpoints::default(), &event(&ends[..3])).await, failed(&[]));
    let asked = bus.asked();
    assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
    assert!(asked[1][0].contains("000000000002"), "{asked:?}");
}

#[tokio::test]
async fn a_record_that_was_not_published_comes_again_and_one_that_cannot_be_read_does_not() {
    let (world, bus) = (World::new(), Bus::new(|_, entry| !detail(entry)["taskId"].as_str().unwrap().ends_with("02")));
    let mut unreadable = end(4, "cancelled");
    unreadable["dynamodb"]["NewImage"]["attempt"] = json!({"N": "many"});
    let ends = event(&[unreadable, end(1, "cancelled"), end(2, "cancelled"), end(3, "cancelled")]);
    assert_eq!(published(&world, &bus, Endpoints::default(), &ends).await, failed(&[2]));
    assert_eq!(bus.asked().iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 1]);
}
