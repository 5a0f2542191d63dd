//! `longhaul gateway iam-policy`: what AWS has to allow the gateway for its outside jobs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use longhaul::settings::ProcessEnv;
use longhaul_gateway::Config;

use super::refuse;

/// Prints the IAM policy that the outside jobs of a configuration need: the actions on the resources that it names, and
/// nothing else. Nothing is asked of AWS.
#[derive(Parser)]
#[command(name = "longhaul gateway iam-policy", next_line_help = true)]
struct Arguments {
    /// The file that names the jobs.
    #[arg(long, value_name = "FILE", env = "LONGHAUL_CONFIG")]
    config: PathBuf,
}

/// Does it. The first of `args` is the verb.
#[expect(clippy::print_stdout, reason = "this is the output of the program for its user")]
pub(super) fn run(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let Arguments { config } = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            // 2 for mistakes, 0 for help.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            error.print()?;
            return Ok(ExitCode::from(code));
        }
    };
    let shown = config.display();
    let text = match std::fs::read_to_string(&config) {
        Ok(text) => text,
        Err(error) => return Ok(refuse(&format!("{shown} cannot be read: {error}"))),
    };
    match Config::iam_policy(&text, &ProcessEnv) {
        Ok(policy) => {
            println!("{}", serde_json::to_string_pretty(&policy).context("the policy cannot be written")?);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(refuse(&format!("{shown} cannot be used:\n{error}"))),
    }
}
