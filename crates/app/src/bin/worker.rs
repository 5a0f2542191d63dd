//! `worker`: the Lambda function that runs the tools of tasks, and looks after dead letters.

use longhaul::lambda::{self, ProcessEnv};
use longhaul_app::{Settings, server};

fn main() -> anyhow::Result<()> {
    let server = server(Settings::of_function(&ProcessEnv))?;
    lambda::worker(&server)?;
    Ok(())
}
