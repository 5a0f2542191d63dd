//! What a life hands to the disk, keeps there, and waits for.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::{Enough, Field, closed};
use crate::peers::Plan;
use crate::peers::running::{Running, kept_bytes};
use crate::peers::system::System;
use crate::peers::tables::Table;
use crate::servers::life::Life;

/// Steps of the lives.
const STEPS: [u32; 2] = [1, 10];

/// Lives whose bytes are counted, 16 at a time; the table has the share of a thousand.
const LIVES: u32 = 1_000;
const LIVES_QUICK: u32 = 200;

/// Lives whose waits for the disk are counted, one at a time.
const TRACED: u32 = 50;

/// How long the tracer may take to find all threads.
const ATTACHING: Duration = Duration::from_secs(1);

const MIB: f64 = 1_048_576.0;

pub(super) async fn measure(field: &Field<'_>) -> anyhow::Result<Table> {
    let (plan, lives) = (field.plan, lives(field.plan));
    let mut table = field.table(
        "The disk",
        format!(
            "Of {lives} lives, per 1,000: MiB handed to the disk (the kernel's count; a page that is written twice \
             counts \
             twice), and MiB that are there after a stop by SIGTERM, without logs. And how often a life waits for the \
             disk (`fsync`, `fdatasync`) when \
             {TRACED} lives run one after the other. One round. How long results are kept: Longhaul 6 h, Restate a \
             day, \
             DBOS for ever, FastMCP 15 min."
        ),
        &["1 step: handed over", "kept", "waits", "10 steps: handed over", "kept", "waits"],
    );
    for system in field.in_round(0).filter(|system| !system.is_plain_call()) {
        if !system.is_durable() {
            table.explain(system, "it writes nothing.");
            continue;
        }
        eprintln!("disk: {}", system.name());
        for (number, steps) in STEPS.into_iter().enumerate() {
            let folder = field.folder(&format!("disk-{steps}"), system)?;
            if let Err(why) = one_system(plan, system, &folder, (number, steps), &mut table).await {
                table.failed(system, &why);
            }
            plan.ground.clear(system, &folder).await?;
        }
    }
    table.explain(System::LonghaulCall, "it writes what the row above writes.");
    Ok(table)
}

async fn one_system(
    plan: &Plan,
    system: System,
    folder: &Path,
    (number, steps): (usize, u32),
    table: &mut Table,
) -> anyhow::Result<()> {
    let running = Running::start(system, &plan.ground, folder).await?;
    let mut connections = running.connect_many(16).await?;
    let (life, lives, before) = (Life::of(steps), lives(plan), running.written_bytes()?);
    let thousands = f64::from(lives) / 1e3;
    closed(system.protocol(), &mut connections, &life, Enough::Lives(lives)).await?;
    drop(connections);
    let handed_over = running.written_bytes()?.saturating_sub(before);
    match waits(system, &running, &life).await {
        Ok(waits) => table.add(system, 3 * number + 2, waits),
        Err(why) => table.explain(system, format!("waits could not be counted: {why:#}")),
    }
    running.stop()?;
    table.add(system, 3 * number, mib(handed_over) / thousands);
    table.add(system, 3 * number + 1, mib(kept_bytes(folder)?) / thousands);
    Ok(())
}

const fn lives(plan: &Plan) -> u32 {
    if plan.is_quick { LIVES_QUICK } else { LIVES }
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1_024).unwrap_or(u32::MAX)) * 1_024.0 / MIB
}

/// How often a life waits for the disk, when one follows the other.
async fn waits(system: System, running: &Running, life: &Life) -> anyhow::Result<f64> {
    let counts = tempfile::NamedTempFile::new()?;
    let tracer = trace(&running.pids(), counts.path())?;
    tokio::time::sleep(ATTACHING).await;
    let mut one = running.connect_many(1).await?;
    closed(system.protocol(), &mut one, life, Enough::Lives(TRACED)).await?;
    end(tracer)?;
    let counted: u32 = std::fs::read_to_string(counts.path())?.lines().filter_map(calls).sum();
    Ok(f64::from(counted) / f64::from(TRACED))
}

fn trace(pids: &[u32], counts: &Path) -> anyhow::Result<Child> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o"]).arg(counts);
    for pid in pids {
        strace.arg("-p").arg(pid.to_string());
    }
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("strace is not installed")
}

fn end(mut tracer: Child) -> anyhow::Result<()> {
    let status = Command::new("kill").args(["-INT", &tracer.id().to_string()]).status()?;
    anyhow::ensure!(status.success(), "strace had ended");
    tracer.wait()?;
    Ok(())
}

/// The calls in a row of strace's table: share, seconds, microseconds a call, calls, perhaps errors, the call's name.
fn calls(line: &str) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let name = fields.last()?;
    let is_call = ["fsync", "fdatasync", "sync_file_range", "msync"].contains(name);
    if is_call { fields.get(3)?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_row_are_found_with_and_without_errors() {
        assert_eq!(calls(" 97.24    0.034567          34       350           fdatasync"), Some(350));
        assert_eq!(calls("  2.76    0.000100          50         2         1 fsync"), Some(2));
        assert_eq!(calls("100.00    0.034667                   352         1 total"), None);
        assert_eq!(calls("% time     seconds  usecs/call     calls    errors syscall"), None);
        assert_eq!(calls(""), None);
    }
}
