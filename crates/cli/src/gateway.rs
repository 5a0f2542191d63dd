//! `longhaul gateway`: a local server in front of other servers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use longhaul::serve::{CommandLine, Options, ServeError, init_logs};
use longhaul::settings::ProcessEnv;
use longhaul_core::settings::table;
use longhaul_gateway::{Config, Gateway, Lock, StartError, settings};

use self::arguments::{config, parse, read_config, read_lock, refuse, threads};
use self::reload::Files;
use crate::out;

mod arguments;
mod lock;
mod reload;

const ABOUT: &str = "Puts MCP servers, unchanged, behind a gateway that makes their tools durable.

Name the servers in a file with --config FILE, or one of them by the command that starts it, last and after `--`:

    longhaul gateway -- npx -y @modelcontextprotocol/server-everything

A server sees PATH, HOME, LANG, the proxy and the certificates of this environment, and the variables that its \
`env` in the file names. The server after `--` sees those of --tool-env and --secret instead. \
SIGHUP reads the files of --config and --lock again.";

/// Runs until it is asked to stop.
pub(crate) fn run(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    if args.first().is_some_and(|first| first == "lock") {
        return lock::run(args);
    }
    if args.first().is_some_and(|first| first == "iam-policy") {
        return iam_policy(args);
    }
    if args.first().is_some_and(|first| first == "rights") {
        return Ok(refuse("`rights` is now `iam-policy`: run longhaul gateway iam-policy …"));
    }
    let (flags, command) = split(args);
    let command_line =
        CommandLine::new("longhaul gateway").version(env!("CARGO_PKG_VERSION")).about(ABOUT).settings(&settings::ALL);
    let options = match command_line.read(flags, &ProcessEnv) {
        Ok(options) => options,
        Err(error) => return Ok(error.report()),
    };
    if let Err(error) = init_logs(&options) {
        return Ok(ServeError::from(error).report());
    }
    let lock_file = options.values().find(&settings::LOCK)?;
    let lock = lock_file.as_deref().map(read_lock).transpose();
    let command: Option<Vec<String>> = command.into_iter().map(|arg| arg.into_string().ok()).collect();
    let Some(command) = command else { return Ok(refuse("the command after `--` is not UTF-8")) };
    let file = options.values().find(&settings::CONFIG)?;
    let named = if command.is_empty() { BTreeMap::new() } else { named(&options)? };
    match (config(file.as_deref(), &command, named), lock) {
        (Ok(config), Ok(lock)) => {
            let files = file.map(|config| Files { config, lock: lock_file });
            serve(config, lock, files, options)
        }
        (Err(why), _) | (_, Err(why)) => Ok(refuse(&why)),
    }
}

/// The arguments before the first `--`, with the program's name, and those after it.
fn split(args: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
    let mut parts = args.splitn(2, |arg| arg == "--");
    let flags = std::iter::once(OsString::from("longhaul gateway"));
    let flags = flags.chain(parts.next().unwrap_or_default().iter().cloned()).collect();
    (flags, parts.next().unwrap_or_default().to_vec())
}

/// The variables of `--tool-env` and `--secret`.
fn named(options: &Options) -> anyhow::Result<BTreeMap<String, String>> {
    let env = options.tool_env()?;
    let mut names: Vec<String> = Vec::new();
    for setting in [&table::TOOL_ENV, &table::SECRET] {
        names.extend(options.values().find(setting)?.unwrap_or_default().into_keys());
    }
    Ok(names.into_iter().filter_map(|name| env.find(&name).map(|value| (name.clone(), value.to_owned()))).collect())
}

fn serve(config: Config, lock: Option<Lock>, files: Option<Files>, options: Options) -> anyhow::Result<ExitCode> {
    let runtime = threads()?;
    // Before any server is started: an address that is taken must not cost a start of all of them.
    if let Err(error) = runtime.block_on(options.bind()) {
        return Ok(error.report());
    }
    let gateway = match runtime.block_on(start(config, lock)) {
        Ok(gateway) => gateway,
        Err(error) => return Ok(refuse(&error.to_string())),
    };
    let served = runtime.block_on(async {
        let serving = longhaul::serve(gateway.server().clone(), options);
        let served = match &files {
            Some(files) => tokio::select! {
                served = serving => served,
                () = reload::with_each_hangup(&gateway, files) => Ok(()),
            },
            // A command has no file that could be read again.
            None => serving.await,
        };
        gateway.stop().await;
        served
    });
    // Does not wait for work that still runs.
    runtime.shutdown_background();
    Ok(served.map_or_else(|error| error.report(), |()| ExitCode::SUCCESS))
}

async fn start(config: Config, lock: Option<Lock>) -> Result<Gateway, StartError> {
    match lock {
        Some(lock) => Gateway::locked(config, lock).await,
        None => Gateway::start(config).await,
    }
}

/// Prints the IAM policy that the external jobs of a configuration need: the actions on the resources that it names,
/// and nothing else. It asks AWS nothing.
#[derive(Parser)]
#[command(name = "longhaul gateway iam-policy", next_line_help = true)]
struct IamPolicy {
    /// The file that names the jobs.
    #[arg(long, value_name = "FILE", env = "LONGHAUL_CONFIG")]
    config: PathBuf,
}

/// `longhaul gateway iam-policy`. The first of `args` is the verb.
fn iam_policy(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let IamPolicy { config } = match parse(args) {
        Ok(arguments) => arguments,
        Err(code) => return Ok(code),
    };
    let policy = read_config(&config, |text| Config::iam_policy(text, &ProcessEnv));
    match policy {
        Ok(policy) => {
            let policy = serde_json::to_string_pretty(&policy).context("the policy cannot be written")?;
            Ok(out::result(&policy).map_or_else(|stop| out::report(&stop), |()| ExitCode::SUCCESS))
        }
        Err(why) => Ok(refuse(&why)),
    }
}
