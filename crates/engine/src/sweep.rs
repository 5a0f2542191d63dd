//! Looking after tasks that nobody polls.

use longhaul_core::ports::{StoreError, UnfinishedTasks};

use crate::Engine;

/// How many tasks are read at a time.
const PAGE_MAX: usize = 256;

/// How many tasks one sweep reads.
const SWEPT_MAX: usize = 1 << 20;

/// What a sweep has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Unfinished tasks.
    pub seen: usize,
    /// Those of them that were stuck, and are not any more.
    pub recovered: usize,
}

impl Engine {
    /// Does for every unfinished task what a poll of it would do: sends a lost message again, ends what is past its
    /// deadline. So no task needs a client that asks for it.
    ///
    /// # Errors
    /// [`StoreError`] if the tasks could not be read: those that were read before are looked after.
    pub async fn sweep(&self, tasks: &dyn UnfinishedTasks) -> Result<Swept, StoreError> {
        let (mut swept, mut after) = (Swept::default(), None);
        while swept.seen < SWEPT_MAX {
            let page = self.with_retry(|| tasks.unfinished(after, PAGE_MAX, self.now())).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key());
            swept.seen += page.len();
            for task in page {
                let before = (task.resends, task.has_ended());
                let after = self.recover(task).await;
                swept.recovered += usize::from(before != (after.resends, after.has_ended()));
            }
        }
        Ok(swept)
    }
}
