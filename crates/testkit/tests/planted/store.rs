//! A task store in memory, into which one fault can be planted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::ports::{CreateError, Created, IdempotencyKey, NewTask};
use longhaul_core::{Entry, EntryKind, MailboxId, OwnerId, Payload, Status, Task, TaskId, TaskKey, Timestamp, limits};

macro_rules! faults {
    ($($fault:ident => $promise:ident,)*) => {
        /// A mistake that an adapter may make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault {
            None,
            $($fault,)*
        }

        impl Fault {
            /// Every mistake, and the promise that has to find it.
            pub(crate) const ALL: &[(Self, &str)] = &[$((Self::$fault, stringify!($promise)),)*];
        }
    };
}

faults! {
    FenceOff => a_stale_attempt_cannot_write_anything,
    FenceOnlyBackwards => an_attempt_that_does_not_exist_yet_cannot_write_anything,
    LeaseIgnored => a_task_that_is_held_cannot_be_claimed,
    LeaseNotRenewed => a_heartbeat_renews_the_lease,
    SleepIgnored => a_task_that_sleeps_is_not_claimed_early,
    RefusalAsSuccess => a_refusal_changes_nothing,
    RefusalWrites => a_refusal_changes_nothing,
    RefusalCarriesTheFirstRecord => a_refusal_carries_the_current_record,
    EndOverwritten => an_ended_task_takes_no_event,
    ProgressUndoesTheEnd => progress_never_undoes_an_end,
    CancelLosesToResult => a_cancelled_task_keeps_no_late_result,
    EventMakesTask => an_event_for_a_missing_task_is_not_found,
    ClaimForgetsQuestions => what_was_asked_can_be_answered_while_an_attempt_works,
    AnsweredIsAskedAgain => a_suspension_does_not_wait_for_what_was_answered,
    ResendAlways => a_message_is_sent_again_once_per_bound,
    FailuresNotStored => failures_are_counted_across_calls,
    ResendsNotStored => resends_are_counted_until_the_task_is_claimed,
    ChangesNotKept => a_finished_result_is_on_record_when_the_call_returns,
    GetIgnoresExpiry => an_expired_task_is_not_found,
    ApplyIgnoresExpiry => an_expired_task_takes_no_event,
    ListIgnoresExpiry => an_expired_task_is_in_no_list,
    CreateIgnoresExpiry => an_expired_task_does_not_block_its_id,
    KeyIgnoresExpiry => an_expired_task_frees_its_idempotency_key,
    ExpiryInWholeSeconds => a_late_end_extends_the_expiry,
    LateEndMovesNoExpiry => a_late_end_extends_the_expiry,
    CreateOverwrites => a_task_is_not_overwritten_by_a_second_creation,
    CreateOverwritesEnded => a_finished_task_is_not_set_back_by_a_second_creation,
    CreateRefusesRetryAtLimit => a_retry_is_answered_also_at_the_limit,
    KeyForgotten => the_same_key_with_the_same_request_gives_the_first_task_as_it_is_now,
    KeyForgottenAtTheEnd => a_key_is_remembered_after_the_task_ended,
    KeyTakesAnyRequest => the_same_key_with_another_request_is_refused_and_writes_nothing,
    KeyOfAllOwners => a_key_of_another_owner_is_not_found,
    KeyOfRefusedCreationKept => a_refused_creation_leaves_no_task_and_no_key,
    KeyGivesTheFirstRecord => the_same_key_with_the_same_request_gives_the_first_task_as_it_is_now,
    NoLimit => the_limit_of_unfinished_tasks_holds,
    LimitForAllOwners => one_owner_does_not_use_up_the_slots_of_another,
    StoredNotLimited => the_limit_of_stored_bytes_holds,
    StoredOfAllOwners => one_owner_does_not_use_up_the_bytes_of_another,
    StoredWithoutResults => stored_results_count_and_ends_are_never_refused,
    StoredWithoutParts => the_parts_of_large_texts_count,
    StoredRefusesRetry => a_retry_stores_nothing,
    NewNotLimited => the_limit_of_new_tasks_holds,
    NewOfAllOwners => one_owner_does_not_use_up_the_new_tasks_of_another,
    NewCountsRetries => a_retry_is_not_a_new_task,
    NewCountsRefusals => a_creation_that_is_refused_is_not_a_new_task,
    NewFreedByEnds => an_end_makes_no_room_for_new_tasks,
    NewNeverFreed => a_minute_later_there_is_room_for_new_tasks,
    NewWaitsForALateClock => a_clock_that_was_set_back_does_not_lock_an_owner_out,
    NewRefusesRetry => a_retry_is_not_a_new_task,
    NewSaysNoTime => the_limit_of_new_tasks_holds,
    NewRaces => the_limit_of_new_tasks_holds_for_many_creations_at_once,
    SlotKeptByAResult => a_result_releases_the_slot,
    SlotKeptByAnError => an_error_releases_the_slot,
    SlotKeptByACancel => a_cancel_releases_the_slot,
    SlotNotReleasedOnExpiry => an_expiry_releases_the_slot,
    SlotReleasedByRefusals => a_slot_is_released_once,
    TaskOfAnyOwner => a_task_is_found_by_no_other_owner,
    ListOfAnyOwner => a_list_has_only_the_tasks_of_its_owner,
    ListOldestFirst => a_list_has_the_newest_first,
    ListWithoutEnded => a_list_has_ended_tasks_too,
    PageRepeatsItsLast => pages_have_no_gaps_and_no_duplicates,
    PageSkipsOne => pages_have_no_gaps_and_no_duplicates,
    PagesAreShort => pages_are_full_also_where_tasks_expired_in_between,
    LastPageHasNext => the_last_page_says_that_it_is_the_last,
    CursorMustBeATask => a_cursor_whose_task_is_gone_still_works,
    FilteredOfAnyStatus => a_filtered_list_has_what_its_filter_takes,
    FilteredOfTheFirstStatus => a_filtered_list_follows_each_change,
    FilteredOfAnyTool => a_filtered_list_has_what_its_filter_takes,
    FilteredByPartOfTool => a_filtered_list_has_what_its_filter_takes,
    FilteredBySlice => a_filtered_list_passes_over_what_has_expired,
    FilteredOldestFirst => a_filtered_list_has_what_its_filter_takes,
    FilteredPageSkipsOne => pages_of_a_filtered_list_have_no_gaps_and_no_duplicates,
    FilteredLosesItsLast => a_filtered_list_has_what_its_filter_takes,
    FilteredWithoutStatusHasAll => a_filter_without_a_status_takes_nothing,
    FilteredByAnyLabel => a_list_finds_tasks_by_all_of_their_labels,
    LabelsOfTheFirstRecord => a_list_follows_each_change_of_labels,
    FilteredIgnoresExpiry => a_filtered_list_passes_over_what_has_expired,
    FilteredOfAnyOwner => a_filtered_list_has_only_the_tasks_of_its_owner,
    TextIsCut => large_values_of_any_script_come_back_whole,
    NulIsDropped => large_values_of_any_script_come_back_whole,
    NumbersAreRounded => progress_comes_back_to_the_last_bit,
    TraceIsDropped => every_field_of_a_record_comes_back_as_it_was_written,
    RecordOverwrites => the_first_record_of_an_entry_stays,
    RecordSaysFirstAlways => the_first_record_of_an_entry_stays,
    EntriesByNameOnly => entries_of_other_names_and_kinds_are_separate,
    EntriesOfAllTasks => entries_of_other_tasks_are_not_seen,
    EntryNamesInLowerCase => entries_of_other_names_and_kinds_are_separate,
    PartsByName => parts_of_other_names_and_tasks_are_separate,
    PartsMissingUnnoticed => missing_parts_are_noticed,
    PartsSortedAsText => parts_come_back_joined_in_their_order,
    PartsKeptFromTheFirstTry => parts_written_again_replace_those_of_the_first_try,
    PartsNeedATask => parts_written_before_the_task_belong_to_it,
    RequestPartsNotWritten => the_parts_of_a_request_are_written_with_its_task,
    RequestPartsBeforeTheDecision => a_second_creation_keeps_the_parts_of_the_first,
    RequestPartsOfRefusedKept => a_refused_creation_leaves_no_parts,
    RequestPartsOfRetryKept => a_retry_leaves_no_parts_of_its_own,
    JournalNotWritten => a_new_task_begins_with_its_journal,
    JournalOfRefusedKept => a_refused_creation_leaves_no_journal,
    ClaimsRace => of_many_claims_at_once_one_wins,
    EndsRace => of_many_ends_at_once_one_wins,
    RecordsRace => of_many_records_of_one_entry_at_once_one_wins,
    CreationsRace => of_many_creations_of_one_task_at_once_one_wins,
    ProgressRacesTheEnd => progress_and_an_end_at_once_never_lose_the_end,
    MailboxEmptiedByReading => a_text_that_was_left_is_collected_as_often_as_wanted,
    MailboxOverwritten => the_first_text_in_a_mailbox_stays,
    MailboxSaysFirstAlways => the_first_text_in_a_mailbox_stays,
    MailboxEmptyTextIsNone => an_empty_text_fills_a_mailbox_too,
    MailboxOfAnyOwner => a_mailbox_is_found_by_its_owner_only,
    MailboxOfAnyName => mailboxes_of_other_names_are_separate,
    MailboxReadIgnoresExpiry => an_expired_text_is_not_found,
    MailboxExpiresInWholeSeconds => an_expired_text_is_not_found,
    MailboxStaysFull => an_expired_text_can_be_replaced,
    MailboxExpiryMoves => a_later_text_does_not_move_the_expiry_of_the_first,
    MailboxTextIsCut => texts_of_any_size_and_script_come_back_whole,
    MailboxesRace => of_many_texts_left_at_once_one_stays,
    CleanupNotStored => cleanup_that_is_due_is_on_record,
    CleanupLeaseIgnored => one_worker_at_a_time_cleans_up,
    CleanupEndedByAnyone => cleanup_ends_once_and_for_its_worker_only,
    CleanupTriesNotStored => cleanup_that_fails_too_often_is_given_up,
    CleanupAfterAnyEnd => nothing_is_cleaned_up_after_that_needs_no_cleanup,
    CleanupNotResent => a_message_for_cleanup_is_sent_again,
    CleanupsRace => of_many_workers_at_once_one_begins_to_clean_up,
    WakeMovesLater => a_waiting_task_is_woken_once,
    WakeCutsRetryShort => nothing_else_is_woken,
    WakeWaitsForAnswers => nothing_else_is_woken,
    LaterStartNotStored => a_later_start_moves_the_deadline_and_the_expiry,
    LaterStartMovedByWake => a_task_that_starts_later_is_not_begun_before,
    LaterStartTakesNoSlot => a_task_that_starts_later_takes_a_slot,
    LaterStartNotCancelled => a_task_that_starts_later_can_be_cancelled_before,
}

