//! The report: tables in Markdown, and pictures of some of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::system::System;
use super::tables::Table;
use super::{Plan, plot};
use crate::figures::number;

/// Writes `peers.md` and its pictures into `folder`.
pub(super) fn write(folder: &Path, plan: &Plan, tables: &[Table]) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let mut text = head(plan);
    for table in tables {
        text.push_str(&table.markdown());
        for picture in plot::pictures(table) {
            fs::write(folder.join(&picture.file), &picture.svg)?;
            text.push_str(&format!("\n![{}]({})\n", picture.title, picture.file));
        }
        text.push('\n');
    }
    let path = folder.join("peers.md");
    fs::write(&path, text.trim_end().to_owned() + "\n").with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    Ok(())
}

fn head(plan: &Plan) -> String {
    let mut text = format!(
        "# Beside other systems\n\n\
         Written by `make bench-peers{}`. Systems, services and the client (one thread) share the machine. Medians of \
         {} \
         {} (lowest to highest), {} s each; each round begins with another system. Each result was looked at: a wrong \
         one ends the measurement of its system. In bold: the best of a column among the systems whose records outlive \
         the process.\n\n\
         {}\n\n\
         A life is one call of a tool whose steps do nothing, until the client has the result: the sum of the steps' \
         numbers.\n\n\
         | system | version | durable by |\n| --- | --- | --- |\n",
        if plan.asked.is_empty() { String::new() } else { format!(" PEERS_ARGS=\"{}\"", plan.asked) },
        plan.rounds,
        if plan.rounds == 1 { "round" } else { "rounds" },
        number(plan.time.as_secs_f64()),
        machine(),
    );
    if plan.ground.aws.is_some() {
        let emulator = python(plan, "../aws/bin/python", &["ministack"]);
        text = text.replacen("\n\n| system", &format!(" AWS is an emulator here: {emulator}.\n\n| system"), 1);
    }
    for system in &plan.systems {
        text.push_str(&format!("| {} | {} | {} |\n", system.name(), version(*system, plan), system.durable_by()));
    }
    text.push('\n');
    text
}

/// The processors, memory and kernel of this machine.
fn machine() -> String {
    let line = |path: &str, start: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let found = text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
        found.trim_start_matches([' ', '\t', ':']).to_owned()
    };
    let kib: u64 = line("/proc/meminfo", "MemTotal:").trim_end_matches(" kB").trim().parse().unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "Machine: {cores} cores ({}), {} GiB of memory, Linux {}.",
        line("/proc/cpuinfo", "model name"),
        kib.div_ceil(1_048_576),
        kernel.split('.').take(2).collect::<Vec<_>>().join(".")
    )
}

fn version(system: System, plan: &Plan) -> String {
    match system {
        System::Longhaul | System::LonghaulCall | System::AwsLonghaul | System::AwsLonghaulCall => {
            env!("CARGO_PKG_VERSION").to_owned()
        }
        System::AwsPmcp => locked(plan, "pmcp", &["pmcp", "pmcp-tasks"]),
        System::AwsTurul => locked(plan, "turul", &["turul-mcp-server", "turul-mcp-ext-tasks"]),
        System::AwsSdk => "as Longhaul's".to_owned(),
        System::Restate => said(Command::new(plan.ground.tool("restate-server")).arg("--version")),
        System::DbosWal | System::Dbos => python(plan, "python-dbos", &["dbos", "aiohttp"]),
        System::FastmcpAlways | System::FastmcpEverysec => {
            let redis = said(Command::new(plan.ground.tool("redis-server")).arg("--version"));
            let redis = redis.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or_default().to_owned();
            format!("{}, Redis {redis}", python(plan, "python-fastmcp", &["fastmcp", "fastmcp-tasks", "pydocket"]))
        }
        System::Rmcp => "as Longhaul's".to_owned(),
    }
}

/// The versions of packages in one of the peers' Python environments.
fn python(plan: &Plan, tool: &str, packages: &[&str]) -> String {
    let list = packages.join("', '");
    let code =
        format!("from importlib.metadata import version as v; print(', '.join(f'{{p}} {{v(p)}}' for p in ['{list}']))");
    said(Command::new(plan.ground.tool(tool)).args(["-c", &code]))
}

/// The versions of packages in the lock file of a peer that is built from source.
fn locked(plan: &Plan, peer: &str, packages: &[&str]) -> String {
    let lock = fs::read_to_string(plan.ground.source(&format!("{peer}/Cargo.lock"))).unwrap_or_default();
    let version = |package: &&str| format!("{package} {}", version_in(&lock, package).unwrap_or("?"));
    packages.iter().map(version).collect::<Vec<_>>().join(", ")
}

fn version_in<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// The first line that a command prints.
fn said(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_that_of_the_package_and_not_of_one_whose_name_begins_alike() {
        let lock = "[[package]]\nname = \"pmcp-tasks\"\nversion = \"0.2.0\"\n\n[[package]]\nname = \"pmcp\"\nversion = \
                    \"2.23.0\"\n";
        assert_eq!(version_in(lock, "pmcp"), Some("2.23.0"));
        assert_eq!(version_in(lock, "turul"), None);
    }
}
