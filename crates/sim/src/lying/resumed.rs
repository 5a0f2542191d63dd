//! A task that continues a failed one, as a faulty engine creates it.

use longhaul_core::ports::{ApplyError, NewEntry, NewTask, StoreError, TaskStore};
use longhaul_core::{Entry, EntryKind, Payload, TaskEvent, TaskKey, Timestamp};
use longhaul_testkit::models::PlantedFault;

/// The new task as the engine with the mistake would create it.
pub(super) async fn as_resumed(
    fault: PlantedFault,
    store: &dyn TaskStore,
    mut new: NewTask,
    now: Timestamp,
) -> Result<NewTask, StoreError> {
    let Some(failed) = new.task.resumes.as_ref().map(|resumes| TaskKey::new(new.task.owner, resumes.task)) else {
        return Ok(new);
    };
    let mut journal = new.journal.to_vec();
    match fault {
        PlantedFault::ResumedTwice => new.idempotency = None,
        PlantedFault::ResumedIsForgotten => {
            if let Err(ApplyError::Store(error)) = store.apply(&failed, &TaskEvent::Forget, now).await {
                return Err(error);
            }
        }
        PlantedFault::ResumedWithOneTooFew => {
            if let Some(last) = journal.iter().rposition(|new| new.entry.kind == EntryKind::Step) {
                journal.remove(last);
            }
        }
        PlantedFault::ResumedWithOneTooMany | PlantedFault::FailureTakenOver => {
            let has_failed = fault == PlantedFault::FailureTakenOver;
            let is_new = |entry: &Entry| !journal.iter().any(|new| new.entry.name == entry.name);
            let more = store.journal(&failed).await?.into_iter();
            let more = more.filter(|entry| is_new(entry) && is_step(entry) && fails(entry) == has_failed);
            let more: Vec<_> = more.map(|entry| NewEntry { entry, parts: Vec::new() }).collect();
            journal.extend(more);
        }
        _ => {}
    }
    new.journal = journal.into();
    Ok(new)
}

fn is_step(entry: &Entry) -> bool {
    entry.kind == EntryKind::Step && matches!(entry.value, Payload::Inline(_))
}

fn fails(entry: &Entry) -> bool {
    matches!(&entry.value, Payload::Inline(text) if text.starts_with(r#"{"dev.longhaul/failed":"#))
}
