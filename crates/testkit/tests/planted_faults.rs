//! The proof of the contract: each mistake that an adapter may make breaks a promise, and a store without mistakes
//! breaks none.

#[path = "planted/one_database.rs"]
mod one_database;
#[path = "planted/store.rs"]
mod store;

use std::panic::catch_unwind;
use std::sync::Arc;

use longhaul_core::{Status, TaskEvent};
use longhaul_testkit::{SeededIds, block_on, check_store_model, given, store_equals_the_model, store_promises};
use store::{Fault, PlantedStore};

/// The names of the promises that a store with this fault breaks.
macro_rules! broken_promises {
    ($fault:path; $($promise:ident,)*) => {
        [$((
            stringify!($promise),
            (|fault| block_on(async {
                longhaul_testkit::store_contract::$promise(&PlantedStore::new(fault)).await;
            })) as fn(Fault),
        )),*]
    };
}

fn broken_by(fault: Fault) -> Vec<&'static str> {
    let promises = store_promises!([broken_promises], Fault::None);
    promises.into_iter().filter(|(_, keep)| catch_unwind(|| keep(fault)).is_err()).map(|(name, _)| name).collect()
}

#[test]
fn a_store_without_mistakes_keeps_every_promise() {
    assert_eq!(broken_by(Fault::None), [""; 0]);
    check_store_model(64, async || Arc::new(PlantedStore::new(Fault::None)));
}

#[test]
fn every_promise_is_in_the_list() {
    let sources = [
        include_str!("../src/store_contract/changing.rs"),
        include_str!("../src/store_contract/cleaning.rs"),
        include_str!("../src/store_contract/creating.rs"),
        include_str!("../src/store_contract/expiring.rs"),
        include_str!("../src/store_contract/filtering.rs"),
        include_str!("../src/store_contract/keeping.rs"),
        include_str!("../src/store_contract/later.rs"),
        include_str!("../src/store_contract/limiting.rs"),
        include_str!("../src/store_contract/listing.rs"),
        include_str!("../src/store_contract/mailboxes.rs"),
        include_str!("../src/store_contract/rushing.rs"),
        include_str!("../src/store_contract/starting.rs"),
    ];
    let written = sources.iter().map(|source| source.matches("\npub async fn ").count()).sum::<usize>();
    assert_eq!(written, store_promises!([broken_promises], Fault::None).len());
}

macro_rules! finds {
    ($($test:ident: $fault:expr;)*) => {
        $(
            #[test]
            fn $test() {
                let broken = broken_by($fault);
                assert!(!broken.is_empty(), "no promise finds this");
                println!("{broken:?}");
            }
        )*
    };
}

mod the_contract_finds {
    use super::*;

