//! The lists of the servers in a file. A gateway that has it starts without its servers, and shows the lists that an
//! operator has read before.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use longhaul_core::strict_json;
use longhaul_core::verbatim::{Layout, laid_out};
use serde::{Deserialize, Serialize};

use crate::Config;
use crate::catalog::{Listed, unmatched};
use crate::lists::list;
use crate::start_error::{Problem, StartError};
use crate::upstream::process::Groups;
use crate::upstream::{self, Upstream};

mod diff;

/// The version of the file's form.
const VERSION: u32 = 1;

/// The lists of every server of a configuration: its tools, prompts and resources, and the revision that it speaks.
///
/// ```no_run
/// use longhaul::settings::ProcessEnv;
/// use longhaul_gateway::{Config, Gateway, Lock};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::from_json(&std::fs::read_to_string("mcp.json")?, &ProcessEnv)?;
/// // Once, at a desk:
/// std::fs::write("mcp.lock.json", Lock::read(&config).await?.to_json())?;
/// // And at every start:
/// let lock = Lock::from_json(&std::fs::read_to_string("mcp.lock.json")?)?;
/// let gateway = Gateway::locked(config, lock).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Lock {
    version: u32,
    pub(crate) servers: BTreeMap<String, Listed>,
}

/// Why a text is not a lock file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// It does not have the form that [`Lock::to_json`] writes.
    #[error("it is not a lock file; `longhaul gateway lock` writes a new one")]
    Json(#[source] serde_json::Error),
    /// A later version of Longhaul has written it.
    #[error("it is of version {0}, and this program reads version {VERSION}: write it again, or use the newer program")]
    Version(u32),
}

impl Lock {
    /// Reads the lists of every server.
    pub async fn read(config: &Config) -> Result<Self, StartError> {
        let listed = list_all(config).await?;
        let problems = config.servers.iter().zip(&listed).flat_map(|(server, listed)| unmatched(listed, server));
        StartError::unless_none(problems.collect())?;
        let chosen = config.servers.iter().zip(listed).map(|(server, mut listed)| {
            listed.choice.clone_from(&server.choice);
            (server.name.clone(), listed)
        });
        Ok(Self { version: VERSION, servers: chosen.collect() })
    }

    /// Reads a text that [`to_json`](Self::to_json) has written.
    pub fn from_json(text: &str) -> Result<Self, LockError> {
        /// Read first, because the rest may have another form.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = strict_json::from_str(text).map_err(LockError::Json)?;
        if head.version != VERSION {
            return Err(LockError::Version(head.version));
        }
        strict_json::from_str(text).map_err(LockError::Json)
    }

    /// That of a configuration without servers.
    #[cfg(feature = "lambda")]
    pub(crate) fn empty() -> Self {
        Self { version: VERSION, servers: BTreeMap::new() }
    }

    /// The text of the file, for people and for version control: the same lists give the same text.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Everything in it has come from JSON.
        let mut text = laid_out(&serde_json::to_string(self).unwrap_or_default(), Layout::Lines);
        text.push('\n');
        text
    }

    /// How many tools they have together.
    #[must_use]
    pub fn tools(&self) -> usize {
        self.servers.values().map(|listed| listed.tools.len()).sum()
    }

    /// The changes between these lists and newer ones, for people. A thing that came or went has one line. A thing that
    /// reads differently has its old and its new lines, with `-` and `+`. Characters that a terminal does not show, or
    /// obeys, are escaped. Empty if nothing has changed. Resources are not compared: they are data.
    #[must_use]
    pub fn diff(&self, now: &Self) -> String {
        diff::of(&self.servers, &now.servers)
    }
}

/// The lists of all servers, read at the same time. Waits until their processes have ended.
async fn list_all(config: &Config) -> Result<Vec<Listed>, StartError> {
    let groups = Groups::default();
    let upstreams: Vec<_> =
        config.servers.iter().map(|server| Arc::new(Upstream::new(server, groups.clone()))).collect();
    let read = join_all(upstreams.iter().map(|upstream| list(upstream))).await;
    upstream::stop(&upstreams, &groups).await;
    let (mut listed, mut problems) = (Vec::new(), Vec::new());
    for list in read {
        match list {
            Ok(list) => listed.push(list),
            Err(why) => problems.push(Problem::Server(why)),
        }
    }
    StartError::unless_none(problems)?;
    let empty = listed.iter().zip(&upstreams).filter(|(listed, _)| listed.is_empty());
    let empty = empty.map(|(_, upstream)| Problem::Empty(upstream.name().to_owned())).collect();
    StartError::unless_none(empty).map(|()| listed)
}
