//! Clients that read filtered lists.

use longhaul_core::{Status, TaskFilter};

use super::checks::Observation;
use super::clients::Client;

/// Filtered lists that a reader reads; enough for all of a world's first part, and few enough to end.
const FILTERED_LISTS: u32 = 40;

/// Tasks on a page of a filtered list: so few that there are several pages.
const FILTERED_PAGE: usize = 2;

impl Client {
    /// Reads filtered lists for a while.
    pub(crate) async fn read_filtered_lists(self) {
        let Some(every_ms) = self.world.plan.filtered_lists_ms else { return };
        for number in 0..FILTERED_LISTS {
            self.world.kernel.sleep(every_ms).await;
            let unfinished = [Status::Working, Status::InputRequired];
            let statuses: &[Status] = match number % 3 {
                0 => &unfinished,
                1 => &[Status::Completed],
                _ => &Status::ALL,
            };
            let filter = TaskFilter { statuses: statuses.iter().copied().collect(), ..TaskFilter::default() };
            self.read_filtered_list(&filter).await;
        }
    }

    /// Reads all pages, unless one of them cannot be had.
    async fn read_filtered_list(&self, filter: &TaskFilter) {
        let (owner, mut before, mut seen) = (self.owner, None, Vec::new());
        let mut since = None;
        loop {
            let page =
                self.request(|engine| async move { engine.list_filtered(&owner, filter, before, FILTERED_PAGE).await });
            let Some((observed, Ok(page))) = page.await else { return };
            let first = *since.get_or_insert(observed);
            let mut state = self.world.lock();
            for task in &page.tasks {
                state.checks.observed_task(observed, task);
            }
            seen.extend(page.tasks);
            before = page.next;
            // A list that repeats itself has no end.
            if before.is_none() || seen.len() > 100 {
                let whole = Observation { at_ms: observed.at_ms, ..first };
                state.checks.observed_filtered_list(whole, filter, &seen);
                return;
            }
        }
    }
}
