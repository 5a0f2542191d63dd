//! No unfinished task needs a client that polls it.

use async_trait::async_trait;
use longhaul_core::ports::{StoreError, TaskStore, UnfinishedTasks};
use longhaul_core::{Status, Task, TaskKey, Timestamp, limits};
use longhaul_engine::Swept;

use crate::world::{World, ann, call};

/// The unfinished tasks of Ann.
struct OfAnn<'a>(&'a World);

#[async_trait]
impl UnfinishedTasks for OfAnn<'_> {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        let mut tasks = self.0.store.list(&ann(), None, limits::PAGE_MAX, now).await?.tasks;
        tasks.retain(|task| !task.has_ended() && after.is_none_or(|after| task.key() > after));
        tasks.sort_by_key(|task| task.key());
        tasks.truncate(max);
        Ok(tasks)
    }
}

#[tokio::test]
async fn a_sweep_sends_a_message_that_may_be_lost_again_and_leaves_young_tasks_alone() {
    let world = World::new();
    let task = world.engine.accept(call()).await.unwrap().into_task();
    assert_eq!(world.delays().len(), 1);
    assert_eq!(world.engine.sweep(&OfAnn(&world)).await.unwrap(), Swept { seen: 1, recovered: 0 });
    world.clock.advance_ms(world.engine.settings().resend_ms);
    assert_eq!(world.engine.sweep(&OfAnn(&world)).await.unwrap(), Swept { seen: 1, recovered: 1 });
    assert_eq!(world.delays().len(), 1);
    assert_eq!(world.on_record(&task.key()).await.resends, 1);
    assert_eq!(world.engine.sweep(&OfAnn(&world)).await.unwrap(), Swept { seen: 1, recovered: 0 });
}

#[tokio::test]
async fn a_sweep_ends_what_is_past_its_deadline() {
    let world = World::new();
    let task = world.engine.accept(call()).await.unwrap().into_task();
    world.clock.advance_to(task.deadline());
    assert_eq!(world.engine.sweep(&OfAnn(&world)).await.unwrap(), Swept { seen: 1, recovered: 1 });
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Failed);
    assert_eq!(world.engine.sweep(&OfAnn(&world)).await.unwrap(), Swept::default());
}

#[tokio::test]
async fn a_sweep_sees_more_tasks_than_a_page_has() {
    let world = World::new();
    for _ in 0..70 {
        world.engine.accept(call()).await.unwrap();
    }
    let swept = world.engine.sweep(&InPages(OfAnn(&world))).await.unwrap();
    assert_eq!(swept.seen, 70);
}

/// The same in small pages.
struct InPages<'a>(OfAnn<'a>);

#[async_trait]
impl UnfinishedTasks for InPages<'_> {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        self.0.unfinished(after, max.min(16), now).await
    }
}
