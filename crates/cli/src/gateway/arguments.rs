//! The input of the gateway's verbs: arguments, the configuration, the lock file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use longhaul::settings::ProcessEnv;
use longhaul_client::Credentials;
use longhaul_core::settings::read_text;
use longhaul_gateway::{Config, ConfigError, Lock};

use crate::credentials::Bearer;
use crate::limits::CONFIG_BYTES_MAX;
use crate::out;

/// The servers, or what to write to name them. A command sees the variables `named`.
pub(super) fn config(
    file: Option<&Path>,
    command: &[String],
    named: BTreeMap<String, String>,
) -> Result<Config, String> {
    match (file, command.split_first()) {
        (None, None) => {
            Err("name the servers with `--config FILE`, or one by the command that starts it, after `--`".to_owned())
        }
        (Some(_), Some(_)) => Err("there is both `--config` and a command after `--`: leave out one".to_owned()),
        (Some(file), None) => servers(file),
        (None, Some((program, args))) => Ok(Config::command(program, args.iter().cloned(), named, &ProcessEnv)),
    }
}

/// The servers of a file, with the sign-ins of this user.
pub(super) fn servers(file: &Path) -> Result<Config, String> {
    let config = read_config(file, |text| Config::from_json(text, &ProcessEnv))?;
    Ok(config.signed_in(|url| {
        let login = Bearer::of(url, format!("longhaul login {url}"))?;
        Some(Arc::new(login) as Arc<dyn Credentials>)
    }))
}

pub(super) fn read_config<T>(file: &Path, read: impl FnOnce(&str) -> Result<T, ConfigError>) -> Result<T, String> {
    let shown = file.display();
    let text = read_text(file, CONFIG_BYTES_MAX).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    read(&text).map_err(|error| format!("{shown} cannot be used:\n{error}"))
}

pub(super) fn read_lock(file: &Path) -> Result<Lock, String> {
    let shown = file.display();
    let text = read_text(file, CONFIG_BYTES_MAX)
        .map_err(|error| format!("{shown} cannot be read: {error}; `longhaul gateway lock` writes it"))?;
    Lock::from_json(&text).map_err(|error| format!("{shown} cannot be used: {error}"))
}

pub(super) fn threads() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads can be started")
}

pub(super) fn refuse(why: &str) -> ExitCode {
    out::say(&format!("error: {why}"));
    ExitCode::from(2)
}

/// The arguments of a verb; how the program ends if they are wrong, or ask for help.
pub(super) fn parse<T: Parser>(args: Vec<OsString>) -> Result<T, ExitCode> {
    T::try_parse_from(args).map_err(|error| out::usage(&error))
}
