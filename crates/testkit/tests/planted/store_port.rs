//! The port of a store with a fault.

use async_trait::async_trait;
use longhaul_core::ports::{ApplyError, CreateError, Created, Left, NewTask, Page, Recorded, StoreError, TaskStore};
use longhaul_core::{Entry, MailboxId, OwnerId, PartsName, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp};

use super::store::{Fault, PlantedStore, Tables, fixed_id};

#[async_trait]
impl TaskStore for PlantedStore {
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        if self.has(Fault::CreationsRace) {
            if let Some(decided) = self.tables(|tables| self.create_in(tables, &new, now))? {
                return Ok(decided);
            }
            Self::gap();
            return Ok(self.tables(|tables| self.put(tables, &new)));
        }
        if self.has(Fault::NewRaces) {
            if let Some(refused) = self.tables(|tables| self.too_many_new(tables, &new, now)) {
                return Err(refused);
            }
            Self::gap();
            self.tables(|tables| self.count_new(tables, &new, now));
            return Ok(self.tables(|tables| self.put(tables, &new)));
        }
        self.tables(|tables| {
            if self.has(Fault::RequestPartsBeforeTheDecision) {
                Self::put_request(tables, &new);
            }
            let decided = self.create_in(tables, &new, now);
            match &decided {
                Err(_) if self.has(Fault::RequestPartsOfRefusedKept) => Self::put_request(tables, &new),
                Err(_) if self.has(Fault::JournalOfRefusedKept) => self.put_journal(tables, &new),
                Ok(Some(Created::Existing(task))) if task.id != new.task.id => {
                    if self.has(Fault::RequestPartsOfRetryKept) {
                        Self::put_request(tables, &new);
                    }
                }
                Ok(_) | Err(_) => {}
            }
            decided.map(|decided| decided.unwrap_or_else(|| self.put(tables, &new)))
        })
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        let found = self.tables(|tables| self.found(tables, key));
        Ok(found.filter(|task| !self.expired(task, now, Fault::GetIgnoresExpiry)))
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let keep = |tables: &mut Tables, next: &Task| {
            let stored = self.kept(next);
            if !self.has(Fault::ChangesNotKept) {
                tables.tasks.insert(stored.key(), stored);
            }
        };
        if self.races(event) {
            let next = self.tables(|tables| self.decide(tables, key, event, now))?;
            Self::gap();
            self.tables(|tables| keep(tables, &next));
            return Ok(next);
        }
        self.tables(|tables| {
            let next = self.decide(tables, key, event, now)?;
            keep(tables, &next);
            Ok(next)
        })
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let mut all: Vec<Task> = self.tables(|tables| tables.tasks.values().cloned().collect());
        all.retain(|task| task.owner == *owner || self.has(Fault::ListOfAnyOwner));
        all.retain(|task| !(self.has(Fault::ListWithoutEnded) && task.has_ended()));
        all.sort_by_key(|task| std::cmp::Reverse(task.id));
        if self.has(Fault::CursorMustBeATask) && before.is_some_and(|id| all.iter().all(|task| task.id != id)) {
            all.clear();
        }
        let repeats = self.has(Fault::PageRepeatsItsLast);
        all.retain(|task| before.is_none_or(|id| task.id < id || (repeats && task.id == id)));
        if self.has(Fault::PageSkipsOne) && before.is_some() && !all.is_empty() {
            all.remove(0);
        }
        let living = |task: &Task| !self.expired(task, now, Fault::ListIgnoresExpiry);
        if !self.has(Fault::PagesAreShort) {
            all.retain(living);
        }
        let more = all.len() > limit || (self.has(Fault::LastPageHasNext) && all.len() == limit);
        all.truncate(limit);
        let next = all.last().filter(|_| more).map(|task| task.id);
        all.retain(living);
        if self.has(Fault::ListOldestFirst) {
            all.reverse();
        }
        Ok(Page { tasks: all, next })
    }

    async fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let any = self.has(Fault::FilteredWithoutStatusHasAll) && filter.statuses.is_empty();
        let of_status = |task: &Task| {
            let key = task.key();
            let first = self.tables(|tables| tables.first.get(&key).map(Task::status));
            let status = if self.has(Fault::FilteredOfTheFirstStatus) { first } else { None };
            any || filter.statuses.contains(&status.unwrap_or(task.status())) || self.has(Fault::FilteredOfAnyStatus)
        };
        let of_tool = |task: &Task| {
            let Some(tool) = &filter.tool else { return true };
            let by_part = self.has(Fault::FilteredByPartOfTool) && task.tool.starts_with(tool.as_str());
            task.tool == *tool || by_part || self.has(Fault::FilteredOfAnyTool)
        };
        let of_labels = |task: &Task| {
            let key = task.key();
            let kept = self.tables(|tables| tables.first.get(&key).map(|first| first.labels.clone()));
            let labels = kept.filter(|_| self.has(Fault::LabelsOfTheFirstRecord)).unwrap_or(task.labels.clone());
            let any = || filter.labels.iter().any(|wanted| labels.iter().any(|label| label == wanted));
            labels.include(&filter.labels) || self.has(Fault::FilteredByAnyLabel) && any()
        };
        let mut all: Vec<Task> = self.tables(|tables| tables.tasks.values().cloned().collect());
        all.retain(|task| task.owner == *owner || self.has(Fault::FilteredOfAnyOwner));
        all.retain(|task| {
            before.is_none_or(|id| task.id < id) && !self.expired(task, now, Fault::FilteredIgnoresExpiry)
        });
        all.sort_by_key(|task| std::cmp::Reverse(task.id));
        if self.has(Fault::FilteredBySlice) {
            all.truncate(limit);
        }
        all.retain(|task| of_status(task) && of_tool(task) && of_labels(task));
        if self.has(Fault::FilteredPageSkipsOne) && before.is_some() && !all.is_empty() {
            all.remove(0);
        }
        if self.has(Fault::FilteredLosesItsLast) && all.len() <= limit {
            all.pop();
        }
        let mut page = Page::of(all, limit, None);
        if self.has(Fault::FilteredOldestFirst) {
            page.tasks.reverse();
        }
        Ok(page)
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        let name = self.entry_key(key, entry);
        let earlier = |tables: &Tables| tables.journal.get(&name).cloned();
        if self.has(Fault::RecordsRace) {
            let found = self.tables(|tables| earlier(tables));
            Self::gap();
            if let Some(earlier) = found {
                return Ok(Recorded::Earlier(earlier));
            }
        }
        Ok(self.tables(|tables| match earlier(tables) {
            Some(earlier) if !self.has(Fault::RecordOverwrites) && !self.has(Fault::RecordsRace) => {
                if self.has(Fault::RecordSaysFirstAlways) { Recorded::First } else { Recorded::Earlier(earlier) }
            }
            Some(_) | None => {
                tables.journal.insert(name.clone(), entry.clone());
                Recorded::First
            }
        }))
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        let all = self.has(Fault::EntriesOfAllTasks);
        Ok(self.tables(|tables| {
            tables.journal.iter().filter(|((of, ..), _)| all || of == key).map(|(_, entry)| entry.clone()).collect()
        }))
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        let name = self.parts_name(key, name);
        self.tables(|tables| {
            if self.has(Fault::PartsNeedATask) && !tables.tasks.contains_key(key) {
                return;
            }
            if self.has(Fault::PartsKeptFromTheFirstTry) {
                tables.parts.entry(name).or_insert(parts);
            } else {
                tables.parts.insert(name, parts);
            }
        });
        Ok(())
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        let name = self.parts_name(key, name);
        let found = self.tables(|tables| tables.parts.get(&name).cloned()).unwrap_or_default();
        let mut found: Vec<(usize, String)> = found.into_iter().enumerate().take(count as usize).collect();
        if self.has(Fault::PartsSortedAsText) {
            found.sort_by_key(|(number, _)| number.to_string());
        }
        let whole = found.len() == count as usize || self.has(Fault::PartsMissingUnnoticed);
        Ok(whole.then(|| found.into_iter().map(|(_, part)| part).collect()))
    }

    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        let key = self.mailbox_key(owner, mailbox);
        let cut = if self.has(Fault::MailboxTextIsCut) { 1_000 } else { text.len() };
        let text = text[..text.floor_char_boundary(cut)].to_owned();
        if self.has(Fault::MailboxesRace) {
            let found = self.tables(|tables| self.earlier_text(tables, &key, now));
            Self::gap();
            if let Some(earlier) = found {
                return Ok(Left::Earlier(earlier));
            }
        }
        Ok(self.tables(|tables| match self.earlier_text(tables, &key, now) {
            Some(earlier) if !self.has(Fault::MailboxOverwritten) && !self.has(Fault::MailboxesRace) => {
                if self.has(Fault::MailboxExpiryMoves) {
                    tables.mailboxes.insert(key, (earlier.clone(), expires_at));
                }
                if self.has(Fault::MailboxSaysFirstAlways) { Left::First } else { Left::Earlier(earlier) }
            }
            Some(_) | None => {
                tables.mailboxes.insert(key, (text, expires_at));
                Left::First
            }
        }))
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let key = self.mailbox_key(owner, mailbox);
        Ok(self.tables(|tables| {
            let (text, expires_at) = tables.mailboxes.get(&key).cloned()?;
            if self.has(Fault::MailboxEmptiedByReading) {
                tables.mailboxes.remove(&key);
            }
            (!self.text_has_expired(expires_at, now, Fault::MailboxReadIgnoresExpiry)).then_some(text)
        }))
    }
}