    finds! {
        a_fence_that_is_off: Fault::FenceOff;
        a_fence_that_lets_later_attempts_in: Fault::FenceOnlyBackwards;
        a_lease_that_is_ignored: Fault::LeaseIgnored;
        a_lease_that_is_not_renewed: Fault::LeaseNotRenewed;
        a_sleep_that_is_ignored: Fault::SleepIgnored;
        a_refusal_that_looks_like_success: Fault::RefusalAsSuccess;
        a_refusal_that_writes: Fault::RefusalWrites;
        a_refusal_that_carries_an_old_record: Fault::RefusalCarriesTheFirstRecord;
        an_end_that_is_overwritten: Fault::EndOverwritten;
        progress_that_undoes_an_end: Fault::ProgressUndoesTheEnd;
        a_cancel_that_loses_to_a_late_result: Fault::CancelLosesToResult;
        an_event_that_makes_a_task: Fault::EventMakesTask;
        a_resend_that_always_works: Fault::ResendAlways;
        failures_that_are_not_stored: Fault::FailuresNotStored;
        resends_that_are_not_stored: Fault::ResendsNotStored;
        changes_that_are_not_kept: Fault::ChangesNotKept;
        a_look_up_that_ignores_expiry: Fault::GetIgnoresExpiry;
        an_event_that_ignores_expiry: Fault::ApplyIgnoresExpiry;
        a_list_that_ignores_expiry: Fault::ListIgnoresExpiry;
        a_creation_that_ignores_expiry: Fault::CreateIgnoresExpiry;
        a_key_that_ignores_expiry: Fault::KeyIgnoresExpiry;
        an_expiry_in_whole_seconds: Fault::ExpiryInWholeSeconds;
        a_late_end_that_moves_no_expiry: Fault::LateEndMovesNoExpiry;
        a_creation_that_overwrites: Fault::CreateOverwrites;
        a_creation_that_overwrites_an_ended_task: Fault::CreateOverwritesEnded;
        a_retry_that_is_refused_at_the_limit: Fault::CreateRefusesRetryAtLimit;
        a_key_that_is_forgotten: Fault::KeyForgotten;
        a_key_that_is_forgotten_at_the_end: Fault::KeyForgottenAtTheEnd;
        a_key_that_takes_any_request: Fault::KeyTakesAnyRequest;
        a_key_that_all_owners_share: Fault::KeyOfAllOwners;
        a_key_of_a_refused_creation_that_stays: Fault::KeyOfRefusedCreationKept;
        a_key_that_gives_an_old_record: Fault::KeyGivesTheFirstRecord;
        a_limit_that_does_not_hold: Fault::NoLimit;
        a_limit_that_all_owners_share: Fault::LimitForAllOwners;
        stored_bytes_that_are_not_limited: Fault::StoredNotLimited;
        stored_bytes_that_all_owners_share: Fault::StoredOfAllOwners;
        stored_bytes_without_results: Fault::StoredWithoutResults;
        stored_bytes_without_parts: Fault::StoredWithoutParts;
        stored_bytes_that_refuse_a_retry: Fault::StoredRefusesRetry;
        new_tasks_that_are_not_limited: Fault::NewNotLimited;
        new_tasks_that_all_owners_share: Fault::NewOfAllOwners;
        new_tasks_that_count_retries: Fault::NewCountsRetries;
        new_tasks_that_count_refusals: Fault::NewCountsRefusals;
        new_tasks_that_ends_free: Fault::NewFreedByEnds;
        new_tasks_whose_window_never_ends: Fault::NewNeverFreed;
        new_tasks_that_wait_for_a_late_clock: Fault::NewWaitsForALateClock;
        new_tasks_that_refuse_a_retry: Fault::NewRefusesRetry;
        new_tasks_that_say_no_time: Fault::NewSaysNoTime;
        new_tasks_that_race: Fault::NewRaces;
        a_slot_that_a_result_keeps: Fault::SlotNotReleasedOn(Status::Completed);
        a_slot_that_an_error_keeps: Fault::SlotNotReleasedOn(Status::Failed);
        a_slot_that_a_cancel_keeps: Fault::SlotNotReleasedOn(Status::Cancelled);
        a_slot_that_an_expiry_keeps: Fault::SlotNotReleasedOnExpiry;
        a_slot_that_is_released_by_refusals: Fault::SlotReleasedByRefusals;
        a_task_that_any_owner_finds: Fault::TaskOfAnyOwner;
        a_list_of_any_owner: Fault::ListOfAnyOwner;
        a_list_in_the_wrong_order: Fault::ListOldestFirst;
        a_list_without_ended_tasks: Fault::ListWithoutEnded;
        a_page_that_repeats_a_task: Fault::PageRepeatsItsLast;
        a_page_that_skips_a_task: Fault::PageSkipsOne;
        a_page_that_is_short: Fault::PagesAreShort;
        a_last_page_with_a_cursor: Fault::LastPageHasNext;
        a_cursor_that_has_to_be_a_task: Fault::CursorMustBeATask;
        a_filter_that_ignores_the_status: Fault::FilteredOfAnyStatus;
        a_filter_by_the_status_of_the_beginning: Fault::FilteredOfTheFirstStatus;
        a_filter_that_ignores_the_tool: Fault::FilteredOfAnyTool;
        a_filter_by_a_part_of_the_tools_name: Fault::FilteredByPartOfTool;
        a_filter_that_sees_one_page_only: Fault::FilteredBySlice;
        a_filtered_list_in_the_wrong_order: Fault::FilteredOldestFirst;
        a_filtered_page_that_skips_a_task: Fault::FilteredPageSkipsOne;
        a_filtered_list_without_its_last_task: Fault::FilteredLosesItsLast;
        a_filter_without_a_status_that_takes_all: Fault::FilteredWithoutStatusHasAll;
        a_filtered_list_that_ignores_expiry: Fault::FilteredIgnoresExpiry;
        a_filtered_list_of_any_owner: Fault::FilteredOfAnyOwner;
        text_that_is_cut: Fault::TextIsCut;
        text_that_loses_characters: Fault::NulIsDropped;
        numbers_that_are_rounded: Fault::NumbersAreRounded;
        a_field_that_is_dropped: Fault::TraceIsDropped;
        a_record_that_overwrites: Fault::RecordOverwrites;
        a_record_that_claims_to_be_first: Fault::RecordSaysFirstAlways;
        entries_that_are_stored_by_name_only: Fault::EntriesByNameOnly;
        entries_that_all_tasks_share: Fault::EntriesOfAllTasks;
        entries_whose_names_are_folded: Fault::EntryNamesInLowerCase;
        parts_that_all_tasks_share: Fault::PartsByName;
        parts_that_are_missing_unnoticed: Fault::PartsMissingUnnoticed;
        parts_in_the_wrong_order: Fault::PartsSortedAsText;
        parts_that_are_not_replaced: Fault::PartsKeptFromTheFirstTry;
        parts_that_need_a_task: Fault::PartsNeedATask;
        parts_of_a_request_that_are_not_written: Fault::RequestPartsNotWritten;
        parts_of_a_request_that_are_written_before_the_decision: Fault::RequestPartsBeforeTheDecision;
        parts_of_a_refused_request_that_stay: Fault::RequestPartsOfRefusedKept;
        parts_of_a_retry_that_stay: Fault::RequestPartsOfRetryKept;
        claims_that_race: Fault::ClaimsRace;
        ends_that_race: Fault::EndsRace;
        records_that_race: Fault::RecordsRace;
        creations_that_race: Fault::CreationsRace;
        progress_that_races_the_end: Fault::ProgressRacesTheEnd;
        a_mailbox_that_is_emptied_by_reading: Fault::MailboxEmptiedByReading;
        a_mailbox_that_is_overwritten: Fault::MailboxOverwritten;
        a_mailbox_that_claims_to_be_first: Fault::MailboxSaysFirstAlways;
        an_empty_text_that_counts_as_none: Fault::MailboxEmptyTextIsNone;
        a_mailbox_of_any_owner: Fault::MailboxOfAnyOwner;
        a_mailbox_of_any_name: Fault::MailboxOfAnyName;
        a_mailbox_that_ignores_expiry_when_read: Fault::MailboxReadIgnoresExpiry;
        a_mailbox_that_expires_in_whole_seconds: Fault::MailboxExpiresInWholeSeconds;
        a_mailbox_that_stays_full_after_its_expiry: Fault::MailboxStaysFull;
        a_mailbox_whose_expiry_moves: Fault::MailboxExpiryMoves;
        a_mailbox_whose_text_is_cut: Fault::MailboxTextIsCut;
        mailboxes_that_race: Fault::MailboxesRace;
        cleaning_that_is_not_stored: Fault::CleaningNotStored;
        cleaning_whose_lease_is_ignored: Fault::CleaningLeaseIgnored;
        cleaning_that_anyone_ends: Fault::CleaningEndedByAnyone;
        cleaning_whose_tries_are_not_stored: Fault::CleaningTriesNotStored;
        cleaning_after_any_end: Fault::CleaningAfterAnyEnd;
        cleaning_whose_message_is_not_sent_again: Fault::CleaningNotResent;
        cleanings_that_race: Fault::CleaningsRace;
        a_wake_that_delays: Fault::WakeMovesLater;
        a_wake_that_cuts_a_retry_short: Fault::WakeCutsRetryShort;
        a_wake_that_ends_a_question: Fault::WakeWaitsForAnswers;
        a_later_start_that_is_not_stored: Fault::LaterStartNotStored;
        a_later_start_that_a_wake_moves: Fault::LaterStartMovedByWake;
        a_later_start_that_takes_no_slot: Fault::LaterStartTakesNoSlot;
        a_later_start_that_cannot_be_cancelled: Fault::LaterStartNotCancelled;
    }
}

