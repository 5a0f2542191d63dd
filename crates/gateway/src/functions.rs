//! The gateway as two Lambda functions.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use longhaul::ToolEnv;
use longhaul::lambda::{ApiFunction, WorkerFunction};
use longhaul::settings::{EnvSource, ProcessEnv, Values};

use crate::config::in_function::{self, Role};
use crate::{Gateway, Lock, settings};

/// All of the `main` of the API function. It starts no server, because the lock file has their lists. It serves
/// prompts, resources and completions of servers behind URLs for which it needs no secrets.
#[must_use]
pub fn api() -> ExitCode {
    let run = || {
        let function = ApiFunction::from_env(&settings::ALL)?;
        let gateway = gateway(function.values(), function.tool_env()?, Role::Api)?;
        Ok(function.run(gateway.server())?)
    };
    exit_code(run())
}

/// All of the `main` of the worker function, which calls the tools, and of the function that takes dead letters.
#[must_use]
pub fn worker() -> ExitCode {
    let run = || {
        let function = WorkerFunction::from_env(&settings::ALL)?;
        let gateway = gateway(function.values(), function.tool_env()?, Role::Worker)?;
        Ok(function.run(gateway.server())?)
    };
    exit_code(run())
}

fn gateway(values: &Values, env: ToolEnv, role: Role) -> anyhow::Result<Gateway> {
    let (text, shown) = match values.find(&settings::CONFIG_JSON)? {
        Some(text) => (text, settings::CONFIG_JSON.variable().to_owned()),
        None => {
            let file = values.get(&settings::CONFIG)?;
            (read(&file, "put it into the bundle, or name `config-json` in Settings")?, file.display().to_string())
        }
    };
    let config = in_function::read(&text, &Env(env), role).with_context(|| format!("{shown} cannot be used"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().context("no threads can be started")?;
    if config.servers.is_empty() {
        // Jobs are known from the configuration alone.
        return Ok(runtime.block_on(Gateway::locked(config, Lock::empty()))?);
    }
    let file = values.get(&settings::LOCK)?;
    let lock = read(&file, "write it with `longhaul gateway lock`, and put it into the bundle")?;
    let lock = Lock::from_json(&lock).with_context(|| format!("{} cannot be used", file.display()))?;
    Ok(runtime.block_on(Gateway::locked(config, lock))?)
}

/// More is not read from a configuration or a lock file.
const FILE_BYTES_MAX: u64 = 64 << 20;

fn read(file: &Path, otherwise: &str) -> anyhow::Result<String> {
    longhaul_core::settings::read_text(file, FILE_BYTES_MAX)
        .with_context(|| format!("{} cannot be read: {otherwise}", file.display()))
}

/// The values for `${…}` and the environment of child processes. It has the variables that the operator named. From the
/// function's own environment it has only those that programs need to run, and not the function's credentials.
struct Env(ToolEnv);

impl EnvSource for Env {
    fn get(&self, name: &str) -> Option<OsString> {
        match (self.0.find(name), name) {
            (Some(value), _) => Some(value.into()),
            (None, "LANG" | "LD_LIBRARY_PATH" | "PATH") => ProcessEnv.get(name),
            // The only folder in which a function may write.
            (None, "HOME") => Some("/tmp".into()),
            (None, _) => None,
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is the output of the program for who started it")]
fn exit_code(end: anyhow::Result<()>) -> ExitCode {
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
