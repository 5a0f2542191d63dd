//! `api`: the Lambda function that answers requests.

use longhaul::lambda::ApiFunction;
use longhaul_app::{Settings, server, settings};

fn main() -> anyhow::Result<()> {
    let function = ApiFunction::from_env(&settings::ALL)?;
    function.run(&server(Settings::of(function.values(), function.tool_env()?)?)?)?;
    Ok(())
}
