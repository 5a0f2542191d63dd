//! `longhaul`: durable MCP tools at the command line.

#![expect(clippy::indexing_slicing, reason = "only values of `serde_json` are indexed: what is not there is null")]

mod address;
mod args;
mod arguments;
mod bridge;
mod clock;
mod credentials;
mod deploy;
mod exit;
mod follow;
mod form;
mod gateway;
mod limits;
mod out;
mod pace;
mod private;
mod record;
mod render;
mod save;
mod screen;
mod server;
mod verbose;
mod verbs;

use std::ffi::OsStr;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use longhaul::serve::CommandLine;
use longhaul_app::{Settings, settings};

use args::Cli;

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        // In one line, with its causes: a backtrace is of no use to an operator.
        out::say(&format!("error: {}", out::block(&format!("{error:#}"))));
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
    // The servers read flags of their own, and a command may follow.
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(OsStr::to_str) {
        Some("demo") => return Ok(demo()),
        Some("gateway") => return gateway::run(args.collect()),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return Ok(out::usage(&error)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("no threads can be started")?;
    let is_json = cli.global.json;
    if cli.global.verbose {
        longhaul_client::observe(verbose::Verbose);
    }
    let done = runtime.block_on(verbs::run(cli));
    // Does not wait for a question that is no longer answered.
    runtime.shutdown_background();
    Ok(match done {
        Ok(exit) => exit.into(),
        Err(stop) if is_json => out::report_json(&stop),
        Err(stop) => out::report(&stop),
    })
}

/// `longhaul demo`: a server with the demonstration tools, until it is asked to stop.
fn demo() -> ExitCode {
    CommandLine::new("longhaul demo")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serves demonstration tools from one process with an embedded database.")
        .settings(&settings::ALL)
        .main_with(|options| -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            Ok(longhaul_app::server(Settings::of(options.values(), options.tool_env()?)?)?)
        })
}
