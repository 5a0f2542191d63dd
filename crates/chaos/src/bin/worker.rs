//! `chaos-worker`: the server as the Lambda function that runs the tools of tasks.

use longhaul::lambda::WorkerFunction;

fn main() -> anyhow::Result<()> {
    let function = WorkerFunction::from_env(&[])?;
    function.run(&longhaul_chaos::server(function.tool_env()?))?;
    Ok(())
}
