//! The kernel's report about a process.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// The peak memory of a process, in MiB.
pub(crate) fn memory_peak_mib(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u32 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(f64::from(kib) / 1024.0)
}

/// The processor time that a process has used so far, threads that have ended included, to a hundredth of a second.
pub(crate) fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold spaces; user and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(") ").context("no fields")?;
    let ticks: Result<Vec<u64>, _> = fields.split(' ').skip(11).take(2).map(str::parse).collect();
    // The kernel counts in hundredths of a second.
    Ok(Duration::from_millis(10 * ticks?.iter().sum::<u64>()))
}

/// The processor time that the live threads of a process have used, to the nanosecond.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanos += text.split(' ').next().context("no time")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// The process that has this variable in its environment.
pub(crate) fn with_variable(name: &str, value: &str) -> anyhow::Result<u32> {
    let wanted = format!("{name}={value}");
    let has_it = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let names = fs::read_dir("/proc")?.flatten().filter_map(|process| process.file_name().to_str()?.parse().ok());
    names.into_iter().find(has_it).with_context(|| format!("no process has {wanted}"))
}
