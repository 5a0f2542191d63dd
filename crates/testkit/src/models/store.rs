//! The model of a store: what the port promises, as simply as possible, and with one planted fault on demand.

use std::sync::Arc;

use longhaul_core::ports::{ApplyError, CreateError, Created, IdempotencyKey, Left, NewEntry, NewTask, Page, Recorded};
use longhaul_core::{
    Entry, EntryKind, MailboxId, Notification, OwnerId, PartsName, Payload, Refusal, Task, TaskEvent, TaskFilter,
    TaskId, TaskKey, Timestamp, limits,
};

use super::planted::PlantedFault;
use super::transition;

/// The name of the tool of scheduled tasks.
pub const SCHEDULED_TOOL: &str = "scheduled";

/// Tasks and what belongs to them.
#[derive(Default)]
pub struct StoreModel {
    rows: Vec<Row>,
    attachments: Vec<Attachments>,
    keys: Vec<KeyRow>,
    open: Vec<(OwnerId, u32)>,
    /// When each owner's window of new tasks began, and how many are in it.
    windows: Vec<(OwnerId, Timestamp, u32)>,
    mailboxes: Vec<Mailbox>,
    /// The notifications that ends and questions have left there.
    outbox: Vec<Notification>,
    planted: Option<PlantedFault>,
}

struct Row {
    task: Arc<Task>,
    before: Arc<Task>,
    /// When it was written, by the clock that is right.
    written_ms: Option<u64>,
    /// The attempt that wrote the latest heartbeat, and when it was sent.
    heard: Option<(u32, Timestamp)>,
}

struct Attachments {
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

/// The change of a record by an event.
pub struct Change {
    /// The record before the event.
    pub before: Arc<Task>,
    /// The record after it.
    pub after: Arc<Task>,
}

impl StoreModel {
    /// An empty store, with this planted fault.
    pub fn with(planted: Option<PlantedFault>) -> Self {
        Self { planted, ..Self::default() }
    }

    fn has(&self, fault: PlantedFault) -> bool {
        self.planted == Some(fault)
    }

    fn has_expired(&self, task: &Task, now: Timestamp) -> bool {
        !self.has(PlantedFault::ExpiryIgnored) && task.has_expired(now)
    }

    /// The record, even if it has expired.
    pub fn peek(&self, key: &TaskKey) -> Option<&Arc<Task>> {
        self.rows.iter().map(|row| &row.task).find(|task| task.key() == *key)
    }

    /// All records.
    pub fn tasks(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.rows.iter().map(|row| &row.task)
    }

    /// A page of unfinished tasks without a message, in the order of their keys. It includes tasks with a message that
    /// are past their deadline and expire soon.
    pub fn unfinished(
        &self,
        after: Option<TaskKey>,
        max: usize,
        now: Timestamp,
        has_message: impl Fn(&TaskKey) -> bool,
    ) -> Vec<Task> {
        let passes_over = |task: &Task| self.has(PlantedFault::UnclaimedNotSwept) && task.attempt == 0;
        let open = self.tasks().filter(|task| !task.has_ended() && !self.has_expired(task, now) && !passes_over(task));
        let soon = now.plus_ms(limits::EXPIRES_SOON_MS);
        let is_late = |task: &Task| now >= task.deadline() && task.expires_at <= soon;
        let is_missed = |task: &Task| !has_message(&task.key()) || is_late(task);
        let mut found: Vec<&Arc<Task>> =
            open.filter(|task| after.is_none_or(|after| task.key() > after) && is_missed(task)).collect();
        found.sort_by_key(|task| task.key());
        found.into_iter().take(max).map(|task| Task::clone(task)).collect()
    }

    /// The journal entry, if there is one.
    pub fn entry(&self, key: &TaskKey, kind: EntryKind, name: &str) -> Option<&Entry> {
        let found = self.attachments.iter().find(|held| held.key == *key)?;
        found.journal.iter().find(|entry| entry.kind == kind && entry.name == name)
    }

    /// The notifications that are not passed on yet.
    pub const fn outbox(&mut self) -> &mut Vec<Notification> {
        &mut self.outbox
    }

    /// A new task as a store with a planted fault has it, and the domain's otherwise.
    fn as_planted(&self, new: NewTask, now: Timestamp) -> NewTask {
        let is_taken = self.live(&new.task.key(), now).is_some();
        let is_made_twice = match new.task.parent {
            Some(_) => self.has(PlantedFault::ChildMadeTwice),
            None => self.has(PlantedFault::TimeMadeTwice) && new.task.tool == SCHEDULED_TOOL,
        };
        let mut record = new.task.into_record();
        if is_taken && is_made_twice {
            record.id = TaskId::derived(record.id.begins_at(), &[record.id.as_bytes()]);
        }
        if self.has(PlantedFault::DepthNotCounted) {
            record.parent = record.parent.map(|parent| longhaul_core::Parent { depth: 1, ..parent });
        }
        NewTask { task: Task::restore(record), ..new }
    }

