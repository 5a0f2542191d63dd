//! How fast `profile_dataset` is, and how much memory the whole server needs for it.

use std::time::Instant;

use super::plan::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::spawned::{Spawned, demo};
use crate::{csv, load};

/// Sizes from here on are measured once: they take long enough for a stable figure.
const ONCE_FROM_BYTES: u64 = 1_000_000_000;

/// Profiles a generated file of each size, each time in a new server.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for wished in &plan.profiled_bytes {
        let path = plan.file("profiled.csv");
        let bytes = csv::write(&path, *wished)?;
        let megabytes = f64::from(u32::try_from(bytes / 1000)?) / 1000.0;
        let rounds = if *wished >= ONCE_FROM_BYTES { 1 } else { plan.rounds };
        eprintln!("profile_dataset: {megabytes:.0} MB, {rounds} times");
        let (mut speeds, mut peaks) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (seconds, peak_mib) = profile(plan).await?;
            speeds.push(megabytes / seconds);
            peaks.push(peak_mib);
        }
        std::fs::remove_file(&path)?;
        let name = |what: &str| format!("profile_dataset, {megabytes:.0} MB of CSV: {what}");
        figures.push(Figure::new(name("speed"), "MB/s", speeds).target(Target::AtLeast(100.0)));
        figures.push(Figure::new(name("peak memory"), "MiB", peaks).target(Target::Below(128.0)));
    }
    Ok(figures)
}

/// Seconds from the call until a poll sees the result, and the server's peak memory.
async fn profile(plan: &Plan) -> anyhow::Result<(f64, f64)> {
    let db = plan.file("profile.db");
    let server = Spawned::start(|address| demo(&plan.longhaul, address, &db, &plan.folder)).await?;
    let mut connection = Connection::open(server.address()).await?;
    let begun = Instant::now();
    load::live(&mut connection, "profile_dataset", r#"{"path":"profiled.csv"}"#).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let peak_mib = server.memory_peak_mib()?;
    server.stop()?;
    Ok((seconds, peak_mib))
}
