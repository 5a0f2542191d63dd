//! What the server's code that cleans up returned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_engine::{Attempt, AttemptEnd, Cleaned, Ended, ToolRunner};

/// A runner whose cleanups are noted.
pub(super) struct Cleanups {
    runner: Arc<dyn ToolRunner>,
    seen: Mutex<Vec<Result<(), String>>>,
}

impl Cleanups {
    pub(super) const fn of(runner: Arc<dyn ToolRunner>) -> Self {
        Self { runner, seen: Mutex::new(Vec::new()) }
    }

    /// What each of them returned.
    pub(super) fn seen(&self) -> Vec<Result<(), String>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Result<(), String>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ToolRunner for Cleanups {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        self.runner.run(attempt).await
    }

    async fn clean(&self, ended: &Ended) -> Cleaned {
        let cleaned = self.runner.clean(ended).await;
        match &cleaned {
            Cleaned::Done => self.lock().push(Ok(())),
            Cleaned::Failed { reason } => self.lock().push(Err(reason.clone())),
            Cleaned::NoSuchTool => {}
        }
        cleaned
    }
}
