//! On AWS: the calls of a life and of a poll, what DynamoDB would bill for them, and their bytes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::bare::Bare;
use super::{Field, RUNS_NOTHING, STEPS};
use crate::connection::Connection;
use crate::peers::aws::Aws;
use crate::peers::capacity;
use crate::peers::counter::{Counter, Tally};
use crate::peers::protocol::{self, Protocol};
use crate::peers::running::Running;
use crate::peers::system::{Places, System};
use crate::peers::tables::Table;
use crate::process;
use crate::servers::life::Life;
use crate::wire;

/// Lives that are counted, one after the other, after some that warm up.
const LIVES: u32 = 10;
const WARMING: u32 = 3;

/// How long there must be no call until a life counts as over.
const REST: Duration = Duration::from_millis(250);

/// How long a system is watched that has nothing to do.
const IDLE: Duration = Duration::from_secs(20);
const IDLE_QUICK: Duration = Duration::from_secs(3);

/// The pages of a scan.
const PAGES_MAX: usize = 1_000;

const KIB: f64 = 1_024.0;

/// What one life took, and one poll of its end.
#[derive(Default)]
struct Taken {
    life: Tally,
    poll: Tally,
}

pub(super) async fn measure(field: &Field<'_>) -> anyhow::Result<[Table; 3]> {
    let mut tables = tables(field);
    for system in field.in_round(0) {
        eprintln!("calls: {}", system.name());
        let folder = field.folder("calls", system)?;
        let measured = if system.is_served() {
            one_system(field, system, &folder, &mut tables).await
        } else {
            alone(field, system, &folder, &mut tables).await
        };
        if let Err(why) = measured {
            tables.iter_mut().for_each(|table| table.failed(system, &why));
        }
        field.plan.ground.clear(system, &folder).await?;
    }
    Ok(tables)
}

async fn one_system(field: &Field<'_>, system: System, folder: &Path, tables: &mut [Table; 3]) -> anyhow::Result<()> {
    let counter = Counter::open().await?;
    let places = Places { aws: Some(counter.address()), ..Places::free()? };
    let running = Running::start_at(system, &field.plan.ground, folder, places).await?;
    let mut connection = running.connect().await?;
    for _ in 0..WARMING {
        one_life(system.protocol(), &mut connection, &counter, &Life::of(1)).await?;
    }
    let mut operations = Vec::new();
    for (number, steps) in STEPS.into_iter().enumerate() {
        let before = kept(folder).await?;
        let mut taken = Taken::default();
        for _ in 0..LIVES {
            let one = one_life(system.protocol(), &mut connection, &counter, &Life::of(steps)).await?;
            taken.life.merge(&one.life);
            taken.poll.merge(&one.poll);
        }
        let grown = kept(folder).await?.saturating_sub(before);
        let plural = if steps == 1 { "" } else { "s" };
        operations.push(format!("{steps} step{plural}: {}", each(&taken.life)));
        add(tables, system, number, &taken);
        tables[2].add(system, number + STEPS.len() + 1, kib(grown));
        if number == 0 && taken.poll != Tally::default() {
            operations.insert(0, format!("a poll: {}", each(&taken.poll)));
        }
    }
    let idle = if field.plan.is_quick { IDLE_QUICK } else { IDLE };
    tokio::time::sleep(idle).await;
    let rest = counter.take();
    tables[0].add(
        system,
        2 * STEPS.len() + 1,
        f64::from(rest.dynamo + rest.sqs + rest.empty) * 60.0 / idle.as_secs_f64(),
    );
    tables[0].explain(system, format!("{}.", operations.join("; ")));
    drop(connection);
    running.stop()
}

/// The SDK's calls, counted like a life.
async fn alone(field: &Field<'_>, system: System, folder: &Path, tables: &mut [Table; 3]) -> anyhow::Result<()> {
    field.plan.ground.aws()?.prepare(system, folder).await?;
    let counter = Counter::open().await?;
    let bare = Bare::new(folder, Some(counter.address()));
    let mut taken = Taken::default();
    for number in 0..LIVES {
        let id = format!("counted-{number}");
        bare.call(&id).await?;
        taken.life.merge(&counter.take());
        bare.poll(&id).await?;
        taken.poll.merge(&counter.take());
    }
    add(tables, system, 0, &taken);
    let operations = format!("the call: {}; the poll: {}.", each(&taken.life), each(&taken.poll));
    tables[0].explain(system, format!("{RUNS_NOTHING} Its figures are those of {operations}"));
    Ok(())
}

/// One life from its call until the system rests, and one poll of it.
async fn one_life(
    protocol: Protocol,
    connection: &mut Connection,
    counter: &Counter,
    life: &Life,
) -> anyhow::Result<Taken> {
    counter.rests(REST).await?;
    counter.take();
    if !matches!(protocol, Protocol::Tasks(_)) {
        protocol.live(connection, life).await?;
        counter.rests(REST).await?;
        return Ok(Taken { life: counter.take(), poll: Tally::default() });
    }
    let id = protocol.begin(connection, life).await?;
    counter.rests(REST).await?;
    let taken = counter.take();
    let answer = connection.send(wire::poll(&id)?).await?;
    ensure!(protocol::is_completed(&answer, life)?, "a life is not completed although the system rests");
    counter.rests(REST / 5).await?;
    Ok(Taken { life: taken, poll: counter.take() })
}

