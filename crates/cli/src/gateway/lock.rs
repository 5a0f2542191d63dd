//! `longhaul gateway lock`: pins the lists of the servers to a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use longhaul_gateway::Lock;

use super::arguments::{config, parse, read_lock, refuse, threads};
use crate::exit::{Exit, Stop};
use crate::out;

/// Asks every server for its tools, prompts and resources, and writes them to a file. A gateway with `--lock` shows
/// these and no others, and starts without its servers.
#[derive(Parser)]
#[command(name = "longhaul gateway lock", next_line_help = true)]
struct Arguments {
    /// The file that names the servers.
    #[arg(long, value_name = "FILE", env = "LONGHAUL_CONFIG", conflicts_with = "command")]
    config: Option<PathBuf>,
    /// The file to write [default: the one of --config with the ending .lock.json, such as mcp.lock.json]
    #[arg(long, value_name = "FILE", env = "LONGHAUL_LOCK")]
    lock: Option<PathBuf>,
    /// Write nothing, show what has changed since the file was written, and end with exit code 1 if anything has.
    #[arg(long)]
    check: bool,
    /// The command that starts the only server, last and after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the verb. The first of `args` is its name.
pub(super) fn run(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let arguments: Arguments = match parse(args) {
        Ok(arguments) => arguments,
        Err(code) => return Ok(code),
    };
    let config = match config(arguments.config.as_deref(), &arguments.command, BTreeMap::new()) {
        Ok(config) => config,
        Err(why) => return Ok(refuse(&why)),
    };
    let file = file(&arguments);
    let old = match file.try_exists()? || arguments.check {
        true => match read_lock(&file) {
            Ok(lock) => Some(lock),
            // It is about to be replaced.
            Err(_) if !arguments.check => None,
            Err(why) => return Ok(refuse(&why)),
        },
        false => None,
    };
    let lock = match threads()?.block_on(Lock::read(&config)) {
        Ok(lock) => lock,
        Err(error) => return Ok(refuse(&error.to_string())),
    };
    let diff = old.map(|old| old.diff(&lock)).unwrap_or_default();
    let done = if arguments.check { check(&file, &diff) } else { write(&file, &lock, &diff) };
    Ok(done.map_or_else(|stop| out::report(&stop), |()| ExitCode::SUCCESS))
}

fn file(arguments: &Arguments) -> PathBuf {
    match (&arguments.lock, &arguments.config) {
        (Some(file), _) => file.clone(),
        (None, Some(config)) => config.with_extension("lock.json"),
        (None, None) => PathBuf::from("mcp.lock.json"),
    }
}

fn check(file: &Path, diff: &str) -> Result<(), Stop> {
    let shown = file.display();
    if diff.is_empty() {
        return out::result(&format!("{shown} matches the servers"));
    }
    let why = format!("{shown} does not match the servers; if it should, run `longhaul gateway lock`");
    // The exit code says it too, if the differences cannot be written.
    drop(out::result(diff.trim_end()));
    Err(Stop::new(Exit::Unexpected, why))
}

/// Writes the file before it says so: a reader that has gone does not stop that.
fn write(file: &Path, lock: &Lock, diff: &str) -> Result<(), Stop> {
    let shown = file.display();
    replace(file, &lock.to_json())
        .map_err(|error| Stop::new(Exit::Unexpected, format!("{shown} cannot be written: {error}")))?;
    if !diff.is_empty() {
        out::result(diff.trim_end())?;
    }
    out::result(&format!("{shown} has {} tools", lock.tools()))
}

/// Writes the file so that there is always a complete one.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let mut written = std::fs::File::create(&new)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    std::fs::rename(new, file)
}