#[test]
fn each_promise_about_cleaning_finds_its_mistake() {
    for (promise, fault) in [
        ("cleaning_that_is_due_is_on_record", Fault::CleaningNotStored),
        ("one_worker_at_a_time_cleans_up", Fault::CleaningLeaseIgnored),
        ("cleaning_ends_once_and_for_its_worker_only", Fault::CleaningEndedByAnyone),
        ("cleaning_that_fails_too_often_is_given_up", Fault::CleaningTriesNotStored),
        ("nothing_is_cleaned_up_after_that_needs_no_cleaning", Fault::CleaningAfterAnyEnd),
        ("a_message_for_cleaning_is_sent_again", Fault::CleaningNotResent),
        ("of_many_workers_at_once_one_begins_to_clean_up", Fault::CleaningsRace),
    ] {
        let broken = broken_by(fault);
        assert!(broken.contains(&promise), "{promise} does not find {fault:?}, which breaks {broken:?}");
    }
}

#[test]
fn each_promise_about_wakes_finds_its_mistake() {
    for (promise, fault) in [
        ("a_waiting_task_is_woken_once", Fault::WakeMovesLater),
        ("nothing_else_is_woken", Fault::WakeCutsRetryShort),
        ("nothing_else_is_woken", Fault::WakeWaitsForAnswers),
    ] {
        let broken = broken_by(fault);
        assert!(broken.contains(&promise), "{promise} does not find {fault:?}, which breaks {broken:?}");
    }
}

