//! Journals and entries as a faulty engine reads and writes them.

use longhaul_core::{Entry, EntryKind, Payload};
use longhaul_testkit::models::PlantedFault;

/// The journal that an attempt works with.
pub(super) fn as_read(fault: PlantedFault, mut journal: Vec<Entry>) -> Vec<Entry> {
    match fault {
        PlantedFault::StepRunAgain => journal.retain(|entry| entry.kind != EntryKind::Step),
        PlantedFault::TriesForgotten => journal.retain(|entry| entry.kind != EntryKind::Try),
        PlantedFault::AnswerAskedAgain => journal.retain(|entry| entry.kind != EntryKind::Answer),
        PlantedFault::PollIntervalRestarts => journal.retain(|entry| !says_since(entry)),
        PlantedFault::LosersForgotten => journal.iter_mut().for_each(|entry| forget_losers(&mut entry.value)),
        PlantedFault::SleepCutShort => {
            for timer in journal.iter_mut().filter(|entry| entry.kind == EntryKind::Timer) {
                timer.value = Payload::Inline("0".to_owned());
            }
        }
        _ => {}
    }
    journal
}

/// Whether the entry says when an interval between polls began.
pub(super) fn says_since(entry: &Entry) -> bool {
    entry.kind == EntryKind::Timer && entry.name.starts_with("since ")
}

/// The record of a race in which the first branch won, with the second one as the winner.
pub(super) fn other_winner(entry: &Entry) -> Option<Entry> {
    let Payload::Inline(text) = &entry.value else { return None };
    let rest = text.strip_prefix(r#"{"won":0"#)?;
    Some(Entry { value: Payload::Inline(format!(r#"{{"won":1{rest}"#)), ..entry.clone() })
}

/// Leaves the winner in the record of a race, and removes what the other branches had seen.
fn forget_losers(value: &mut Payload) {
    if let Payload::Inline(text) = value
        && text.starts_with(r#"{"won":"#)
        && let Some(end) = text.find(',')
    {
        text.truncate(end);
        text.push('}');
    }
}