fn add([calls, capacity, bytes]: &mut [Table; 3], system: System, number: usize, taken: &Taken) {
    let Taken { life, poll } = taken;
    let per = |total: f64| total / f64::from(LIVES);
    calls.add(system, 2 * number, per(f64::from(life.dynamo)));
    calls.add(system, 2 * number + 1, per(f64::from(life.sqs)));
    capacity.add(system, 2 * number, per(life.write_units));
    capacity.add(system, 2 * number + 1, per(life.read_units));
    bytes.add(system, number, kib(life.bytes));
    if *poll != Tally::default() && number == 0 {
        calls.add(system, 2 * STEPS.len(), per(f64::from(poll.dynamo + poll.sqs)));
        capacity.add(system, 2 * STEPS.len(), per(poll.read_units));
        bytes.add(system, STEPS.len(), kib(poll.bytes));
    }
    if life.unsure + poll.unsure > 0 {
        capacity.explain(system, "some of its reads show less than they read; their units are at least these.");
    }
}

/// A life's share of so many bytes, in KiB.
fn kib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / KIB / f64::from(LIVES)
}

/// The operations of one life: "GetItem 1, PutItem 2".
fn each(tally: &Tally) -> String {
    let of = |(operation, count): (&String, &u32)| {
        let text = format!("{:.1}", f64::from(*count) / f64::from(LIVES));
        format!("{operation} {}", text.trim_end_matches(".0"))
    };
    tally.operations.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The bytes of all items in the table that belongs to `folder`, as DynamoDB counts them.
async fn kept(folder: &Path) -> anyhow::Result<u64> {
    let http = reqwest::Client::new();
    let mut request = json!({"TableName": Aws::name(folder)});
    let mut bytes = 0;
    for _ in 0..PAGES_MAX {
        let scan = http.post(process::endpoint()).header("x-amz-target", "DynamoDB_20120810.Scan");
        let scan = scan.header("content-type", "application/x-amz-json-1.0").header("authorization", UNSIGNED);
        let answer = scan.body(serde_json::to_vec(&request)?).send().await?.bytes().await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let items = answer.get("Items").and_then(Value::as_array).with_context(|| format!("no items: {answer}"))?;
        bytes += items.iter().map(capacity::item_bytes).sum::<usize>();
        let Some(last) = answer.get("LastEvaluatedKey") else { return Ok(u64::try_from(bytes)?) };
        request = json!({"TableName": Aws::name(folder), "ExclusiveStartKey": last});
    }
    anyhow::bail!("the table is too large to be read")
}

/// The emulator takes the account and the region from it, and verifies nothing.
const UNSIGNED: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, \
                        SignedHeaders=host, Signature=none";

fn tables(field: &Field<'_>) -> [Table; 3] {
    [
        field.table(
            "Calls of a life",
            format!(
                "Of {LIVES} lives one after the other: calls to DynamoDB and SQS from a call until its result is \
                 recorded \
                 and the system rests, without polls; a poll of a completed task; and what a system calls in a minute \
                 in \
                 which nothing happens. Counted by a proxy before the emulator, retries included; receives that bring \
                 no \
                 message count only in the last column. Longhaul runs as a container, which receives and deletes its \
                 messages itself; of functions, Lambda does that, and SQS bills it likewise."
            ),
            &[
                "0 steps: DynamoDB",
                "SQS",
                "1 step: DynamoDB",
                "SQS",
                "10 steps: DynamoDB",
                "SQS",
                "a poll",
                "a minute at rest",
            ],
        ),
        field.table(
            "Capacity of a life",
            "Units of DynamoDB that the same lives and polls would be billed for. Writes: as the emulator reports them \
             (`ReturnConsumedCapacity`), by the sizes of items, twice in transactions. Reads: computed from the sizes \
             of \
             what was read, since the emulator reports the same for every size.",
            &["0 steps: writes", "reads", "1 step: writes", "reads", "10 steps: writes", "reads", "a poll: reads"],
        ),
        field.table(
            "Bytes of a life",
            "KiB of request and answer bodies of the same lives and polls, as compact JSON, and what a life leaves in \
             the \
             table until it expires.",
            &["0 steps, KiB", "1 step", "10 steps", "a poll", "kept: 0 steps", "1 step", "10 steps"],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_shown_by_its_operations() {
        let operations = [("GetItem", 10), ("PutItem", 25)];
        let operations = operations.map(|(operation, count)| (operation.to_owned(), count)).into();
        assert_eq!(each(&Tally { operations, ..Tally::default() }), "GetItem 1, PutItem 2.5");
    }
}