#[derive(Default)]
pub(super) struct Tables {
    pub(super) tasks: BTreeMap<TaskKey, Task>,
    pub(super) first: BTreeMap<TaskKey, Task>,
    pub(super) keys: BTreeMap<(OwnerId, [u8; 32]), (IdempotencyKey, TaskKey)>,
    pub(super) refunds: u32,
    /// When the window of an owner's new tasks began, and how many are in it.
    pub(super) windows: BTreeMap<OwnerId, (Timestamp, u32)>,
    pub(super) journal: BTreeMap<(TaskKey, EntryKind, String), Entry>,
    pub(super) parts: BTreeMap<(TaskKey, String), Vec<String>>,
    pub(super) mailboxes: BTreeMap<(OwnerId, MailboxId), (String, Timestamp)>,
}

/// The store.
pub(crate) struct PlantedStore {
    pub(super) fault: Fault,
    pub(super) tables: Mutex<Tables>,
}

impl PlantedStore {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, tables: Mutex::default() }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    pub(super) fn tables<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> T {
        work(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A pause between a read and a write that are not atomic. It is long enough for another of many callers to read
    /// before this one writes, on a busy machine too.
    pub(super) fn gap() {
        if longhaul_testkit::is_one_of_many() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    pub(super) fn owner(&self, owner: OwnerId, any: Fault) -> OwnerId {
        if self.has(any) { OwnerId::from_bytes([0; 32]) } else { owner }
    }

    pub(super) fn expired(&self, task: &Task, now: Timestamp, ignored: Fault) -> bool {
        if self.has(Fault::ExpiryInWholeSeconds) {
            return now.as_ms() / 1_000 >= task.expires_at.as_ms() / 1_000;
        }
        !self.has(ignored) && task.has_expired(now)
    }

    pub(super) fn kept(&self, task: &Task) -> Task {
        let mut record = task.record().clone();
        let text = |text: &mut String| {
            if self.has(Fault::TextIsCut) {
                *text = limits::cut(text, 1_024);
            }
            if self.has(Fault::NulIsDropped) {
                text.retain(|character| character != '\0');
            }
        };
        if let Payload::Inline(request) = &mut record.request {
            text(request);
        }
        if self.has(Fault::LaterStartNotStored) {
            record.not_before = None;
        }
        if self.has(Fault::TraceIsDropped) {
            record.trace = None;
        }
        if let Some(progress) = record.progress.as_mut().filter(|_| self.has(Fault::NumbersAreRounded)) {
            progress.done = (progress.done * 1e15).round() / 1e15;
        }
        Task::restore(record)
    }

    pub(super) fn found(&self, tables: &Tables, key: &TaskKey) -> Option<Task> {
        if self.has(Fault::TaskOfAnyOwner) {
            return tables.tasks.values().find(|task| task.id == key.id).cloned();
        }
        tables.tasks.get(key).cloned()
    }

    pub(super) fn by_key(
        &self,
        tables: &Tables,
        new: &NewTask,
        now: Timestamp,
    ) -> Option<Result<Created, CreateError>> {
        let idempotency = new.idempotency.filter(|_| !self.has(Fault::KeyForgotten))?;
        let owner = self.owner(new.task.owner, Fault::KeyOfAllOwners);
        let (stored, key) = tables.keys.get(&(owner, idempotency.key))?;
        if stored.request != idempotency.request && !self.has(Fault::KeyTakesAnyRequest) {
            let living = tables.tasks.get(key).is_none_or(|task| !self.expired(task, now, Fault::KeyIgnoresExpiry));
            return living.then_some(Err(CreateError::KeyReused));
        }
        let task = tables.tasks.get(key)?;
        if self.expired(task, now, Fault::KeyIgnoresExpiry)
            || (self.has(Fault::KeyForgottenAtTheEnd) && task.has_ended())
        {
            return None;
        }
        let first = self.has(Fault::KeyGivesTheFirstRecord);
        Some(Ok(Created::Existing(if first { tables.first.get(key)?.clone() } else { task.clone() })))
    }

    pub(super) fn open(&self, tables: &Tables, owner: OwnerId, now: Timestamp) -> usize {
        let counts = |task: &&Task| {
            let mine = task.owner == owner || self.has(Fault::LimitForAllOwners);
            let open = match self.fault {
                Fault::SlotKeptByAResult => !task.has_ended() || task.status() == Status::Completed,
                Fault::SlotKeptByAnError => !task.has_ended() || task.status() == Status::Failed,
                Fault::SlotKeptByACancel => !task.has_ended() || task.status() == Status::Cancelled,
                Fault::LaterStartTakesNoSlot if task.not_before.is_some() => false,
                _ => !task.has_ended(),
            };
            mine && open && (self.has(Fault::SlotNotReleasedOnExpiry) || !task.has_expired(now))
        };
        tables.tasks.values().filter(counts).count().saturating_sub(tables.refunds as usize)
    }

    pub(super) fn put(&self, tables: &mut Tables, new: &NewTask) -> Created {
        let task = self.kept(&new.task);
        tables.tasks.insert(task.key(), task.clone());
        tables.first.insert(task.key(), task);
        self.put_key(tables, new);
        if !self.has(Fault::RequestPartsNotWritten) {
            Self::put_request(tables, new);
        }
        if !self.has(Fault::JournalNotWritten) {
            self.put_journal(tables, new);
        }
        Created::New(new.task.clone())
    }

    pub(super) fn put_key(&self, tables: &mut Tables, new: &NewTask) {
        if let Some(idempotency) = new.idempotency {
            let owner = self.owner(new.task.owner, Fault::KeyOfAllOwners);
            tables.keys.insert((owner, idempotency.key), (idempotency, new.task.key()));
        }
    }

    pub(super) fn create_in(
        &self,
        tables: &mut Tables,
        new: &NewTask,
        now: Timestamp,
    ) -> Result<Option<Created>, CreateError> {
        let has_room = self.open(tables, new.task.owner, now) < new.open_max as usize || self.has(Fault::NoLimit);
        if self.has(Fault::CreateRefusesRetryAtLimit) && !has_room {
            return Err(CreateError::TooManyOpen { open_max: new.open_max });
        }
        let fits = self.stored(tables, new) <= new.stored_max || self.has(Fault::StoredNotLimited);
        let too_much = CreateError::TooMuchStored { stored_max: new.stored_max };
        if self.has(Fault::StoredRefusesRetry) && !fits {
            return Err(too_much);
        }
        let too_many = self.too_many_new(tables, new, now);
        if self.has(Fault::NewRefusesRetry)
            && let Some(refused) = too_many
        {
            return Err(refused);
        }
        if self.has(Fault::NewCountsRetries) {
            self.count_new(tables, new, now);
        }
        if let Some(decided) = self.by_key(tables, new, now) {
            return decided.map(Some);
        }
        if let Some(task) = tables.tasks.get(&new.task.key())
            && !self.expired(task, now, Fault::CreateIgnoresExpiry)
            && !self.has(Fault::CreateOverwrites)
            && !(self.has(Fault::CreateOverwritesEnded) && task.has_ended())
        {
            return Ok(Some(Created::Existing(task.clone())));
        }
        if self.has(Fault::NewCountsRefusals) {
            self.count_new(tables, new, now);
        }
        if !has_room {
            if self.has(Fault::KeyOfRefusedCreationKept) {
                self.put_key(tables, new);
            }
            return Err(CreateError::TooManyOpen { open_max: new.open_max });
        }
        if !fits {
            return Err(too_much);
        }
        match self.too_many_new(tables, new, now) {
            Some(refused) => Err(refused),
            None => {
                if !self.has(Fault::NewCountsRetries) && !self.has(Fault::NewCountsRefusals) {
                    self.count_new(tables, new, now);
                }
                Ok(None)
            }
        }
    }

    pub(super) fn window_left_ms(&self, since: Timestamp, now: Timestamp) -> u64 {
        match self.fault {
            Fault::NewNeverFreed => 1,
            Fault::NewWaitsForALateClock => 60_000_u64.saturating_sub(now.since_ms(since)),
            _ => limits::minute_left_ms(since, now),
        }
    }

    pub(super) fn too_many_new(&self, tables: &Tables, new: &NewTask, now: Timestamp) -> Option<CreateError> {
        let new_max = new.new_max.filter(|_| !self.has(Fault::NewNotLimited))?;
        let (since, count) = *tables.windows.get(&self.owner(new.task.owner, Fault::NewOfAllOwners))?;
        let ended = tables.tasks.values().filter(|task| self.has(Fault::NewFreedByEnds) && task.has_ended()).count();
        let left_ms = self.window_left_ms(since, now);
        let retry_ms = if self.has(Fault::NewSaysNoTime) { 0 } else { left_ms };
        (left_ms > 0 && count as usize >= new_max as usize + ended)
            .then_some(CreateError::TooManyNew { new_max, retry_ms })
    }

    pub(super) fn count_new(&self, tables: &mut Tables, new: &NewTask, now: Timestamp) {
        let owner = self.owner(new.task.owner, Fault::NewOfAllOwners);
        let window = tables.windows.entry(owner).or_insert((now, 0));
        if self.window_left_ms(window.0, now) == 0 {
            *window = (now, 0);
        }
        window.1 += 1;
    }

    /// The bytes of the owner's arguments and results, with those of the new task.
    pub(super) fn stored(&self, tables: &Tables, new: &NewTask) -> u64 {
        let owner = new.task.owner;
        let mine = tables.tasks.values().filter(|task| task.owner == owner || self.has(Fault::StoredOfAllOwners));
        let bytes = |task: &Task| match (&task.request, self.fault) {
            (_, Fault::StoredWithoutResults) => task.request.bytes(),
            (Payload::Parts { .. }, Fault::StoredWithoutParts) => task.stored_bytes() - task.request.bytes(),
            _ => task.stored_bytes(),
        };
        mine.map(bytes).fold(bytes(&new.task), u64::saturating_add)
    }
}

pub(super) fn fixed_id() -> TaskId {
    TaskId::from_bytes([0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]).expect("a UUID of version 7")
}
