//! A task store in memory, into which one fault can be planted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, IdempotencyKey, Left, NewTask, Page, Recorded, StoreError, TaskStore,
};
use longhaul_core::{
    Cleanup, Entry, EntryKind, MailboxId, OwnerId, PartsName, Payload, Refusal, State, Status, Task, TaskEvent,
    TaskFilter, TaskId, TaskKey, TaskRecord, Timestamp, limits,
};

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
struct Tables {
    tasks: BTreeMap<TaskKey, Task>,
    first: BTreeMap<TaskKey, Task>,
    keys: BTreeMap<(OwnerId, [u8; 32]), (IdempotencyKey, TaskKey)>,
    refunds: u32,
    /// When the window of an owner's new tasks began, and how many are in it.
    windows: BTreeMap<OwnerId, (Timestamp, u32)>,
    journal: BTreeMap<(TaskKey, EntryKind, String), Entry>,
    parts: BTreeMap<(TaskKey, String), Vec<String>>,
    mailboxes: BTreeMap<(OwnerId, MailboxId), (String, Timestamp)>,
}

/// The store.
pub(crate) struct PlantedStore {
    fault: Fault,
    tables: Mutex<Tables>,
}

impl PlantedStore {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, tables: Mutex::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn tables<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> T {
        work(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A pause between a read and a write that are not atomic: long enough that on a busy machine too another of many
    /// callers reads before this one writes.
    fn gap() {
        if longhaul_testkit::is_one_of_many() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    fn owner(&self, owner: OwnerId, any: Fault) -> OwnerId {
        if self.has(any) { OwnerId::from_bytes([0; 32]) } else { owner }
    }

    fn expired(&self, task: &Task, now: Timestamp, ignored: Fault) -> bool {
        if self.has(Fault::ExpiryInWholeSeconds) {
            return now.as_ms() / 1_000 >= task.expires_at.as_ms() / 1_000;
        }
        !self.has(ignored) && task.has_expired(now)
    }

    fn kept(&self, task: &Task) -> Task {
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

    fn found(&self, tables: &Tables, key: &TaskKey) -> Option<Task> {
        if self.has(Fault::TaskOfAnyOwner) {
            return tables.tasks.values().find(|task| task.id == key.id).cloned();
        }
        tables.tasks.get(key).cloned()
    }

    fn by_key(&self, tables: &Tables, new: &NewTask, now: Timestamp) -> Option<Result<Created, CreateError>> {
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

    fn open(&self, tables: &Tables, owner: OwnerId, now: Timestamp) -> usize {
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

    fn put(&self, tables: &mut Tables, new: &NewTask) -> Created {
        let task = self.kept(&new.task);
        tables.tasks.insert(task.key(), task.clone());
        tables.first.insert(task.key(), task);
        self.put_key(tables, new);
        if !self.has(Fault::RequestPartsNotWritten) {
            Self::put_request(tables, new);
        }
        Created::New(new.task.clone())
    }

    fn put_request(tables: &mut Tables, new: &NewTask) {
        if !new.request_parts.is_empty() {
            tables.parts.insert((new.task.key(), PartsName::Request.to_string()), new.request_parts.to_vec());
        }
    }

    fn put_key(&self, tables: &mut Tables, new: &NewTask) {
        if let Some(idempotency) = new.idempotency {
            let owner = self.owner(new.task.owner, Fault::KeyOfAllOwners);
            tables.keys.insert((owner, idempotency.key), (idempotency, new.task.key()));
        }
    }

    fn create_in(&self, tables: &mut Tables, new: &NewTask, now: Timestamp) -> Result<Option<Created>, CreateError> {
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

    fn window_left_ms(&self, since: Timestamp, now: Timestamp) -> u64 {
        match self.fault {
            Fault::NewNeverFreed => 1,
            Fault::NewWaitsForALateClock => 60_000_u64.saturating_sub(now.since_ms(since)),
            _ => limits::minute_left_ms(since, now),
        }
    }

    fn too_many_new(&self, tables: &Tables, new: &NewTask, now: Timestamp) -> Option<CreateError> {
        let new_max = new.new_max.filter(|_| !self.has(Fault::NewNotLimited))?;
        let (since, count) = *tables.windows.get(&self.owner(new.task.owner, Fault::NewOfAllOwners))?;
        let ended = tables.tasks.values().filter(|task| self.has(Fault::NewFreedByEnds) && task.has_ended()).count();
        let left_ms = self.window_left_ms(since, now);
        let retry_ms = if self.has(Fault::NewSaysNoTime) { 0 } else { left_ms };
        (left_ms > 0 && count as usize >= new_max as usize + ended)
            .then_some(CreateError::TooManyNew { new_max, retry_ms })
    }

    fn count_new(&self, tables: &mut Tables, new: &NewTask, now: Timestamp) {
        let owner = self.owner(new.task.owner, Fault::NewOfAllOwners);
        let window = tables.windows.entry(owner).or_insert((now, 0));
        if self.window_left_ms(window.0, now) == 0 {
            *window = (now, 0);
        }
        window.1 += 1;
    }

    /// The bytes of the owner's arguments and results, with those of the new task.
    fn stored(&self, tables: &Tables, new: &NewTask) -> u64 {
        let owner = new.task.owner;
        let mine = tables.tasks.values().filter(|task| task.owner == owner || self.has(Fault::StoredOfAllOwners));
        let bytes = |task: &Task| match (&task.request, self.fault) {
            (_, Fault::StoredWithoutResults) => task.request.bytes(),
            (Payload::Parts { .. }, Fault::StoredWithoutParts) => task.stored_bytes() - task.request.bytes(),
            _ => task.stored_bytes(),
        };
        mine.map(bytes).fold(bytes(&new.task), u64::saturating_add)
    }

    /// The event as a store without this condition would see it.
    fn distorted_event(&self, task: &Task, event: &TaskEvent) -> TaskEvent {
        let mut event = event.clone();
        match &mut event {
            TaskEvent::Heartbeat { attempt, lease_until, .. } => {
                self.distort_fence(task, attempt);
                if let (Fault::LeaseNotRenewed, State::Running { lease }) = (self.fault, &task.state) {
                    *lease_until = lease.until;
                }
            }
            TaskEvent::SetVariables { attempt, .. }
            | TaskEvent::Suspend { attempt, .. }
            | TaskEvent::Retry { attempt, .. }
            | TaskEvent::Finish { attempt, .. } => self.distort_fence(task, attempt),
            TaskEvent::Resend { not_since } if self.has(Fault::ResendAlways) => *not_since = task.sent_at,
            TaskEvent::EndCleanup { token, .. } => {
                if let (Fault::CleanupEndedByAnyone, Cleanup::Armed { lease: Some(lease), .. }) =
                    (self.fault, task.cleanup)
                {
                    *token = lease.token;
                }
            }
            _ => {}
        }
        event
    }

    fn distort_fence(&self, task: &Task, attempt: &mut u32) {
        if self.has(Fault::FenceOff) || (self.has(Fault::FenceOnlyBackwards) && *attempt > task.attempt) {
            *attempt = task.attempt;
        }
    }

    /// The task as a store without this condition would see it.
    fn distorted_task(&self, task: &Task, event: &TaskEvent) -> Task {
        let mut record: TaskRecord = task.record().clone();
        let overwritten = match (self.fault, event) {
            (Fault::EndOverwritten, TaskEvent::Finish { .. } | TaskEvent::Cancel) => task.has_ended(),
            (Fault::ProgressUndoesTheEnd, TaskEvent::Heartbeat { .. }) => task.has_ended(),
            (Fault::CancelLosesToResult, TaskEvent::Finish { .. }) => task.status() == Status::Cancelled,
            _ => false,
        };
        let lease = longhaul_core::Lease {
            until: Timestamp::from_ms(0),
            token: longhaul_core::LeaseToken::from_random([0; 16]),
        };
        if overwritten {
            record.state = State::Running { lease };
        }
        if let (Fault::LeaseIgnored, TaskEvent::Claim { .. }, State::Running { .. }) = (self.fault, event, &task.state)
        {
            record.state = State::Running { lease };
        }
        if let (Fault::SleepIgnored, State::Sleeping { .. }) = (self.fault, &task.state) {
            record.state = State::Queued;
        }
        if let (Fault::AnsweredIsAskedAgain, TaskEvent::Suspend { .. }) = (self.fault, event) {
            record.answered.clear();
        }
        self.distort_waiting(&mut record, event);
        self.distort_cleanup(&mut record, event);
        if self.has(Fault::ApplyIgnoresExpiry) {
            record.expires_at = Timestamp::from_ms(u64::MAX);
        }
        Task::restore(record)
    }

    fn distort_waiting(&self, record: &mut TaskRecord, event: &TaskEvent) {
        if !matches!(event, TaskEvent::Wake { .. }) {
            return;
        }
        let far = Timestamp::from_ms(u64::MAX);
        match (self.fault, &mut record.state) {
            (Fault::WakeMovesLater, State::Sleeping { until } | State::InputRequired { until: Some(until), .. }) => {
                *until = far;
            }
            (Fault::WakeCutsRetryShort, State::Sleeping { .. }) => record.failures = 0,
            (Fault::LaterStartMovedByWake, State::Sleeping { .. }) => record.attempt = record.attempt.max(1),
            (Fault::WakeWaitsForAnswers, State::InputRequired { until, .. }) => *until = Some(far),
            _ => {}
        }
    }

    fn distort_cleanup(&self, record: &mut TaskRecord, event: &TaskEvent) {
        match (self.fault, event, record.cleanup) {
            (Fault::CleanupLeaseIgnored, TaskEvent::BeginCleanup { .. }, Cleanup::Armed { tries, .. }) => {
                record.cleanup = Cleanup::Armed { tries, lease: None };
            }
            (Fault::CleanupAfterAnyEnd, TaskEvent::BeginCleanup { .. }, Cleanup::Armed { .. })
                if matches!(record.state, State::Completed { .. }) =>
            {
                record.state = State::Cancelled;
            }
            (Fault::CleanupNotResent, TaskEvent::Resend { .. }, _) => record.cleanup = Cleanup::None,
            _ => {}
        }
    }

    fn races(&self, event: &TaskEvent) -> bool {
        match event {
            TaskEvent::Claim { .. } => self.has(Fault::ClaimsRace),
            TaskEvent::Finish { .. } | TaskEvent::Cancel => self.has(Fault::EndsRace),
            TaskEvent::Heartbeat { .. } => self.has(Fault::ProgressRacesTheEnd),
            TaskEvent::BeginCleanup { .. } => self.has(Fault::CleanupsRace),
            _ => false,
        }
    }

    fn decide(
        &self,
        tables: &mut Tables,
        key: &TaskKey,
        event: &TaskEvent,
        now: Timestamp,
    ) -> Result<Task, ApplyError> {
        if self.has(Fault::EventMakesTask) && !tables.tasks.contains_key(key) {
            let other = tables.first.values().next().cloned();
            let made = longhaul_testkit::given::task(&longhaul_testkit::SeededIds::new(1), key.owner, now);
            tables.tasks.insert(*key, other.unwrap_or(made));
        }
        let task = self.found(tables, key).ok_or(ApplyError::NotFound)?;
        if self.expired(&task, now, Fault::ApplyIgnoresExpiry) {
            return Err(ApplyError::NotFound);
        }
        match self.distorted_task(&task, event).apply(&self.distorted_event(&task, event), now) {
            Ok(next) => Ok(self.kept_after(&task, next)),
            Err(why) => self.refuse(tables, task, why),
        }
    }

    fn kept_after(&self, before: &Task, next: Task) -> Task {
        let mut record = next.into_record();
        if self.has(Fault::ClaimForgetsQuestions) {
            record.asked.clear();
        }
        if self.has(Fault::LateEndMovesNoExpiry) {
            record.expires_at = before.expires_at;
        }
        if self.has(Fault::LaterStartNotCancelled) && before.not_before.is_some() && record.state == State::Cancelled {
            record.state = before.state.clone();
        }
        if self.has(Fault::FailuresNotStored) {
            record.failures = 0;
        }
        if self.has(Fault::ResendsNotStored) {
            record.resends = 0;
        }
        match (self.fault, record.cleanup) {
            (Fault::CleanupNotStored, _) => record.cleanup = Cleanup::None,
            (Fault::CleanupTriesNotStored, Cleanup::Armed { lease, .. }) => {
                record.cleanup = Cleanup::Armed { tries: 0, lease };
            }
            _ => {}
        }
        Task::restore(record)
    }

    fn refuse(&self, tables: &mut Tables, task: Task, why: Refusal) -> Result<Task, ApplyError> {
        if self.has(Fault::RefusalAsSuccess) {
            return Ok(task);
        }
        if self.has(Fault::SlotReleasedByRefusals) && why == Refusal::Ended {
            tables.refunds += 1;
        }
        if self.has(Fault::RefusalWrites) {
            let mut record = task.record().clone();
            record.updated_at = record.updated_at.plus_ms(1);
            tables.tasks.insert(task.key(), Task::restore(record));
        }
        let first = tables.first.get(&task.key()).filter(|_| self.has(Fault::RefusalCarriesTheFirstRecord)).cloned();
        Err(ApplyError::Refused { current: Box::new(first.unwrap_or(task)), why })
    }

    fn entry_key(&self, key: &TaskKey, entry: &Entry) -> (TaskKey, EntryKind, String) {
        let key = if self.has(Fault::EntriesOfAllTasks) {
            TaskKey::new(OwnerId::from_bytes([0; 32]), fixed_id())
        } else {
            *key
        };
        let kind = if self.has(Fault::EntriesByNameOnly) { EntryKind::Step } else { entry.kind };
        let lower = self.has(Fault::EntryNamesInLowerCase);
        (key, kind, if lower { entry.name.to_lowercase() } else { entry.name.clone() })
    }
}

fn fixed_id() -> TaskId {
    TaskId::from_bytes([0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]).expect("a UUID of version 7")
}

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
        let mut all: Vec<Task> = self.tables(|tables| tables.tasks.values().cloned().collect());
        all.retain(|task| task.owner == *owner || self.has(Fault::FilteredOfAnyOwner));
        all.retain(|task| {
            before.is_none_or(|id| task.id < id) && !self.expired(task, now, Fault::FilteredIgnoresExpiry)
        });
        all.sort_by_key(|task| std::cmp::Reverse(task.id));
        if self.has(Fault::FilteredBySlice) {
            all.truncate(limit);
        }
        all.retain(|task| of_status(task) && of_tool(task));
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

    fn parts_name(&self, key: &TaskKey, name: &PartsName) -> (TaskKey, String) {
        let by_name = self.has(Fault::PartsByName);
        let key = if by_name { TaskKey::new(OwnerId::from_bytes([0; 32]), fixed_id()) } else { *key };
        (key, name.to_string())
    }
}
