//! How soon a server answers after its start.

use super::plan::Plan;
use crate::figures::{Figure, Target};
use crate::spawned::{Spawned, demo};

/// How often a server is started.
const STARTS: u32 = 10;

/// Starts `longhaul demo` repeatedly, each time with a new file.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    eprintln!("ready: {STARTS} starts");
    let mut rounds = Vec::new();
    for number in 0..STARTS {
        let db = plan.file(&format!("ready-{number}.db"));
        let server = Spawned::start(|address| demo(&plan.longhaul, address, &db, &plan.folder)).await?;
        rounds.push(server.ready().as_secs_f64() * 1e3);
        server.stop()?;
    }
    Ok(vec![Figure::new("ready after start", "ms", rounds).target(Target::Below(200.0))])
}