    /// As [`TaskStore::create`](longhaul_core::ports::TaskStore::create), without a message.
    pub fn create(&mut self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let new = self.as_planted(new, now);
        let key = new.task.key();
        if let Some(idempotency) = new.idempotency.filter(|_| !self.has(PlantedFault::KeyNotLookedUp)) {
            let any_owner = self.has(PlantedFault::KeyOfAnyOwner);
            let same = |row: &&KeyRow| row.key.key == idempotency.key && (any_owner || row.owner == key.owner);
            let found = self.keys.iter().find(same).copied();
            if let Some((row, task)) =
                found.and_then(|row| Some((row, self.live(&TaskKey::new(row.owner, row.id), now)?)))
            {
                let fits = row.key.request == idempotency.request || self.has(PlantedFault::KeyTakesAnyRequest);
                return fits.then(|| Created::Existing(Task::clone(&task))).ok_or(CreateError::KeyReused);
            }
        }
        let taken = self.live(&key, now);
        if let Some(task) = taken.filter(|_| !self.has(PlantedFault::CreateOverwrites)) {
            return Ok(Created::Existing(Task::clone(&task)));
        }
        if self.open_count(&key.owner) >= new.open_max {
            self.purge_owner(&key.owner, now);
            if self.open_count(&key.owner) >= new.open_max {
                return Err(CreateError::TooManyOpen { open_max: new.open_max });
            }
        }
        let stored: u64 =
            self.rows.iter().filter(|row| row.task.owner == key.owner).map(|row| row.task.stored_bytes()).sum();
        if stored.saturating_add(new.task.stored_bytes()) > new.stored_max {
            return Err(CreateError::TooMuchStored { stored_max: new.stored_max });
        }
        self.count_new(&new, now)?;
        if let Some(idempotency) = new.idempotency {
            self.keys.retain(|row| !(row.owner == key.owner && row.key.key == idempotency.key));
            self.keys.push(KeyRow { owner: key.owner, key: idempotency, id: key.id });
        }
        if !new.request_parts.is_empty() {
            let parts: Vec<&str> = new.request_parts.iter().map(String::as_str).collect();
            self.put_parts(&key, &PartsName::Request, &parts);
        }
        for NewEntry { entry, parts } in new.journal.iter() {
            if let Payload::Parts { name, .. } = &entry.value {
                self.put_parts(&key, name, &parts.iter().map(String::as_str).collect::<Vec<_>>());
            }
            self.record(&key, entry);
        }
        let task = Arc::new(new.task);
        self.rows.retain(|row| row.task.key() != key);
        self.rows.push(Row { task: Arc::clone(&task), before: Arc::clone(&task), written_ms: None, heard: None });
        if !self.has(PlantedFault::OpenNotCounted) {
            self.count_open(&key.owner, 1);
        }
        Ok(Created::New(Task::clone(&task)))
    }

    /// Counts a new task of its owner, if there may be one more in this minute.
    fn count_new(&mut self, new: &NewTask, now: Timestamp) -> Result<(), CreateError> {
        let owner = new.task.owner;
        let over = |since| limits::minute_left_ms(since, now) == 0;
        self.windows.retain(|(held, since, _)| *held != owner || !over(*since));
        let Some((_, since, count)) = self.windows.iter_mut().find(|(held, ..)| *held == owner) else {
            self.windows.push((owner, now, 1));
            return Ok(());
        };
        if let Some(new_max) = new.new_max.filter(|new_max| *count >= *new_max) {
            return Err(CreateError::TooManyNew { new_max, retry_ms: limits::minute_left_ms(*since, now) });
        }
        *count += 1;
        Ok(())
    }

    /// The record, as a read gets it that began at `begun_ms`; `stale` is how the dice of a store that may be stale
    /// fell.
    pub fn get(&self, key: &TaskKey, now: Timestamp, stale: bool, begun_ms: u64) -> Option<Task> {
        let row = self
            .rows
            .iter()
            .find(|row| row.task.key() == *key || (self.has(PlantedFault::GetOfAnyOwner) && row.task.id == key.id))?;
        let is_behind = match self.planted {
            Some(PlantedFault::StaleReads) => stale,
            Some(PlantedFault::FreshWriteNotRead) => row.written_ms == Some(begun_ms),
            _ => false,
        };
        let task = if is_behind { &row.before } else { &row.task };
        (self.has(PlantedFault::ExpiredIsRead) || !self.has_expired(task, now)).then(|| Task::clone(task))
    }

