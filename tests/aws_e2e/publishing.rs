//! With `Push=on`, the ends of tasks reach the event bus and webhooks, even if functions die. Nothing else invokes the
//! publisher.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use harness::emulator::fresh_name;
use harness::receiver::{Hook, Receiver, verified};
use harness::{output_of, root};
use serde_json::{Value, json};

use super::inside::messages_in;
use super::process::Setup;
use super::tools::{logs_and_configurations, on_sdk, with_sdk};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// An event bus, and a queue that a rule of it sends our events to.
struct Bus {
    name: String,
    queue_url: String,
}

impl Bus {
    /// The rule that docs/push.md shows.
    fn new() -> Self {
        let name = fresh_name();
        let program = "name = sys.argv[1]\n\
            events, sqs = boto3.client('events'), boto3.client('sqs')\n\
            url = sqs.create_queue(QueueName=name)['QueueUrl']\n\
            arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=['QueueArn'])['Attributes']['QueueArn']\n\
            events.create_event_bus(Name=name)\n\
            pattern = json.dumps({'source': ['dev.longhaul']})\n\
            events.put_rule(Name=name, EventBusName=name, EventPattern=pattern)\n\
            events.put_targets(Rule=name, EventBusName=name, Targets=[{'Id': 'queue', 'Arn': arn}])\n\
            print(json.dumps(url))";
        let queue_url = with_sdk(program, &[&name]).as_str().unwrap().to_owned();
        Self { name, queue_url }
    }

    fn parameter(&self) -> String {
        format!("Push={}", self.name)
    }

    /// Takes the notifications in the queue, by their ids.
    async fn taken(&self) -> Vec<(String, Value)> {
        let sqs = Setup::clients().sqs;
        let receive = sqs.receive_message().queue_url(&self.queue_url).max_number_of_messages(10).wait_time_seconds(1);
        let mut taken = Vec::new();
        for message in receive.send().await.unwrap().messages() {
            let event: Value = serde_json::from_str(message.body().unwrap()).unwrap();
            taken.push((event["detail"]["id"].as_str().unwrap().to_owned(), event));
            let delete = sqs.delete_message().queue_url(&self.queue_url);
            delete.receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
        }
        taken
    }

    /// All that came, once each of `expected` did.
    async fn until_all(&self, expected: &BTreeSet<String>) -> BTreeMap<String, Value> {
        let mut told = BTreeMap::new();
        for _ in 0..200 {
            told.extend(self.taken().await);
            if expected.iter().all(|id| told.contains_key(id)) {
                return told;
            }
        }
        let missing: Vec<_> = expected.iter().filter(|id| !told.contains_key(*id)).collect();
        panic!("{} of {} were not told: {missing:?}", missing.len(), expected.len());
    }
}

#[tokio::test]
async fn ends_and_questions_reach_the_event_bus_and_nothing_else_invokes_the_publisher() {
    let bus = Bus::new();
    let setup = Setup::with(&[&bus.parameter(), "Settings=progress-ms=100", "AttemptsPerWorker=10"]);
    let caller = setup.start().caller();
    // With heartbeats, progress and steps.
    let completed = caller.call_task("countdown", json!({"seconds": 3, "steps": 12})).await;
    let failed = caller.call_task("fail", json!({"how": "protocol_error"})).await;
    let asking = caller.call_task("ask", json!({"questions": ["secret?"]})).await;
    let cancelled = caller.call_task("countdown", json!({"seconds": 60, "steps": 2})).await;
    caller.until(&asking, "input_required").await;
    caller.result("tasks/cancel", json!({"taskId": cancelled})).await;
    caller.until(&completed, "completed").await;
    let ended = caller.until(&failed, "failed").await["status"] == "failed";
    assert!(ended);
    let wanted = [
        (format!("evt_{completed}_completed"), "completed", "Longhaul Task Completed"),
        (format!("evt_{failed}_failed"), "failed", "Longhaul Task Failed"),
        (format!("evt_{cancelled}_cancelled"), "cancelled", "Longhaul Task Cancelled"),
        (format!("evt_{asking}_input_required_1"), "input_required", "Longhaul Task Input Required"),
    ];
    let told = bus.until_all(&wanted.iter().map(|(id, ..)| id.clone()).collect()).await;
    assert_eq!(told.len(), wanted.len(), "nothing else is told: {told:?}");
    for (id, status, kind) in wanted {
        let event = &told[&id];
        assert_eq!((&event["detail-type"], &event["detail"]["status"]), (&json!(kind), &json!(status)));
        assert!(event["resources"][0].as_str().unwrap().ends_with(setup.output("Table")), "{event}");
        assert!(!event.to_string().contains("secret"), "thin: {event}");
    }
    let (logs, _) = logs_and_configurations(&[setup.output("PublisherFunction")]);
    let count = |field: &str| -> u64 {
        let lines = logs.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line[field].as_u64()).sum()
    };
    assert_eq!((count("records"), count("notifications")), (4, 4), "{logs}");
}

