//! The promise of the list of all owners' tasks, for a store that has one.

use longhaul_core::ports::TaskStore;
use longhaul_core::{Status, Task, TaskFilter, TaskId, Timestamp};

use crate::SeededIds;
use crate::given::{self, NOW, owner};

/// All pages of a list.
async fn listed(store: &dyn TaskStore, filter: &TaskFilter, limit: usize, now: Timestamp) -> Vec<TaskId> {
    let (mut all, mut before) = (Vec::new(), None);
    for _ in 0..200 {
        let page = store.list_of_all_owners(filter, before, limit, now).await.unwrap();
        let page = page.expect("the store has a list of all owners");
        assert!(page.tasks.len() <= limit);
        all.extend(page.tasks.iter().map(|task| task.id));
        if page.next.is_none() {
            return all;
        }
        before = page.next;
    }
    panic!("the list has no end")
}

/// Promise: the list has each unexpired task of every owner that its filter takes, once, newest first, in pages of any
/// size.
pub async fn a_list_of_all_owners_has_what_its_filter_takes(store: &dyn TaskStore) {
    let (ids, mut all) = (SeededIds::new(1), Vec::new());
    for number in 0_u64..42 {
        let at = NOW.plus_ms(number);
        // Some owners have tasks in a row, and one has a single old one.
        let of = if number == 0 { "zoe".to_owned() } else { format!("owner {}", number / 3 % 5) };
        let tool = if number % 2 == 0 { "add" } else { "wait" };
        let task = given::task_with(&ids, owner(&of), at, |record| {
            record.tool = tool.to_owned();
            let customer = if number % 3 == 0 { "acme" } else { "globex" };
            record.labels = given::labels(&[("customer", customer)]);
        });
        store.create(given::new(task.clone()), NOW).await.unwrap();
        let mut latest = task.clone();
        for event in match number % 7 {
            0 => vec![given::claim(1, at), given::asks(1, &["a"], None)],
            1 => vec![given::claim(1, at), given::finish(1, "{}")],
            2 => vec![given::claim(1, at), given::fail(1)],
            _ => vec![],
        } {
            latest = store.apply(&task.key(), &event, at).await.unwrap();
        }
        all.insert(0, latest);
    }
    let of = |filter: &TaskFilter| all.iter().filter(|task| filter.takes(task)).map(|task| task.id).collect::<Vec<_>>();
    let any = TaskFilter::default();
    let asks = TaskFilter { statuses: [Status::InputRequired].into(), ..TaskFilter::default() };
    let ended = TaskFilter {
        statuses: [Status::Failed, Status::Completed].into(),
        tool: Some("add".to_owned()),
        ..TaskFilter::default()
    };
    let labelled = TaskFilter { labels: given::labels(&[("customer", "acme")]), ..ended.clone() };
    for filter in [&any, &asks, &ended, &labelled] {
        for limit in [1, 4, 100] {
            assert_eq!(listed(store, filter, limit, NOW).await, of(filter), "{filter:?} {limit}");
        }
    }
    let last = all.iter().map(|task: &Task| task.expires_at).max().unwrap();
    assert_eq!(listed(store, &any, 100, last).await, [], "they have expired");
}
