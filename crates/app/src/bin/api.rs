//! `api`: the Lambda function that answers requests.

use longhaul::lambda::{self, ProcessEnv};
use longhaul_app::{Settings, server};

fn main() -> anyhow::Result<()> {
    let server = server(Settings::of_function(&ProcessEnv))?;
    lambda::api(&server)?;
    Ok(())
}
