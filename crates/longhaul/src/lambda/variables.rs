//! The values of `tool-env` as plain environment variables of a function, for tools that read those and for the
//! programs that tools start.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use longhaul_core::settings::{EnvSource, SettingsError, Values, table};

/// The beginnings of names that are the platform's or the server's.
const RESERVED: [&str; 4] = ["AWS_", "LAMBDA_", "LONGHAUL_", "_"];

/// These are the platform's, too.
const RESERVED_NAMES: [&str; 4] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "TZ"];

/// The values of `tool-env`. Refuses names that a function cannot have as variables.
pub(super) fn wanted(values: &Values) -> Result<BTreeMap<String, String>, SettingsError> {
    let wanted = values.find(&table::TOOL_ENV)?.unwrap_or_default();
    let Some(name) = wanted.keys().find(|name| is_reserved(name)) else { return Ok(wanted) };
    let why = format!("`{name}` is reserved by Lambda or Longhaul: take another name");
    Err(values.refuse(&table::TOOL_ENV, &wanted, &why))
}

fn is_reserved(name: &str) -> bool {
    RESERVED_NAMES.contains(&name) || RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

/// Starts the program of this function once more, in the same process, with the values as variables. Returns if it has
/// them, or cannot be started.
///
/// A program cannot change its own variables safely once it has threads, and its author may have started some.
pub(super) fn set(wanted: &BTreeMap<String, String>, env: &dyn EnvSource) -> io::Result<()> {
    if has(wanted, env) {
        return Ok(());
    }
    let program = std::env::current_exe()?;
    // It returns only if the program was not started.
    Err(Command::new(program).args(std::env::args_os().skip(1)).envs(wanted).exec())
}

/// Whether all of it is set.
fn has(wanted: &BTreeMap<String, String>, env: &dyn EnvSource) -> bool {
    wanted.iter().all(|(name, value)| env.get(name).is_some_and(|set| set == value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_platform_and_of_the_server_are_reserved() {
        for name in ["AWS_REGION", "LAMBDA_TASK_ROOT", "LONGHAUL_LOG", "_HANDLER", "PATH", "TZ"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["BUCKET", "REGION", "MY_AWS_REGION", "PATHS"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn a_program_that_has_its_variables_is_not_started_again() {
        let wanted = BTreeMap::from([("BUCKET".to_owned(), "reports".to_owned())]);
        assert!(has(&wanted, &BTreeMap::from([("BUCKET", "reports"), ("MORE", "x")])));
        assert!(!has(&wanted, &BTreeMap::from([("BUCKET", "other")])));
        assert!(!has(&wanted, &BTreeMap::<&str, &str>::new()));
        assert!(has(&BTreeMap::new(), &BTreeMap::<&str, &str>::new()));
    }
}
