//! First starts of servers that a package runner downloads, one at a time for each runner. Two that fill the same cache
//! at once damage it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// Commands that download what they start into a cache that they share.
const RUNNERS: [&str; 12] = ["bun", "bunx", "deno", "dnx", "npm", "npx", "pipx", "pnpm", "pnpx", "uv", "uvx", "yarn"];

/// The turn of one runner.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// The first starts that are under way. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstStarts(Arc<Mutex<BTreeMap<&'static str, Turn>>>);

impl FirstStarts {
    /// Waits while another server that the same runner downloads is starting for the first time. Any other command does
    /// not wait.
    pub(super) async fn alone(&self, command: &str) -> Option<OwnedMutexGuard<()>> {
        let runner = runner(command)?;
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(runner).or_default())
        };
        Some(turn.lock_owned().await)
    }
}

fn runner(command: &str) -> Option<&'static str> {
    let name = Path::new(command).file_name()?.to_str()?;
    RUNNERS.into_iter().find(|runner| *runner == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_known_by_the_last_part_of_its_path() {
        assert_eq!(runner("npx"), Some("npx"));
        assert_eq!(runner("/usr/local/bin/uvx"), Some("uvx"));
        assert_eq!(["node", "npx.py", "", "/"].map(runner), [None; 4]);
    }
}
