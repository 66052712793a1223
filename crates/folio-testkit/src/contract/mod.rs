//! The contract of a store, as test cases that any store can be put through.
//!
//! A store's tests say where its data is kept ([`Home`]) and call [`store_contract!`](crate::store_contract), which
//! generates a test for every case.

pub mod blobs;
pub mod copies;
pub mod cursors;
pub mod drivers;
pub mod entries;
pub mod history;
pub mod lifecycle;
pub mod lists;
pub mod log;
pub mod pages;
pub mod parts;
pub mod policy;
pub mod runs;
pub mod scene;
pub mod search;
pub mod search_many;
pub mod search_meanwhile;
pub mod trace;
pub mod turns;
pub mod upkeep;
pub mod waiting;
pub mod written;

use std::sync::Arc;

use folio_store::Store;

/// The place for the data of one test.
pub trait Home: Send + Sync {
    /// Opens the store. Every further call opens the same data if [`Self::is_shared`], and fresh data otherwise.
    fn open(&self) -> Arc<dyn Store>;

    /// Whether the data can be opened more than once.
    fn is_shared(&self) -> bool;
}

/// Generates a test for every case of the contract, for stores in `$home`.
#[macro_export]
macro_rules! store_contract {
    ($home:expr) => {
        $crate::store_contract!(@cases $home, log: [
            commits_are_numbered_from_one_without_gaps,
            concurrent_commits_get_every_number_once,
            a_refused_commit_changes_nothing,
            a_commit_that_is_refused_takes_no_number_from_those_beside_it,
            the_same_key_does_nothing_and_answers_as_before,
            a_key_is_honoured_even_when_what_was_expected_no_longer_holds,
            a_key_under_which_something_else_is_asked_for_is_refused,
            concurrent_commits_with_one_key_happen_once,
            a_key_belongs_to_its_space,
            instants_never_run_backwards,
            the_log_gives_back_what_was_committed,
            changes_come_in_pages,
            changes_end_where_they_say_very_much,
            an_empty_commit_is_a_commit,
            a_space_that_has_grown_is_a_conflict,
            a_value_that_could_not_be_read_back_is_refused,
            a_reader_who_knows_of_a_commit_sees_all_of_it,
            what_was_acknowledged_is_there_after_closing_and_opening,
            a_healthy_store_is_found_healthy,
        ]);
        $crate::store_contract!(@cases $home, waiting: [
            waiting_ends_with_the_commit_that_it_waits_for,
            waiting_ends_at_once_if_there_is_something_already,
            waiting_is_for_one_space_only,
            another_store_on_the_same_data_sees_and_wakes,
        ]);
        $crate::store_contract!(@cases $home, entries: [
            an_entry_reads_back_as_it_was_added,
            handles_count_up_and_are_found,
            the_handles_of_one_space_mean_nothing_in_another,
            a_patch_sets_fields_and_counts_the_revision,
            patches_of_different_fields_both_hold,
            a_stale_version_is_refused_with_the_one_it_has,
            a_stale_version_is_accepted_if_all_is_as_wished,
            a_patch_that_changes_nothing_is_no_revision,
            archived_is_final,
            what_is_not_there_cannot_be_changed,
            an_id_is_given_once,
            things_added_earlier_in_a_commit_can_be_used_in_it,
            a_change_of_nothing_before_another_one_is_no_damage,
            unusual_texts_come_back_byte_by_byte,
        ]);
        $crate::store_contract!(@cases $home, lifecycle: [
            a_later_patch_of_a_field_holds_and_says_what_it_wrote_over_m7_4_33,
            patches_of_different_fields_are_no_conflict_m7_4_33,
            what_changed_nothing_hides_no_conflict_and_is_none_m7_4_33,
            what_is_archived_can_be_restored_m7_5_39,
            what_has_ended_is_found_until_it_is_noted_m7_1_8,
            what_no_longer_ends_is_not_found_m7_1_7,
            what_was_live_at_a_commit_is_found_there_though_it_has_expired_since_m7_2_16,
        ]);
        $crate::store_contract!(@cases $home, history: [
            history_tells_every_revision_in_order,
            a_replay_answers_with_the_versions_of_then,
            links_are_found_from_both_ends_and_kept_once,
            of_many_links_those_that_are_there_are_told_in_one_question,
            a_link_needs_both_its_ends,
        ]);
        $crate::store_contract!(@cases $home, lists: [
            nothing_said_gives_the_newest_ten,
            every_filter_restricts_and_all_hold_together,
            an_unknown_value_matches_nothing,
            expired_and_replaced_ones_come_only_when_asked_for,
            a_pinned_entry_does_not_expire,
            context_is_matched_by_path,
            an_entry_is_found_by_all_its_tags_and_values,
            the_store_lists_what_the_model_says,
            the_past_is_listed_as_it_was,
            a_list_goes_on_as_it_began_when_everything_has_changed_m7_2_15,
            what_came_since_was_added_or_changed,
            what_is_asked_at_once_is_of_one_state,
        ]);
        $crate::store_contract!(@cases $home, cursors: [
            pages_of_a_list_neither_repeat_nor_skip,
            pages_of_a_list_are_of_one_instant_m7_2_15,
            a_cursor_of_another_query_is_refused,
        ]);
        $crate::store_contract!(@cases $home, search: [
            case_accents_and_endings_do_not_matter,
            any_part_of_a_run_of_characters_is_found,
            all_words_or_any_of_them,
            the_best_match_comes_first,
            a_search_keeps_to_its_filters,
            a_search_never_crosses_spaces,
            signs_are_no_syntax,
            the_store_finds_what_the_model_says,
        ]);
        $crate::store_contract!(@cases $home, search_meanwhile: [
            a_changed_entry_is_found_by_what_it_says_now,
            pages_of_a_search_neither_repeat_nor_skip,
            a_search_sees_every_commit_before_it,
            a_search_finds_what_was_there_at_a_commit,
        ]);
        $crate::store_contract!(@cases $home, search_many: [
            of_what_very_many_say_the_newest_count,
            of_several_words_the_rarest_find,
            a_word_of_several_terms_is_as_rare_as_all_of_them,
            what_just_few_enough_say_is_counted,
        ]);
        $crate::store_contract!(@cases $home, pages: [
            a_page_is_made_once,
            concurrent_writers_make_one_page,
            pages_are_found_by_role_parent_run_and_thread,
            pages_come_in_the_order_in_which_they_were_added,
            the_status_of_a_page_is_a_revision,
            a_page_needs_its_parent,
            a_page_of_another_space_is_not_there,
        ]);
        $crate::store_contract!(@cases $home, policy: [
            a_new_space_has_the_policy_that_is_built_in,
            a_policy_is_replaced_as_a_whole_and_counts_its_versions,
            a_stale_policy_is_refused_with_the_version_it_has,
            a_write_that_went_by_another_policy_is_refused,
            a_type_is_registered_once_m7_3_22,
            a_policy_belongs_to_its_space,
        ]);
        $crate::store_contract!(@cases $home, runs: [
            a_run_begins_with_its_first_event,
            a_journal_gives_its_events_in_order_from_anywhere,
            a_run_cannot_start_twice_or_go_on_before_it_starts,
            a_journal_that_has_grown_is_a_conflict,
            runs_are_listed_newest_first,
            lists_tell_what_the_last_commits_of_runs_say,
        ]);
        $crate::store_contract!(@cases $home, parts: [
            what_comes_in_parts_is_there_as_a_whole_or_not_yet,
            parts_without_an_end_are_nothing,
            a_part_that_is_refused_takes_the_others_with_it,
            parts_under_a_key_are_written_once,
            others_write_before_or_after_what_comes_in_parts,
        ]);
        $crate::store_contract!(@cases $home, turns: [
            a_turn_reads_back_as_it_was_begun,
            a_turn_begins_once_and_ends_once,
            turns_are_found_by_thread_run_time_and_end,
            a_thread_with_a_name_longer_than_any_index_takes_is_found,
        ]);
        $crate::store_contract!(@cases $home, drivers: [
            a_run_has_one_driver,
            nothing_counts_of_the_claim_before_also_of_the_same_driver,
            who_gave_a_run_up_cannot_write_to_it,
            an_old_fence_gives_nothing_up,
            a_dead_driver_is_replaced_at_once,
            a_driver_that_was_replaced_is_told_so,
            anybody_may_ask_something_of_a_run,
        ]);
        $crate::store_contract!(@cases $home, written: [
            what_a_run_writes_no_other_run_takes_e9_15,
            names_count_as_long_as_their_runs_driver_may_write_e9_15,
            who_takes_a_name_of_a_dead_driver_gives_its_run_up_e9_15,
        ]);
        $crate::store_contract!(@cases $home, blobs: [
            a_body_reads_back,
            a_body_is_kept_once,
            a_body_belongs_to_its_space,
        ]);
        $crate::store_contract!(@cases $home, trace: [
            notes_come_back_as_they_were_and_in_order,
            a_note_is_no_commit,
            notes_from_before_something_was_forgotten_have_no_words,
            notes_are_found_by_turn_run_entry_part_and_commit,
            notes_belong_to_their_space,
            notes_that_say_a_text_in_other_letters_go_m7_6_50,
            notes_that_are_old_or_too_many_go,
        ]);
        $crate::store_contract!(@cases $home, copies: [
            a_copy_goes_on_as_the_store_would_have,
            a_copy_is_brought_up_to_date,
            a_token_that_a_copy_takes_back_stays_so,
            what_is_no_copy_is_not_written_to,
            a_commit_that_does_not_follow_is_not_taken_over,
        ]);
        $crate::store_contract!(@cases $home, upkeep: [
            what_may_be_due_is_found_by_its_instant_m7_6_45,
            live_observations_are_counted_m7_6_44,
            what_is_made_smaller_reads_as_before_m7_6_45,
            of_old_tombstones_only_the_numbers_stay_m7_6_46,
            what_is_erased_is_in_nothing_that_is_answered_m7_6_50,
            what_is_left_of_a_text_is_told_m7_6_50,
            pieces_of_a_text_that_never_ended_are_given_up,
            an_entry_never_names_a_text_that_is_not_kept,
        ]);
    };
    (@cases $home:expr, $module:ident: [$($case:ident),* $(,)?]) => {
        mod $module {
            #[allow(unused_imports, clippy::allow_attributes, reason = "what the expression for the home names")]
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::contract::$module::$case(&$home).await;
                }
            )*
        }
    };
}

#[cfg(test)]
mod tests {
    /// A case that is written but not listed would never run.
    #[test]
    fn every_case_is_listed() {
        let listed = include_str!("mod.rs");
        let files = [
            include_str!("log.rs"),
            include_str!("waiting.rs"),
            include_str!("entries.rs"),
            include_str!("history.rs"),
            include_str!("lifecycle.rs"),
            include_str!("lists.rs"),
            include_str!("cursors.rs"),
            include_str!("search.rs"),
            include_str!("search_many.rs"),
            include_str!("search_meanwhile.rs"),
            include_str!("pages.rs"),
            include_str!("policy.rs"),
            include_str!("runs.rs"),
            include_str!("parts.rs"),
            include_str!("drivers.rs"),
            include_str!("turns.rs"),
            include_str!("blobs.rs"),
            include_str!("trace.rs"),
            include_str!("upkeep.rs"),
        ];
        for line in files.iter().flat_map(|file| file.lines()) {
            if let Some(rest) = line.strip_prefix("pub async fn ") {
                let name = rest.split('(').next().unwrap();
                assert!(
                    listed.contains(&format!(" {name},")),
                    "{name} is not listed in store_contract!"
                );
            }
        }
    }
}
