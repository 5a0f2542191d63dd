//! The model of a store: what the port promises, in the plainest words, and with defects on demand.

use std::sync::Arc;

use longhaul_core::ports::{ApplyError, CreateError, Created, IdempotencyKey, Left, NewTask, Page, Recorded};
use longhaul_core::{
    Entry, EntryKind, MailboxId, OwnerId, PartsName, Refusal, Task, TaskEvent, TaskId, TaskKey, Timestamp,
};

use super::defect::Defect;

/// Tasks and what belongs to them.
#[derive(Default)]
pub(crate) struct StoreModel {
    rows: Vec<Row>,
    sides: Vec<Side>,
    keys: Vec<KeyRow>,
    open: Vec<(OwnerId, u32)>,
    mailboxes: Vec<Mailbox>,
    defect: Option<Defect>,
}

struct Row {
    task: Arc<Task>,
    before: Arc<Task>,
}

struct Side {
    key: TaskKey,
    journal: Vec<Entry>,
    parts: Vec<(PartsName, Vec<String>)>,
}

struct Mailbox {
    owner: OwnerId,
    id: MailboxId,
    text: String,
    expires_at: Timestamp,
}

#[derive(Clone, Copy)]
struct KeyRow {
    owner: OwnerId,
    key: IdempotencyKey,
    id: TaskId,
}

/// What an event did to a record.
pub(crate) struct Change {
    pub(crate) before: Arc<Task>,
    pub(crate) after: Arc<Task>,
}

impl StoreModel {
    pub(crate) fn with(defect: Option<Defect>) -> Self {
        Self { defect, ..Self::default() }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// The record, whatever the clock says.
    pub(crate) fn peek(&self, key: &TaskKey) -> Option<&Arc<Task>> {
        self.rows.iter().map(|row| &row.task).find(|task| task.key() == *key)
    }

    /// All records.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.rows.iter().map(|row| &row.task)
    }

    /// The journal entry, where there is one.
    pub(crate) fn entry(&self, key: &TaskKey, kind: EntryKind, name: &str) -> Option<&Entry> {
        let side = self.sides.iter().find(|side| side.key == *key)?;
        side.journal.iter().find(|entry| entry.kind == kind && entry.name == name)
    }

    pub(crate) fn create(&mut self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let key = new.task.key();
        if let Some(idempotency) = new.idempotency.filter(|_| !self.has(Defect::KeyForgotten)) {
            let any_owner = self.has(Defect::KeyOfAnyOwner);
            let same = |row: &&KeyRow| row.key.key == idempotency.key && (any_owner || row.owner == key.owner);
            let found = self.keys.iter().find(same).copied();
            if let Some((row, task)) =
                found.and_then(|row| Some((row, self.live(&TaskKey::new(row.owner, row.id), now)?)))
            {
                if row.key.request != idempotency.request && !self.has(Defect::KeyTakesAnyRequest) {
                    return Err(CreateError::KeyReused);
                }
                return Ok(Created::Existing(Task::clone(&task)));
            }
        }
        let taken = self.live(&key, now);
        if let Some(task) = taken.filter(|_| !self.has(Defect::CreateOverwrites)) {
            return Ok(Created::Existing(Task::clone(&task)));
        }
        if self.open_count(&key.owner) >= new.open_max {
            self.purge_owner(&key.owner, now);
            if self.open_count(&key.owner) >= new.open_max {
                return Err(CreateError::TooManyOpen { open_max: new.open_max });
            }
        }
        if let Some(idempotency) = new.idempotency {
            self.keys.retain(|row| !(row.owner == key.owner && row.key.key == idempotency.key));
            self.keys.push(KeyRow { owner: key.owner, key: idempotency, id: key.id });
        }
        let task = Arc::new(new.task);
        self.rows.retain(|row| row.task.key() != key);
        self.rows.push(Row { task: Arc::clone(&task), before: Arc::clone(&task) });
        if !self.has(Defect::OpenNotCounted) {
            self.count_open(&key.owner, 1);
        }
        Ok(Created::New(Task::clone(&task)))
    }

    pub(crate) fn get(&self, key: &TaskKey, now: Timestamp, stale: bool) -> Option<Task> {
        let row = self
            .rows
            .iter()
            .find(|row| row.task.key() == *key || (self.has(Defect::GetOfAnyOwner) && row.task.id == key.id))?;
        let task = if stale && self.has(Defect::StaleReads) { &row.before } else { &row.task };
        (self.has(Defect::ExpiredIsRead) || !task.has_expired(now)).then(|| Task::clone(task))
    }

    fn live(&self, key: &TaskKey, now: Timestamp) -> Option<Arc<Task>> {
        self.peek(key).filter(|task| !task.has_expired(now)).map(Arc::clone)
    }