#[tokio::test]
async fn each_end_is_told_although_publishers_are_killed_again_and_again() {
    let bus = Bus::new();
    let setup = Setup::with(&[&bus.parameter()]);
    let caller = setup.start().caller();
    let (mut killed, mut expected, mut told) = (0, BTreeSet::new(), BTreeMap::new());
    for _ in 0..8 {
        for _ in 0..8 {
            let id = caller.call_task("fail", json!({"how": "hang"})).await;
            caller.result("tasks/cancel", json!({"taskId": id})).await;
            expected.insert(format!("evt_{id}_cancelled"));
        }
        killed += setup.kill_all_of("PublisherFunction");
        told.extend(bus.taken().await);
    }
    assert!(killed > 0, "publishers were killed while they published");
    expected.retain(|id| !told.contains_key(id));
    bus.until_all(&expected).await;
}

/// Lets the functions send webhooks to this machine, and gives them this variable before they start.
fn reach_this_machine(functions: &[&str]) {
    let program = "client = boto3.client('lambda')\n\
        for name in sys.argv[1:]:\n\
        \x20   variables = client.get_function_configuration(FunctionName=name)['Environment']['Variables']\n\
        \x20   variables['LONGHAUL_WEBHOOKS_TO_THIS_MACHINE'] = 'true'\n\
        \x20   client.update_function_configuration(FunctionName=name, Environment={'Variables': variables})\n\
        print('null')";
    with_sdk(program, functions);
}

#[tokio::test]
async fn webhooks_are_tasks_that_foreign_libraries_verify_with_either_secret() {
    let (name, receiver, bus) = (fresh_name(), Receiver::that_takes_all(), Bus::new());
    let program = "name, old, new = sys.argv[1:]\n\
        make = boto3.client('secretsmanager').create_secret\n\
        print(json.dumps([make(Name=name + n, SecretString=s)['ARN'] for n, s in (('/old', old), ('/new', new))]))";
    let [old, new]: [String; 2] = serde_json::from_value(with_sdk(program, &[&name, SECRET, NEW_SECRET])).unwrap();
    let secrets = [&old, &new].map(|arn| format!("secretsmanager:{arn}"));
    let webhooks = json!({"endpoints": [{"name": "ops", "url": receiver.url(), "secrets": secrets}]});
    let setup = Setup::with(&[&bus.parameter(), &format!("Webhooks={webhooks}"), &format!("SecretArns={old},{new}")]);
    reach_this_machine(&["PublisherFunction", "WorkerFunction"].map(|output| setup.output(output)));
    let caller = setup.start().caller();
    let completed = caller.call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    let cancelled = caller.call_task("countdown", json!({"seconds": 60, "steps": 2})).await;
    caller.result("tasks/cancel", json!({"taskId": cancelled})).await;
    let expected = BTreeSet::from([format!("evt_{completed}_completed"), format!("evt_{cancelled}_cancelled")]);
    let told = |hooks: &[Hook]| hooks.iter().map(|hook| hook.id().to_owned()).collect::<BTreeSet<_>>();
    let hooks = receiver.until("both webhooks", |hooks| told(hooks).is_superset(&expected)).await;
    assert_eq!(told(&hooks), expected, "nothing is told of notices");
    for (language, secret) in [("python", SECRET), ("python", NEW_SECRET), ("node", SECRET), ("node", NEW_SECRET)] {
        assert_eq!(verified(language, secret, &hooks), hooks.len());
    }
    bus.until_all(&expected).await;
}

/// A message as Lambda writes it about changes that could not be published: from the first to the last of the stream.
fn put_aside(setup: &Setup) {
    let program = "table, queue = sys.argv[1:]\n\
        streams = boto3.client('dynamodbstreams')\n\
        stream = streams.list_streams(TableName=table)['Streams'][0]['StreamArn']\n\
        shard = streams.describe_stream(StreamArn=stream)['StreamDescription']['Shards'][0]['ShardId']\n\
        at = streams.get_shard_iterator(StreamArn=stream, ShardId=shard, ShardIteratorType='TRIM_HORIZON')\n\
        numbers = [r['dynamodb']['SequenceNumber'] for r in \
        streams.get_records(ShardIterator=at['ShardIterator'])['Records']]\n\
        about = {'shardId': shard, 'streamArn': stream, 'startSequenceNumber': numbers[0], 'endSequenceNumber': \
        numbers[-1]}\n\
        boto3.client('sqs').send_message(QueueUrl=queue, MessageBody=json.dumps({'DDBStreamBatchInfo': about}))\n\
        print('null')";
    with_sdk(program, &[setup.output("Table"), setup.output("NotPublishedQueueUrl")]);
}

#[tokio::test]
async fn what_could_not_be_published_is_published_again_by_one_command() {
    let bus = Bus::new();
    let setup = Setup::with(&[&bus.parameter()]);
    let caller = setup.start().caller();
    let id = caller.call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    let expected = BTreeSet::from([format!("evt_{id}_completed")]);
    bus.until_all(&expected).await;
    put_aside(&setup);
    let mut python = Command::new(root().join(".cache/tools/aws/bin/python"));
    python.arg(root().join("scripts/publish_again.py"));
    python.args([setup.output("NotPublishedQueueUrl"), setup.output("PublisherFunction")]);
    let said = output_of(on_sdk(&mut python));
    assert!(said.contains("0 messages are left"), "{said}");
    bus.until_all(&expected).await;
    assert_eq!(messages_in(&Setup::clients(), setup.output("NotPublishedQueueUrl")).await, 0);
}