#[test]
fn each_promise_about_later_starts_finds_its_mistake() {
    for (promise, fault) in [
        ("a_later_start_moves_the_deadline_and_the_expiry", Fault::LaterStartNotStored),
        ("a_task_that_starts_later_is_not_begun_before", Fault::LaterStartMovedByWake),
        ("a_task_that_starts_later_takes_a_slot", Fault::LaterStartTakesNoSlot),
        ("a_task_that_starts_later_can_be_cancelled_before", Fault::LaterStartNotCancelled),
    ] {
        let broken = broken_by(fault);
        assert!(broken.contains(&promise), "{promise} does not find {fault:?}, which breaks {broken:?}");
    }
}

#[test]
fn each_promise_of_mailboxes_finds_its_mistake() {
    for (promise, fault) in [
        ("a_text_that_was_left_is_collected_as_often_as_wanted", Fault::MailboxEmptiedByReading),
        ("the_first_text_in_a_mailbox_stays", Fault::MailboxOverwritten),
        ("the_first_text_in_a_mailbox_stays", Fault::MailboxSaysFirstAlways),
        ("an_empty_text_fills_a_mailbox_too", Fault::MailboxEmptyTextIsNone),
        ("a_mailbox_is_found_by_its_owner_only", Fault::MailboxOfAnyOwner),
        ("mailboxes_of_other_names_are_separate", Fault::MailboxOfAnyName),
        ("an_expired_text_is_not_found", Fault::MailboxReadIgnoresExpiry),
        ("an_expired_text_is_not_found", Fault::MailboxExpiresInWholeSeconds),
        ("an_expired_text_can_be_replaced", Fault::MailboxStaysFull),
        ("a_later_text_does_not_move_the_expiry_of_the_first", Fault::MailboxExpiryMoves),
        ("texts_of_any_size_and_script_come_back_whole", Fault::MailboxTextIsCut),
        ("of_many_texts_left_at_once_one_stays", Fault::MailboxesRace),
    ] {
        let broken = broken_by(fault);
        assert!(broken.contains(&promise), "{promise} does not find {fault:?}, which breaks {broken:?}");
    }
}