    /// Applies `event`: what the caller is told, and what happened to the record.
    pub(crate) fn apply(
        &mut self,
        key: &TaskKey,
        event: &TaskEvent,
        now: Timestamp,
    ) -> (Result<Task, ApplyError>, Option<Change>) {
        let defect = self.defect;
        let Some(row) = self.rows.iter_mut().find(|row| row.task.key() == *key) else {
            return (Err(ApplyError::NotFound), None);
        };
        match applied(defect, &row.task, event, now) {
            Ok(next) => {
                let before = std::mem::replace(&mut row.task, Arc::new(next));
                row.before = Arc::clone(&before);
                let after = Arc::clone(&row.task);
                let ends = !before.has_ended() && after.has_ended();
                if ends && !(defect == Some(Defect::CounterKeptOnCancel) && *event == TaskEvent::Cancel) {
                    self.count_open(&key.owner, -1);
                }
                (Ok(Task::clone(&after)), Some(Change { before, after }))
            }
            Err(Refusal::Expired) => (Err(ApplyError::NotFound), None),
            Err(why) if defect == Some(Defect::RefusalIsSuccess) && !matches!(event, TaskEvent::Nudge { .. }) => {
                let _untold = why;
                (Ok(Task::clone(&row.task)), None)
            }
            Err(why) => (Err(ApplyError::Refused { current: Box::new(Task::clone(&row.task)), why }), None),
        }
    }

    pub(crate) fn list(&self, owner: &OwnerId, before: Option<TaskId>, limit: usize, now: Timestamp) -> Page {
        let mine = |task: &&Arc<Task>| task.owner == *owner || self.has(Defect::ListOfAnyOwner);
        let alive = |task: &&Arc<Task>| !task.has_expired(now) && before.is_none_or(|before| task.id < before);
        let mut tasks: Vec<&Arc<Task>> = self.tasks().filter(mine).filter(alive).collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task.id));
        let next = if tasks.len() > limit { tasks.get(limit - 1).map(|task| task.id) } else { None };
        Page { tasks: tasks.into_iter().take(limit).map(|task| Task::clone(task)).collect(), next }
    }

    pub(crate) fn record(&mut self, key: &TaskKey, entry: &Entry) -> Recorded {
        let overwrites = match entry.kind {
            EntryKind::Answer => self.has(Defect::AnswerOverwritten),
            EntryKind::Step | EntryKind::Timer | EntryKind::Round => self.has(Defect::StepOverwritten),
        };
        let side = self.side(key);
        let found = side.journal.iter_mut().find(|earlier| earlier.kind == entry.kind && earlier.name == entry.name);
        match found {
            Some(earlier) if overwrites => {
                earlier.clone_from(entry);
                Recorded::First
            }
            Some(earlier) => Recorded::Earlier(earlier.clone()),
            None => {
                side.journal.push(entry.clone());
                Recorded::First
            }
        }
    }

    pub(crate) fn journal(&self, key: &TaskKey) -> Vec<Entry> {
        let mut journal =
            self.sides.iter().find(|side| side.key == *key).map_or_else(Vec::new, |side| side.journal.clone());
        if self.has(Defect::JournalCutShort) && journal.len() > 2 {
            journal.pop();
        }
        journal
    }

    pub(crate) fn put_parts(&mut self, key: &TaskKey, name: &PartsName, parts: &[&str]) {
        let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        if self.has(Defect::PartCut) {
            parts.iter_mut().for_each(|part| part.truncate(3_000));
        }
        let one_name = self.has(Defect::PartsShareAName);
        let side = self.side(key);
        let same = |held: &PartsName| *held == *name || (one_name && same_kind(held, name));
        match side.parts.iter_mut().find(|(held, _)| same(held)) {
            Some((_, held)) => *held = parts,
            None => side.parts.push((name.clone(), parts)),
        }
    }

    pub(crate) fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Option<String> {
        let one_name = self.has(Defect::PartsShareAName);
        let side = self.sides.iter().find(|side| side.key == *key)?;
        let same = |held: &PartsName| *held == *name || (one_name && same_kind(held, name));
        let (_, parts) = side.parts.iter().find(|(held, _)| same(held))?;
        Some(parts.get(..count as usize)?.concat())
    }

    pub(crate) fn leave(
        &mut self,
        owner: &OwnerId,
        id: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Left {
        if let Some(earlier) = self.collect(owner, id, now) {
            return Left::Earlier(earlier);
        }
        self.mailboxes.retain(|held| (held.owner, held.id) != (*owner, *id));
        self.mailboxes.push(Mailbox { owner: *owner, id: *id, text: text.to_owned(), expires_at });
        Left::First
    }

    pub(crate) fn collect(&self, owner: &OwnerId, id: &MailboxId, now: Timestamp) -> Option<String> {
        let mut held = self.mailboxes.iter().filter(|held| held.expires_at > now);
        held.find(|held| (held.owner, held.id) == (*owner, *id)).map(|held| held.text.clone())
    }

    /// Deletes what has expired.
    pub(crate) fn purge(&mut self, now: Timestamp) {
        self.mailboxes.retain(|held| held.expires_at > now);
        let mut owners: Vec<OwnerId> = self.open.iter().map(|(owner, _)| *owner).collect();
        owners.extend(self.rows.iter().map(|row| row.task.owner));
        owners.iter().for_each(|owner| self.purge_owner(owner, now));
    }

    fn purge_owner(&mut self, owner: &OwnerId, now: Timestamp) {
        let gone = |task: &Task| task.owner == *owner && task.has_expired(now);
        let unfinished = self.rows.iter().filter(|row| gone(&row.task) && !row.task.has_ended()).count();
        let keys: Vec<TaskKey> = self.rows.iter().filter(|row| gone(&row.task)).map(|row| row.task.key()).collect();
        self.rows.retain(|row| !keys.contains(&row.task.key()));
        self.sides.retain(|side| !keys.contains(&side.key));
        self.keys.retain(|row| !keys.contains(&TaskKey::new(row.owner, row.id)));
        self.count_open(owner, -(unfinished as i64));
    }

    fn side(&mut self, key: &TaskKey) -> &mut Side {
        let place = self.sides.iter().position(|side| side.key == *key).unwrap_or_else(|| {
            self.sides.push(Side { key: *key, journal: Vec::new(), parts: Vec::new() });
            self.sides.len() - 1
        });
        &mut self.sides[place]
    }

    fn open_count(&self, owner: &OwnerId) -> u32 {
        self.open.iter().find(|(held, _)| held == owner).map_or(0, |(_, count)| *count)
    }

    fn count_open(&mut self, owner: &OwnerId, by: i64) {
        if !self.open.iter().any(|(held, _)| held == owner) {
            self.open.push((*owner, 0));
        }
        for (_, count) in self.open.iter_mut().filter(|(held, _)| held == owner) {
            *count = u32::try_from(i64::from(*count) + by).unwrap_or(0);
        }
    }
}

