//! `worker`: the Lambda function that runs the tools of tasks, and handles dead letters.

use longhaul::lambda::WorkerFunction;
use longhaul_app::{Settings, server, settings};

fn main() -> anyhow::Result<()> {
    let function = WorkerFunction::from_env(&settings::ALL)?;
    function.run(&server(Settings::of(function.values(), function.tool_env()?)?)?)?;
    Ok(())
}
