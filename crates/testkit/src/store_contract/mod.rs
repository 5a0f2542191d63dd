//! The promises of every task store. Each function is one promise; [`store_contract!`](macro@crate::store_contract)
//! makes each of them a test of an adapter.

mod changing;
mod cleanup;
mod creating;
mod expiring;
mod filtering;
mod keeping;
mod later;
mod limiting;
mod listing;
mod mailboxes;
mod rushing;
mod starting;

pub use changing::*;
pub use cleanup::*;
pub use creating::*;
pub use expiring::*;
pub use filtering::*;
pub use keeping::*;
pub use later::*;
pub use limiting::*;
pub use listing::*;
pub use mailboxes::*;
pub use rushing::*;
pub use starting::*;

use std::sync::Arc;

use longhaul_core::ports::TaskStore;

/// The harness of an adapter: an empty store for each promise, and the parts that keep the store alive.
///
/// The store's verbs take the time as an argument, so that no harness has to let time pass.
pub trait StoreHarness: Send + Sync {
    /// The store.
    fn store(&self) -> &dyn TaskStore;
}

impl<S: TaskStore> StoreHarness for Arc<S> {
    fn store(&self) -> &dyn TaskStore {
        self.as_ref()
    }
}

/// Passes the names of all promises to the macro `[$then]`, after `$argument`.
#[macro_export]
macro_rules! store_promises {
    ([$($then:tt)+], $argument:path) => {
        $($then)+! {
            $argument;
            a_task_created_is_found_immediately,
            every_field_of_a_record_comes_back_as_it_was_written,
            large_values_of_any_script_come_back_whole,
            progress_comes_back_to_the_last_bit,
            a_task_is_not_overwritten_by_a_second_creation,
            a_finished_task_is_not_set_back_by_a_second_creation,
            the_same_key_with_the_same_request_gives_the_first_task_as_it_is_now,
            the_same_key_with_another_request_is_refused_and_writes_nothing,
            a_key_of_another_owner_is_not_found,
            a_key_is_remembered_after_the_task_ended,
            another_key_makes_another_task,
            the_parts_of_a_request_are_written_with_its_task,
            a_refused_creation_leaves_no_parts,
            a_retry_leaves_no_parts_of_its_own,
            a_second_creation_keeps_the_parts_of_the_first,
            a_new_task_begins_with_its_journal,
            a_refused_creation_leaves_no_journal,
            a_task_is_found_by_no_other_owner,
            a_task_is_changed_by_no_other_owner,
            owners_that_look_alike_share_nothing,
            a_claim_raises_the_attempt_and_takes_the_lease,
            a_task_that_is_held_cannot_be_claimed,
            a_lease_that_ran_out_lets_the_next_attempt_in,
            a_heartbeat_renews_the_lease,
            a_stale_attempt_cannot_write_anything,
            an_attempt_that_does_not_exist_yet_cannot_write_anything,
            an_ended_task_takes_no_event,
            a_finished_result_is_on_record_when_the_call_returns,
            progress_never_undoes_an_end,
            a_cancelled_task_keeps_no_late_result,
            a_refusal_carries_the_current_record,
            a_refusal_changes_nothing,
            a_task_that_sleeps_is_not_claimed_early,
            a_task_that_waits_for_answers_is_not_claimed,
            a_task_that_waits_for_answers_is_claimed_when_its_timer_is_due,
            answers_close_their_questions_one_by_one,
            what_was_asked_can_be_answered_while_an_attempt_works,
            a_suspension_does_not_wait_for_what_was_answered,
            a_waiting_task_is_woken_once,
            nothing_else_is_woken,
            a_task_that_starts_later_is_not_begun_before,
            a_later_start_moves_the_deadline_and_the_expiry,
            a_task_that_starts_later_can_be_cancelled_before,
            a_task_that_starts_later_takes_a_slot,
            a_message_is_sent_again_once_per_bound,
            resends_are_counted_until_the_task_is_claimed,
            failures_are_counted_across_calls,
            an_event_for_a_missing_task_is_not_found,
            cleanup_that_is_due_is_on_record,
            who_may_still_run_the_tool_is_on_record,
            nobody_runs_the_tool_of_a_task_that_nobody_held,
            one_worker_at_a_time_cleans_up,
            cleanup_ends_once_and_for_its_worker_only,
            cleanup_that_fails_too_often_is_given_up,
            nothing_is_cleaned_up_after_that_needs_no_cleanup,
            a_message_for_cleanup_is_sent_again,
            of_many_workers_at_once_one_begins_to_clean_up,
            the_latest_attempts_are_on_record,
            an_expired_task_is_not_found,
            an_expired_task_takes_no_event,
            an_expired_task_is_in_no_list,
            an_expired_task_does_not_block_its_id,
            an_expired_task_frees_its_idempotency_key,
            a_late_end_extends_the_expiry,
            a_task_is_kept_longer_on_request,
            an_ended_task_is_forgotten_on_request,
            a_task_lives_until_the_millisecond_before_its_expiry,
            the_limit_of_unfinished_tasks_holds,
            a_refused_creation_leaves_no_task_and_no_key,
            a_retry_is_answered_also_at_the_limit,
            a_result_releases_the_slot,
            an_error_releases_the_slot,
            a_cancel_releases_the_slot,
            exhausted_retries_release_the_slot,
            a_time_out_releases_the_slot,
            an_expiry_releases_the_slot,
            a_slot_is_released_once,
            a_slot_is_not_released_again_after_the_end,
            a_slot_is_not_released_before_the_end,
            a_lowered_limit_holds_at_once,
            one_owner_does_not_use_up_the_slots_of_another,
            the_limit_of_stored_bytes_holds,
            stored_results_count_and_ends_are_never_refused,
            the_parts_of_large_texts_count,
            a_retry_stores_nothing,
            one_owner_does_not_use_up_the_bytes_of_another,
            the_limit_of_new_tasks_holds,
            a_minute_later_there_is_room_for_new_tasks,
            an_end_makes_no_room_for_new_tasks,
            a_retry_is_not_a_new_task,
            a_creation_that_is_refused_is_not_a_new_task,
            a_creation_above_the_limit_of_new_tasks_leaves_nothing,
            one_owner_does_not_use_up_the_new_tasks_of_another,
            a_clock_that_was_set_back_does_not_lock_an_owner_out,
            a_limit_of_new_tasks_that_is_changed_holds_at_once,
            the_limit_of_new_tasks_holds_for_many_creations_at_once,
            a_list_has_the_newest_first,
            a_list_has_only_the_tasks_of_its_owner,
            a_list_has_ended_tasks_too,
            a_list_of_nothing_is_one_empty_page,
            pages_have_no_gaps_and_no_duplicates,
            pages_join_while_tasks_are_added,
            pages_are_full_also_where_tasks_expired_in_between,
            the_last_page_says_that_it_is_the_last,
            a_cursor_whose_task_is_gone_still_works,
            a_filtered_list_has_what_its_filter_takes,
            a_filtered_list_has_only_the_tasks_of_its_owner,
            a_filtered_list_follows_each_change,
            a_filter_without_a_status_takes_nothing,
            a_list_finds_tasks_by_all_of_their_labels,
            a_list_follows_each_change_of_labels,
            labels_of_an_expired_task_find_nothing,
            a_filtered_list_passes_over_what_has_expired,
            pages_of_a_filtered_list_have_no_gaps_and_no_duplicates,
            the_first_record_of_an_entry_stays,
            an_entry_keeps_when_and_by_whom_it_was_recorded,
            entries_of_other_names_and_kinds_are_separate,
            entries_of_other_tasks_are_not_seen,
            entries_of_any_size_and_script_come_back_whole,
            parts_come_back_joined_in_their_order,
            missing_parts_are_noticed,
            parts_of_other_names_and_tasks_are_separate,
            parts_written_again_replace_those_of_the_first_try,
            parts_written_before_the_task_belong_to_it,
            a_text_that_was_left_is_collected_as_often_as_wanted,
            the_first_text_in_a_mailbox_stays,
            an_empty_text_fills_a_mailbox_too,
            a_mailbox_is_found_by_its_owner_only,
            mailboxes_of_other_names_are_separate,
            an_expired_text_is_not_found,
            an_expired_text_can_be_replaced,
            a_later_text_does_not_move_the_expiry_of_the_first,
            texts_of_any_size_and_script_come_back_whole,
            of_many_texts_left_at_once_one_stays,
            of_many_claims_at_once_one_wins,
            of_many_ends_at_once_one_wins,
            of_many_records_of_one_entry_at_once_one_wins,
            of_many_creations_with_one_key_at_once_one_wins,
            of_many_creations_of_one_task_at_once_one_wins,
            the_limit_holds_for_many_creations_at_once,
            progress_and_an_end_at_once_never_lose_the_end,
            a_heartbeat_that_was_given_up_undoes_no_later_one,
            many_owners_at_once_do_not_disturb_each_other,
        }
    };
}

/// One test per promise of a task store. `$make` is a function without arguments whose future returns a
/// [`StoreHarness`] with an empty store.
#[macro_export]
macro_rules! store_contract {
    ($make:path) => {
        $crate::store_promises!([$crate::store_contract_tests], $make);
    };
}

/// The tests of [`store_contract!`].
#[doc(hidden)]
#[macro_export]
macro_rules! store_contract_tests {
    ($make:path; $($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::block_on(async {
                    let harness = $make().await;
                    $crate::store_contract::$promise($crate::StoreHarness::store(&harness)).await;
                });
            }
        )*
    };
}
