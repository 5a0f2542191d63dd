//! The environment of tools, on a local server.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use longhaul_core::settings::{EnvSource, SettingsError, Values, table};

use crate::ToolEnv;
use crate::serve::limits::SECRET_BYTES_MAX;

/// Why the environment of tools cannot be read. The error repeats no part of a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolEnvError {
    /// A setting cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A secret has no source.
    #[error(
        "the secret `{name}` has no source: write `--secret {name}=file:PATH` for the text in a file, or \
         `--secret {name}=env:VARIABLE` for that of an environment variable"
    )]
    NoSource {
        /// Its name.
        name: String,
    },
    /// Something is set both as a secret and not.
    #[error("`{name}` is named with --tool-env and with --secret: leave one of them out")]
    Twice {
        /// Its name.
        name: String,
    },
    /// The file of a secret cannot be read.
    #[error("the secret `{name}` cannot be read from {}", path.display())]
    File {
        /// Its name.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The environment variable of a secret is missing, or no text.
    #[error("the secret `{name}` cannot be read: the environment variable {variable} is not set, or is not UTF-8")]
    Variable {
        /// Its name.
        name: String,
        /// The variable.
        variable: String,
    },
}

/// The values of `values`, and of the sources that they name.
pub(super) fn read(values: &Values, env: &dyn EnvSource) -> Result<ToolEnv, ToolEnvError> {
    let mut all = values.find(&table::TOOL_ENV)?.unwrap_or_default();
    for (name, source) in values.find(&table::SECRET)?.unwrap_or_default() {
        let text = secret(&name, &source, env)?;
        if all.insert(name.clone(), text).is_some() {
            return Err(ToolEnvError::Twice { name });
        }
    }
    Ok(all.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
}

fn secret(name: &str, source: &str, env: &dyn EnvSource) -> Result<String, ToolEnvError> {
    let name = name.to_owned();
    match source.split_once(':') {
        Some(("file", path)) if !path.is_empty() => {
            text_of(Path::new(path)).map_err(|cause| ToolEnvError::File { name, path: path.into(), cause })
        }
        Some(("env", variable)) if !variable.is_empty() => {
            let text = env.get(variable).and_then(|text| text.into_string().ok());
            text.ok_or_else(|| ToolEnvError::Variable { name, variable: variable.to_owned() })
        }
        _ => Err(ToolEnvError::NoSource { name }),
    }
}

/// The text in a file, without the end of its last line, which editors add.
pub(super) fn text_of(path: &Path) -> io::Result<String> {
    let text = longhaul_core::settings::read_text(path, SECRET_BYTES_MAX)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::ffi::OsString;

    use super::*;
    use crate::serve::{CommandLine, Options};

    fn options(args: &[&str], env: &BTreeMap<&str, &str>) -> Options {
        CommandLine::default().read(std::iter::once("local").chain(args.iter().copied()), env).unwrap()
    }

    fn tool_env(args: &[&str]) -> Result<ToolEnv, ToolEnvError> {
        let env = BTreeMap::from([("REAL_TOKEN", "hunter2")]);
        read(options(args, &env).values(), &env)
    }

    #[test]
    fn tools_read_what_was_named_and_nothing_else_of_the_environment() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "correct horse\n").unwrap();
        let password = format!("PASSWORD=file:{}", file.path().display());
        let args = ["--tool-env", "BUCKET=reports,URL=https://a.example/?b=c", "--secret", &password];
        let env = tool_env(&[&args[..], &["--secret", "TOKEN=env:REAL_TOKEN"]].concat()).unwrap();
        let expected = [("BUCKET", "reports"), ("URL", "https://a.example/?b=c"), ("PASSWORD", "correct horse")];
        assert_eq!(env, expected.into_iter().chain([("TOKEN", "hunter2")]).collect());
    }

    #[test]
    fn a_secret_that_cannot_be_read_is_named_with_what_to_do_and_is_not_shown() {
        for (args, said) in [
            (&["--secret", "PASSWORD=hunter2"][..], "`--secret PASSWORD=file:PATH`"),
            (&["--secret", "PASSWORD=file:/does/not/exist"], "cannot be read from /does/not/exist"),
            (&["--secret", "PASSWORD=env:NOT_SET"], "NOT_SET is not set"),
            (&["--secret", "A=env:REAL_TOKEN", "--tool-env", "A=b"], "leave one of them out"),
        ] {
            let refused = tool_env(args).unwrap_err();
            assert!(refused.to_string().contains(said), "{refused}");
            let all = format!("{refused} {refused:?} {:?}", refused.source());
            assert!(!all.contains("hunter2"), "{all}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_shown_by_no_error_and_no_debug_output() {
        let args = ["local", "--secret", "my-password=hunter2"].map(OsString::from);
        let refused = CommandLine::default().read(args, &BTreeMap::new()).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused}");
        let options = options(&["--secret", "PASSWORD=hunter2", "--tool-env", "A=hunter2"], &BTreeMap::new());
        assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    }
}
