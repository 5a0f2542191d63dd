//! `longhaul gateway lock`: pins what the servers have to a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use longhaul_gateway::Lock;

use super::{config, parse, read_lock, refuse, threads};

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

/// Does it. The first of `args` is the verb.
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
    if arguments.check { check(&file, &diff) } else { write(&file, &lock, &diff) }
}

fn file(arguments: &Arguments) -> PathBuf {
    match (&arguments.lock, &arguments.config) {
        (Some(file), _) => file.clone(),
        (None, Some(config)) => config.with_extension("lock.json"),
        (None, None) => PathBuf::from("mcp.lock.json"),
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the output of the program for its user")]
fn check(file: &Path, diff: &str) -> anyhow::Result<ExitCode> {
    let shown = file.display();
    if diff.is_empty() {
        println!("{shown} is what the servers have");
        return Ok(ExitCode::SUCCESS);
    }
    print!("{diff}");
    eprintln!("error: {shown} is not what the servers have; if it should be, run `longhaul gateway lock`");
    Ok(ExitCode::FAILURE)
}

#[expect(clippy::print_stdout, reason = "this is the output of the program for its user")]
fn write(file: &Path, lock: &Lock, diff: &str) -> anyhow::Result<ExitCode> {
    print!("{diff}");
    replace(file, &lock.to_json()).with_context(|| format!("{} cannot be written", file.display()))?;
    println!("{} has {} tools", file.display(), lock.tools());
    Ok(ExitCode::SUCCESS)
}

/// Writes the file so that there is always one that is whole.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let mut written = std::fs::File::create(&new)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    std::fs::rename(new, file)
}