/// What the store makes of `event`: what the domain says, but for the defect.
fn applied(defect: Option<Defect>, task: &Task, event: &TaskEvent, now: Timestamp) -> Result<Task, Refusal> {
    let refusal = match task.apply(event, now) {
        Ok(next) if defect == Some(Defect::LeaseNotStored) && matches!(event, TaskEvent::Heartbeat { .. }) => {
            let mut record = next.into_record();
            record.state = task.state.clone();
            return Ok(Task::restore(record));
        }
        Ok(next) => return Ok(next),
        Err(refusal) => refusal,
    };
    // A condition that is missing: the write goes through although the record says no.
    let mut forced = task.record().clone();
    match (defect, event, refusal) {
        (Some(Defect::FenceOff), TaskEvent::Finish { .. }, Refusal::Stale { .. }) => {
            forced.state = longhaul_core::State::Running { lease: dead_lease(now) };
        }
        (Some(Defect::ConditionIgnored), TaskEvent::Claim { .. }, Refusal::Leased { .. }) => {
            forced.state = longhaul_core::State::Queued;
        }
        (Some(Defect::EndIsNotTheEnd), TaskEvent::Cancel | TaskEvent::Finish { .. }, Refusal::Ended) => {
            forced.state = longhaul_core::State::Running { lease: dead_lease(now) };
        }
        (Some(Defect::ExpiredIsWritten), _, Refusal::Expired) => {
            forced.expires_at = now.plus_ms(1);
        }
        _ => return Err(refusal),
    }
    let mut event = event.clone();
    if let TaskEvent::Finish { attempt, .. } = &mut event {
        *attempt = task.attempt;
    }
    let expires_at = task.expires_at;
    let next = Task::restore(forced).apply(&event, now).map_err(|_still| refusal)?;
    let mut record = next.into_record();
    record.expires_at = record.expires_at.max(expires_at);
    Ok(Task::restore(record))
}

const fn dead_lease(now: Timestamp) -> longhaul_core::Lease {
    longhaul_core::Lease { until: now, token: longhaul_core::LeaseToken::from_random([0; 16]) }
}

const fn same_kind(one: &PartsName, other: &PartsName) -> bool {
    matches!(
        (one, other),
        (PartsName::Request, PartsName::Request)
            | (PartsName::Outcome { .. }, PartsName::Outcome { .. })
            | (PartsName::Entry { .. }, PartsName::Entry { .. })
            | (PartsName::Variables { .. }, PartsName::Variables { .. })
    )
}