#[test]
fn each_promise_about_the_parts_of_a_request_finds_its_mistake() {
    for (promise, fault) in [
        ("the_parts_of_a_request_are_written_with_its_task", Fault::RequestPartsNotWritten),
        ("a_refused_creation_leaves_no_parts", Fault::RequestPartsOfRefusedKept),
        ("a_retry_leaves_no_parts_of_its_own", Fault::RequestPartsOfRetryKept),
        ("a_second_creation_keeps_the_parts_of_the_first", Fault::RequestPartsBeforeTheDecision),
    ] {
        let broken = broken_by(fault);
        assert!(broken.contains(&promise), "{promise} does not find {fault:?}, which breaks {broken:?}");
    }
}

#[test]
fn the_model_takes_a_task_that_is_forgotten_in_the_moment_of_its_creation() {
    let task = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW);
    let events = [(TaskEvent::Cancel, given::NOW), (TaskEvent::Forget, given::NOW)];
    block_on(store_equals_the_model(&PlantedStore::new(Fault::None), task, &events));
}

#[test]
fn the_model_finds_a_fault_that_it_does_not_know() {
    for fault in [Fault::FenceOff, Fault::EndOverwritten, Fault::LateEndMovesNoExpiry, Fault::RefusalWrites] {
        let outcome = catch_unwind(|| check_store_model(256, async move || Arc::new(PlantedStore::new(fault))));
        assert!(outcome.is_err(), "{fault:?} was not found");
    }
}

/// The names of the promises of a store that is one database with a queue, each with what keeps it.
macro_rules! broken_promises_of_one_database {
    ($fault:path; $($promise:ident,)*) => {
        [$((
            stringify!($promise),
            (|fault| block_on(async {
                longhaul_testkit::one_database_contract::$promise(&one_database::PlantedDatabase::new(fault)).await;
            })) as fn(one_database::Fault),
        )),*]
    };
}

#[test]
fn each_promise_of_one_database_finds_its_mistake() {
    use one_database::Fault;

    let promises = longhaul_testkit::one_database_promises!([broken_promises_of_one_database], Fault::None);
    let broken_by = |fault: Fault| -> Vec<&str> {
        promises.iter().filter(|(_, keep)| catch_unwind(|| keep(fault)).is_err()).map(|(name, _)| *name).collect()
    };
    assert_eq!(broken_by(Fault::None), [""; 0]);
    for (promise, fault) in [
        ("a_new_task_comes_with_its_message", Fault::SaysThatItSent),
        ("a_new_task_comes_with_its_message", Fault::ForgetsTheTrace),
        ("a_new_task_comes_with_its_message", Fault::SendsTwice),
        ("the_message_of_a_new_task_is_a_message_like_others", Fault::SendsTwice),
        ("the_message_of_a_later_start_comes_when_it_is_wanted", Fault::ForgetsTheDelay),
        ("an_existing_task_gets_no_second_message", Fault::SendsForARetry),
        ("a_refused_creation_sends_nothing", Fault::SendsBeforeItDecides),
        ("a_creation_that_asks_for_no_message_sends_none", Fault::SendsUnasked),
    ] {
        let broken = broken_by(fault);
        assert!(broken.contains(&promise), "{promise} does not find {fault:?}, which breaks {broken:?}");
    }
}
