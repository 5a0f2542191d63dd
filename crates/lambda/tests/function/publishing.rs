//! The publisher function: records of the stream in, events and webhook deliveries out, and the records that come
//! again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use longhaul_aws::clients::{Clients, SdkConfig, function_config};
use longhaul_aws::{EventBus, NotPublishedQueue, StreamEvent};
use longhaul_core::{Clock, Timestamp, WEBHOOK_DELIVERY_TOOL};
use longhaul_http::webhooks::{Endpoints, Reach, read_without_secrets};
use longhaul_lambda::Publisher;
use longhaul_testkit::given::owner;
use serde_json::{Value, json};

use crate::world::World;

const TASK: &str = "0199aaaa-0000-7000-8000-00000000002a";

/// An event bus with the parts that the publisher uses. It takes the events that `takes` names, and keeps all that it
/// got.
struct Bus {
    port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
}

/// The queue of changes that could not be published, with the parts that the publisher uses. It is made at
/// [`SWITCHED_ON_S`], and keeps the bodies of messages, unless it does not answer.
struct Aside {
    port: u16,
    bodies: Arc<Mutex<Vec<Value>>>,
}

const SWITCHED_ON_S: u64 = 1_763_750_000;

impl Aside {
    fn new(answers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&bodies);
        let answer = move |stream: TcpStream| {
            let (target, body) = request_of(&stream);
            if answers {
                respond(stream, &Self::answer(&kept, &target, &body).to_string());
            }
        };
        std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
        Self { port, bodies }
    }

    fn answer(bodies: &Mutex<Vec<Value>>, target: &str, body: &Value) -> Value {
        if target != "amazonsqs.sendmessage" {
            return json!({"Attributes": {"CreatedTimestamp": SWITCHED_ON_S.to_string()}});
        }
        bodies.lock().unwrap().push(serde_json::from_str(body["MessageBody"].as_str().unwrap()).unwrap());
        json!({"MessageId": "1", "MD5OfMessageBody": ""})
    }

    fn queue(&self) -> NotPublishedQueue {
        let clients = Clients::new(&config("AWS_ENDPOINT_URL_SQS", self.port));
        NotPublishedQueue::new(clients.sqs, format!("http://127.0.0.1:{}/1/not-published", self.port))
    }
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

    /// The ids of the notifications in each call.
    fn asked(&self) -> Vec<Vec<String>> {
        let ids = |call: &Value| {
            call.as_array().unwrap().iter().map(|entry| detail(entry)["id"].as_str().unwrap().to_owned()).collect()
        };
        self.asked.lock().unwrap().iter().map(ids).collect()
    }
}

/// Where an AWS service is, for a function.
fn config(service: &'static str, port: u16) -> SdkConfig {
    let config = function_config(move |name| match name {
        "AWS_REGION" => Some("eu-west-1".to_owned()),
        _ if name == service => Some(format!("http://127.0.0.1:{port}")),
        _ => None,
    });
    let credentials = Credentials::new("test", "test", None, None, "tests");
    config.into_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
}

fn answer(taken: bool) -> Value {
    if taken {
        json!({"EventId": "1"})
    } else {
        json!({"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"})
    }
}

fn entries_of(stream: &TcpStream) -> Vec<Value> {
    let (target, body) = request_of(stream);
    assert_eq!(target, "awsevents.putevents");
    body["Entries"].as_array().unwrap().clone()
}

/// The operation of a request, and its body.
fn request_of(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut target) = (String::new(), 0, String::new());
    while reader.read_line(&mut line).unwrap() > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if let Some(value) = lower.strip_prefix("x-amz-target: ") {
            target = value.trim().to_owned();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (target, serde_json::from_slice(&body).unwrap())
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

fn publisher(world: &World, bus: &Bus, endpoints: Endpoints) -> Publisher {
    let bus = EventBus::new(&config("AWS_ENDPOINT_URL_EVENTBRIDGE", bus.port), "tasks", Arc::new(Pausing));
    Publisher::new(world.engine.clone(), bus, endpoints)
}

/// The function's answer.
async fn published(world: &World, bus: &Bus, endpoints: Endpoints, event: &StreamEvent) -> Value {
    serde_json::to_value(publisher(world, bus, endpoints).publish(event).await).unwrap()
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

#[tokio::test]
async fn what_ended_before_publishing_was_switched_on_is_not_published() {
    let (world, bus, aside) = (World::new(), Bus::new(|_, _| true), Aside::new(true));
    let since = aside.queue().created_at().await.unwrap();
    assert_eq!(since, Timestamp::from_ms(SWITCHED_ON_S * 1_000));
    let ended_at = |number: usize, at: u64| {
        let mut record = end(number, "cancelled");
        record["dynamodb"]["NewImage"]["updated_at"] = json!({"N": at.to_string()});
        record
    };
    let since_ms = SWITCHED_ON_S * 1_000;
    let day_ms = 86_400_000;
    let ends =
        [ended_at(1, since_ms - day_ms), ended_at(2, since_ms - 1), ended_at(3, since_ms), ended_at(4, since_ms + 1)];
    let publisher = publisher(&world, &bus, endpoints()).publishes_since(since);
    let answered = publisher.publish(&event(&ends)).await;
    assert_eq!(serde_json::to_value(answered).unwrap(), failed(&[]));
    let ids: Vec<String> = bus.asked().concat();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(ids[0].contains("000000000003_") && ids[1].contains("000000000004_"), "{ids:?}");
    let told = world.queue.asked().len();
    assert_eq!(told, 4, "two endpoints are told of each of the two");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_put_aside_by_its_position() {
    let mut damaged = end(4, "cancelled");
    damaged["dynamodb"]["NewImage"]["attempt"] = json!({"N": "many"});
    let mut newer = end(5, "cancelled");
    newer["dynamodb"]["NewImage"]["format"] = json!({"N": "999"});
    let ends = event(&[damaged, newer, end(1, "cancelled")]);
    let (world, bus, aside) = (World::new(), Bus::new(|_, _| true), Aside::new(true));
    let answered = publisher(&world, &bus, Endpoints::default()).puts_aside_in(aside.queue()).publish(&ends).await;
    assert_eq!(serde_json::to_value(answered).unwrap(), failed(&[]), "none holds up its shard");
    assert_eq!(bus.asked().iter().map(Vec::len).collect::<Vec<_>>(), [1]);
    let position = |number: &str| {
        let stream = "arn:aws:dynamodb:eu-west-1:111122223333:table/tasks/stream/2026-11-23T00:00:00.000";
        json!({"DDBStreamBatchInfo": {
            "streamArn": stream, "startSequenceNumber": number, "endSequenceNumber": number, "batchSize": 1,
        }})
    };
    assert_eq!(*aside.bodies.lock().unwrap(), [position("4"), position("5")]);
}

#[tokio::test]
async fn a_record_that_could_not_be_put_aside_comes_again() {
    let mut damaged = end(4, "cancelled");
    damaged["dynamodb"]["NewImage"]["attempt"] = json!({"N": "many"});
    let (world, bus, aside) = (World::new(), Bus::new(|_, _| true), Aside::new(false));
    let publisher = publisher(&world, &bus, Endpoints::default()).puts_aside_in(aside.queue());
    let answered = publisher.publish(&event(&[damaged])).await;
    assert_eq!(serde_json::to_value(answered).unwrap(), failed(&[4]));
}