impl PlantedStore {
    fn mailbox_key(&self, owner: &OwnerId, mailbox: &MailboxId) -> (OwnerId, MailboxId) {
        let name = if self.has(Fault::MailboxOfAnyName) { MailboxId::of(&[]) } else { *mailbox };
        (self.owner(*owner, Fault::MailboxOfAnyOwner), name)
    }

    fn text_has_expired(&self, expires_at: Timestamp, now: Timestamp, ignored: Fault) -> bool {
        if self.has(Fault::MailboxExpiresInWholeSeconds) {
            return now.as_ms() / 1_000 >= expires_at.as_ms() / 1_000;
        }
        !self.has(ignored) && expires_at <= now
    }

    fn earlier_text(&self, tables: &Tables, key: &(OwnerId, MailboxId), now: Timestamp) -> Option<String> {
        let (text, expires_at) = tables.mailboxes.get(key)?;
        let absent = text.is_empty() && self.has(Fault::MailboxEmptyTextIsNone);
        let absent = absent || self.text_has_expired(*expires_at, now, Fault::MailboxStaysFull);
        (!absent).then(|| text.clone())
    }

    pub(super) fn parts_name(&self, key: &TaskKey, name: &PartsName) -> (TaskKey, String) {
        let by_name = self.has(Fault::PartsByName);
        let key = if by_name { TaskKey::new(OwnerId::from_bytes([0; 32]), fixed_id()) } else { *key };
        (key, name.to_string())
    }
}
