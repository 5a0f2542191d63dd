//! `chaos-api`: the server as the Lambda function that answers requests.

use longhaul::lambda::ApiFunction;

fn main() -> anyhow::Result<()> {
    let function = ApiFunction::from_env(&[])?;
    function.run(&longhaul_chaos::server(function.tool_env()?))?;
    Ok(())
}
