//! A list of tokens where it is kept, and one change of it that loses no other one's.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_gateway::jobs::{Aws, ParameterError};
use longhaul_http::{BearerTokens, TokensError, read_token_file};

use crate::args::TokenList;
use crate::exit::{Exit, Stop};

/// The first line of a new list. A list without tokens still has it: an empty one counts as broken off.
const HEAD: &str = "# NAME TOKEN [owner=OWNER] [expires=TIME] [SCOPE...], written by `longhaul token`\n";

/// The longest value of a parameter.
const PARAMETER_BYTES_MAX: usize = 8 * 1024;

/// Changes of other people that one change of a parameter gives way to.
const TRIES_MAX: usize = 5;

/// A change of a list.
pub(super) enum Change<'a> {
    Add { name: &'a str, line: &'a str },
    Remove { names: &'a [String] },
}

impl Change<'_> {
    /// The list after this change.
    fn of(&self, text: &str, tokens: &BearerTokens) -> Result<String, Stop> {
        let has = |name: &str| tokens.entries().iter().any(|entry| entry.name == name);
        match self {
            Self::Add { name, .. } if has(name) => Err(Stop::usage(format!(
                "there is a token with the name `{name}` already: choose another name, or revoke that one first"
            ))),
            Self::Add { line, .. } => {
                let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                Ok(format!("{text}{end}{line}\n"))
            }
            Self::Remove { names } => {
                if let Some(unknown) = names.iter().find(|name| !has(name)) {
                    let why = format!("there is no token `{unknown}`: `longhaul token list` shows all");
                    return Err(Stop::usage(why));
                }
                let stays = |line: &&str| {
                    let name = line.split_whitespace().next();
                    name.is_none_or(|name| !names.iter().any(|gone| gone == name))
                };
                let left: String = text.lines().filter(stays).map(|line| format!("{line}\n")).collect();
                Ok(if left.trim().is_empty() { HEAD.to_owned() } else { left })
            }
        }
    }
}

/// Where a list is.
pub(super) enum List {
    File(PathBuf),
    Parameter { name: String, aws: Arc<Aws> },
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Parameter { name, .. } => write!(f, "the parameter {name}"),
        }
    }
}

impl List {
    pub(super) fn of(named: &TokenList) -> Self {
        match (&named.parameter, &named.file) {
            (Some(name), _) => Self::Parameter { name: name.clone(), aws: Aws::from_environment() },
            (None, file) => Self::File(file.clone().unwrap_or_default()),
        }
    }

    /// The beginning of a sentence about when a change works.
    pub(super) const fn accepts(&self) -> &'static str {
        match self {
            Self::File(_) => "the server accepts it",
            Self::Parameter { .. } => "the stack accepts it",
        }
    }

    /// Why its content cannot be used.
    pub(super) fn unusable(&self, error: &TokensError) -> Stop {
        Stop::usage(format!("{self} cannot be used: {error}"))
    }

    /// The text of the list, which is that of one without tokens if there is none.
    pub(super) async fn read(&self) -> Result<String, Stop> {
        match self {
            Self::File(file) => self.in_file(file),
            Self::Parameter { name, aws } => {
                let found = aws.parameter(name).await.map_err(|error| self.unread(&error))?;
                Ok(found.map_or_else(|| HEAD.to_owned(), |found| found.value))
            }
        }
    }

    pub(super) async fn change(&self, change: &Change<'_>) -> Result<(), Stop> {
        match self {
            Self::File(file) => self.change_file(file, change),
            Self::Parameter { name, aws } => self.change_parameter(name, aws, change).await,
        }
    }

    fn changed(&self, text: &str, change: &Change<'_>) -> Result<String, Stop> {
        let tokens = BearerTokens::parse(text.as_bytes()).map_err(|error| self.unusable(&error))?;
        let changed = change.of(text, &tokens)?;
        BearerTokens::parse(changed.as_bytes()).map_err(|error| self.unusable(&error))?;
        match self {
            Self::Parameter { .. } if changed.len() > PARAMETER_BYTES_MAX => Err(Stop::usage(format!(
                "{self} has room for {PARAMETER_BYTES_MAX} bytes, which are about 60 tokens: revoke some, or use \
                 AuthMode=oauth"
            ))),
            Self::Parameter { .. } | Self::File(_) => Ok(changed),
        }
    }

    fn in_file(&self, file: &Path) -> Result<String, Stop> {
        match read_token_file(file) {
            Ok(bytes) => {
                let text = longhaul_core::settings::text_of(bytes);
                text.map_err(|error| self.unusable(&TokensError::NotText(error.to_string())))
            }
            Err(TokensError::Io(error)) if error.kind() == ErrorKind::NotFound => Ok(HEAD.to_owned()),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    /// Replaces the file as a whole, so that a server never reads half of it.
    fn change_file(&self, file: &Path, change: &Change<'_>) -> Result<(), Stop> {
        let unwritten = |error: std::io::Error| Stop::usage(format!("{self} cannot be written: {error}"));
        // The target of a link is replaced, and not the link.
        let file = file.canonicalize().unwrap_or_else(|_new| file.to_owned());
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // One command at a time, until the end of this function.
        let turn = std::fs::File::open(folder).map_err(unwritten)?;
        turn.lock().map_err(unwritten)?;
        let changed = self.changed(&self.in_file(&file)?, change)?;
        // Such a file has the mode 0600.
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(unwritten)?;
        new.write_all(changed.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(unwritten)?;
        new.persist(&file).map_err(|error| unwritten(error.error))?;
        Ok(())
    }

    /// SSM has no conditional write, but each write returns the number of its version. If another change came between
    /// reading and writing, this one is made again, to the version that the other one wrote.
    async fn change_parameter(&self, name: &str, aws: &Aws, change: &Change<'_>) -> Result<(), Stop> {
        let unread = |error| self.unread(&error);
        let unwritten = |error: ParameterError| Stop::new(Exit::Failed, format!("{self} cannot be written: {error}"));
        let mut found = aws.parameter(name).await.map_err(unread)?;
        let read = found.as_ref().map_or(0, |found| found.version);
        let mut latest = read;
        for _ in 0..TRIES_MAX {
            let text = found.as_ref().map_or(HEAD, |found| &found.value);
            let changed = self.changed(text, change);
            if changed.is_err() && latest != read {
                // This change does not go with the one that came between, which is put back.
                aws.replace_parameter(name, text).await.map_err(unwritten)?;
            }
            let written = match &found {
                Some(_) => aws.replace_parameter(name, &changed?).await,
                None => aws.create_parameter(name, &changed?).await,
            };
            let written = written.map_err(unwritten)?;
            if written == latest + 1 {
                return Ok(());
            }
            latest = written;
            found = aws.parameter(&format!("{name}:{}", written - 1)).await.map_err(unread)?;
        }
        Err(Stop::new(Exit::Failed, format!("{self} changes all the time: try again, and check the list afterwards")))
    }

    fn unread(&self, error: &ParameterError) -> Stop {
        Stop::new(Exit::Failed, format!("{self} cannot be read: {error}"))
    }
}