    fn live(&self, key: &TaskKey, now: Timestamp) -> Option<Arc<Task>> {
        self.peek(key).filter(|task| !self.has_expired(task, now)).map(Arc::clone)
    }

    /// Applies `event` at `at_ms`: the answer to the caller, and what happened to the record.
    pub fn apply(
        &mut self,
        key: &TaskKey,
        event: &TaskEvent,
        now: Timestamp,
        at_ms: u64,
    ) -> (Result<Task, ApplyError>, Option<Change>) {
        let planted = self.planted;
        let Some(row) = self.rows.iter_mut().find(|row| row.task.key() == *key) else {
            return (Err(ApplyError::NotFound), None);
        };
        match transition::apply(planted, &row.task, event, now) {
            Ok(next) => {
                let before = std::mem::replace(&mut row.task, Arc::new(next));
                row.before = Arc::clone(&before);
                row.written_ms = Some(at_ms);
                if let TaskEvent::Heartbeat { attempt, .. } = event {
                    row.heard = Some((*attempt, now));
                }
                let after = Arc::clone(&row.task);
                let ends = !before.has_ended() && after.has_ended();
                let is_untold = planted == Some(PlantedFault::CancelNotPublished) && *event == TaskEvent::Cancel;
                self.outbox.extend(Notification::between(&before, &after).filter(|_| !is_untold));
                if ends && !(planted == Some(PlantedFault::CounterKeptOnCancel) && *event == TaskEvent::Cancel) {
                    self.count_open(&key.owner, -1);
                }
                (Ok(Task::clone(&after)), Some(Change { before, after }))
            }
            Err(Refusal::Expired) => (Err(ApplyError::NotFound), None),
            Err(_) if planted == Some(PlantedFault::RefusalIsSuccess) && !matches!(event, TaskEvent::Resend { .. }) => {
                (Ok(Task::clone(&row.task)), None)
            }
            Err(why) => (Err(ApplyError::Refused { current: Box::new(Task::clone(&row.task)), why }), None),
        }
    }

    /// Whether `event` arrives after a heartbeat of the same attempt that was sent later. Its caller got the error that
    /// the store did not answer. Such an event is not applied.
    pub fn comes_too_late(&self, key: &TaskKey, event: &TaskEvent, sent: Timestamp) -> bool {
        let TaskEvent::Heartbeat { attempt, .. } = event else { return false };
        let heard = self.rows.iter().find(|row| row.task.key() == *key).and_then(|row| row.heard);
        heard.is_some_and(|(held, at)| held == *attempt && at > sent)
    }

    /// A page of the tasks of `owner`.
    pub fn list(&self, owner: &OwnerId, before: Option<TaskId>, limit: usize, now: Timestamp) -> Page {
        let mut tasks = self.list_of_all_owners(before, now).tasks;
        tasks.retain(|task| task.owner == *owner || self.has(PlantedFault::ListOfAnyOwner));
        Page::of(tasks, limit, None)
    }

    /// The tasks of all owners.
    pub fn list_of_all_owners(&self, before: Option<TaskId>, now: Timestamp) -> Page {
        let alive = |task: &&Arc<Task>| !self.has_expired(task, now) && before.is_none_or(|before| task.id < before);
        let mut tasks: Vec<&Arc<Task>> = self.tasks().filter(alive).collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task.id));
        Page::of(tasks.into_iter().map(|task| Task::clone(task)).collect(), usize::MAX, None)
    }

    /// A page of the tasks of `owner` that `filter` takes.
    pub fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Page {
        let mut tasks = self.list(owner, before, usize::MAX, now).tasks;
        tasks.retain(|task| filter.takes(task) || self.has(PlantedFault::FilterIgnored));
        if self.has(PlantedFault::FilteredPageSkipsOne) && before.is_some() && !tasks.is_empty() {
            tasks.remove(0);
        }
        let mut page = Page::of(tasks, limit, None);
        if self.has(PlantedFault::FilteredPageRepeats) && page.next.is_some() && page.tasks.len() > 1 {
            page.next = page.tasks.iter().rev().nth(1).map(|task| task.id);
        }
        page
    }

    /// Records a journal entry, once.
    pub fn record(&mut self, key: &TaskKey, entry: &Entry) -> Recorded {
        let overwrites = match entry.kind {
            EntryKind::Answer | EntryKind::Signal => self.has(PlantedFault::AnswerOverwritten),
            EntryKind::Step | EntryKind::Timer | EntryKind::Token | EntryKind::Round | EntryKind::Try => {
                self.has(PlantedFault::StepOverwritten)
            }
        };
        let attachments = self.attachments(key);
        let found =
            attachments.journal.iter_mut().find(|earlier| earlier.kind == entry.kind && earlier.name == entry.name);
        match found {
            Some(earlier) if overwrites => {
                earlier.clone_from(entry);
                Recorded::First
            }
            Some(earlier) => Recorded::Earlier(earlier.clone()),
            None => {
                attachments.journal.push(entry.clone());
                Recorded::First
            }
        }
    }

    /// The journal of a task.
    pub fn journal(&self, key: &TaskKey) -> Vec<Entry> {
        let mut journal =
            self.attachments.iter().find(|held| held.key == *key).map_or_else(Vec::new, |held| held.journal.clone());
        if self.has(PlantedFault::JournalCutShort) && journal.len() > 2 {
            journal.pop();
        }
        journal
    }

    /// Writes the parts of a payload.
    pub fn put_parts(&mut self, key: &TaskKey, name: &PartsName, parts: &[&str]) {
        let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        if self.has(PlantedFault::PartCut) {
            parts.iter_mut().for_each(|part| part.truncate(3_000));
        }
        let one_name = self.has(PlantedFault::PartsShareAName);
        let attachments = self.attachments(key);
        let same = |held: &PartsName| *held == *name || (one_name && same_kind(held, name));
        match attachments.parts.iter_mut().find(|(held, _)| same(held)) {
            Some((_, held)) => *held = parts,
            None => attachments.parts.push((name.clone(), parts)),
        }
    }

    /// The payload of these parts, if all are there.
    pub fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Option<String> {
        let one_name = self.has(PlantedFault::PartsShareAName);
        let found = self.attachments.iter().find(|held| held.key == *key)?;
        let same = |held: &PartsName| *held == *name || (one_name && same_kind(held, name));
        let (_, parts) = found.parts.iter().find(|(held, _)| same(held))?;
        Some(parts.get(..count as usize)?.concat())
    }

    /// Leaves a text in a mailbox.
    pub fn leave(
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

    /// The text in a mailbox.
    pub fn collect(&self, owner: &OwnerId, id: &MailboxId, now: Timestamp) -> Option<String> {
        let mut held = self.mailboxes.iter().filter(|held| held.expires_at > now);
        held.find(|held| (held.owner, held.id) == (*owner, *id)).map(|held| held.text.clone())
    }

    /// Deletes what has expired.
    pub fn purge(&mut self, now: Timestamp) {
        self.mailboxes.retain(|held| held.expires_at > now);
        let mut owners: Vec<OwnerId> = self.open.iter().map(|(owner, _)| *owner).collect();
        owners.extend(self.rows.iter().map(|row| row.task.owner));
        owners.iter().for_each(|owner| self.purge_owner(owner, now));
    }

    fn purge_owner(&mut self, owner: &OwnerId, now: Timestamp) {
        let gone = |task: &Task| task.owner == *owner && self.has_expired(task, now);
        let unfinished = self.rows.iter().filter(|row| gone(&row.task) && !row.task.has_ended()).count();
        let keys: Vec<TaskKey> = self.rows.iter().filter(|row| gone(&row.task)).map(|row| row.task.key()).collect();
        self.rows.retain(|row| !keys.contains(&row.task.key()));
        self.attachments.retain(|held| !keys.contains(&held.key));
        self.keys.retain(|row| !keys.contains(&TaskKey::new(row.owner, row.id)));
        self.count_open(owner, -(unfinished as i64));
    }

    fn attachments(&mut self, key: &TaskKey) -> &mut Attachments {
        let index = self.attachments.iter().position(|held| held.key == *key).unwrap_or_else(|| {
            self.attachments.push(Attachments { key: *key, journal: Vec::new(), parts: Vec::new() });
            self.attachments.len() - 1
        });
        &mut self.attachments[index]
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

const fn same_kind(one: &PartsName, other: &PartsName) -> bool {
    matches!(
        (one, other),
        (PartsName::Request, PartsName::Request)
            | (PartsName::Outcome { .. }, PartsName::Outcome { .. })
            | (PartsName::Entry { .. }, PartsName::Entry { .. })
            | (PartsName::Variables { .. }, PartsName::Variables { .. })
    )
}
