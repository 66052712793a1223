//! The contract of a store, as test cases that any store can be put through.
//!
//! A store's tests say where its data is kept ([`Home`]) and call [`store_contract!`](crate::store_contract), which
//! generates a test for every case.

pub mod blobs;
pub mod books;
pub mod copies;
pub mod counts;
pub mod cursors;
pub mod drivers;
pub mod entries;
pub mod forgotten;
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
pub mod workspace;
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
///
/// With `lists of $home`, those are left out that read no list of entries and search for nothing: a store that keeps an
/// index of the live entries in memory takes only these from it, so in everything else it is the store without the
/// index, for which all cases are generated.
#[macro_export]
macro_rules! store_contract {
    (lists of $home:expr) => {
        $crate::store_contract!(@cases $home, log: [
            commits_of_a_space_are_numbered_from_one_without_gaps,
            concurrent_commits_get_distinct_numbers_without_gaps,
            refused_commit_changes_nothing,
            refused_commit_uses_no_number_among_concurrent_commits,
            repeated_idempotency_key_returns_the_first_answer,
            idempotent_retry_succeeds_although_its_expectation_is_stale,
            idempotency_key_reused_for_another_request_is_refused,
            concurrent_commits_with_the_same_key_are_applied_once,
            idempotency_key_is_scoped_to_its_space,
            commit_times_never_decrease,
            log_returns_commits_unchanged,
            changes_are_returned_in_pages,
            changes_page_ends_early_after_large_commits,
            empty_commit_gets_a_number,
            commit_with_a_stale_space_head_is_a_conflict,
            too_deeply_nested_value_is_refused,
            readers_see_commits_whole_during_concurrent_writes,
            acknowledged_commits_survive_reopening_the_store,
            check_of_a_healthy_store_reports_no_problems,
        ]);
        $crate::store_contract!(@cases $home, entries: [
            added_entry_reads_back_with_every_field,
            entry_handles_count_up_and_resolve_to_their_entries,
            entry_ids_and_handles_are_scoped_to_their_space,
            patch_sets_fields_and_increments_the_version,
            concurrent_patches_of_different_fields_both_apply,
            stale_patch_is_refused_with_the_current_version,
            patch_with_a_stale_version_succeeds_if_already_applied,
            patch_without_effect_makes_no_revision,
            archived_entry_cannot_be_patched_back,
            changing_a_missing_entry_or_page_is_not_found,
            adding_an_entry_with_a_used_id_is_refused,
            changes_can_refer_to_earlier_additions_in_the_same_commit,
            patches_without_effect_pass_the_store_check,
            unusual_texts_read_back_unchanged,
        ]);
        $crate::store_contract!(@cases $home, lifecycle: [
            later_patch_of_a_field_wins_and_reports_the_conflict_m7_4_33,
            patches_of_different_fields_do_not_conflict_m7_4_33,
            patch_without_effect_neither_causes_nor_hides_a_conflict_m7_4_33,
            unchanged_field_of_a_patch_does_not_conflict_m7_4_33,
            archived_entry_can_be_restored_m7_5_39,
            expired_entry_is_reported_until_its_expiry_is_recorded_m7_1_8,
            pinned_archived_or_extended_entry_is_not_reported_as_expired_m7_1_7,
            query_as_of_a_commit_finds_entries_that_expired_since_m7_2_16,
        ]);
        $crate::store_contract!(@cases $home, history: [
            history_lists_every_revision_in_order,
            entries_as_of_a_commit_are_as_they_were_then,
            replayed_commit_returns_its_original_versions,
            links_are_found_from_both_ends_and_stored_once,
            kept_links_returns_exactly_the_existing_links,
            link_target_must_be_an_id_in_the_same_space,
        ]);
        $crate::store_contract!(@cases $home, lists: [
            empty_query_returns_the_newest_ten_entries,
            query_filters_restrict_results_alone_and_combined,
            unknown_filter_value_matches_nothing,
            expired_and_superseded_entries_are_listed_only_on_request,
            pinned_entry_is_listed_past_its_lifetime,
            context_filter_matches_values_by_dotted_path,
            query_with_maximum_tags_and_context_values_finds_its_entry,
            store_lists_match_the_reference_model,
            query_as_of_a_past_commit_lists_the_past_state,
            paged_list_keeps_its_state_after_many_changes_m7_2_15,
            since_filter_returns_entries_added_or_changed_later,
            queries_asked_together_see_the_same_state,
        ]);
        $crate::store_contract!(@cases $home, counts: [
            linked_entries_are_counted_as_they_are_read_m7_11_3,
            goals_whose_names_have_no_term_are_counted_m7_11_3,
            parts_of_log_blocks_are_those_of_their_entries,
        ]);
        $crate::store_contract!(@cases $home, cursors: [
            list_pages_neither_repeat_nor_skip_entries,
            list_pages_keep_the_time_of_the_first_page_m7_2_15,
            cursor_of_another_query_or_space_is_refused,
        ]);
        $crate::store_contract!(@cases $home, books: [
            scratchbook_pages_match_the_whole_book_sorted_m7_2_15,
            list_pages_are_found_in_dense_and_in_sparse_parts_m7_2_15,
        ]);
        $crate::store_contract!(@cases $home, search: [
            search_ignores_case_accents_and_word_endings,
            search_finds_substrings_in_scripts_without_spaces,
            search_finds_words_anywhere_in_a_long_text,
            search_matches_all_words_or_any_as_requested,
            search_results_are_ordered_by_relevance_by_default,
            search_combines_words_with_filters,
            search_results_and_scores_ignore_other_spaces,
            punctuation_in_a_search_is_not_query_syntax,
            store_searches_match_the_reference_model,
        ]);
        $crate::store_contract!(@cases $home, search_meanwhile: [
            search_finds_a_changed_entry_by_its_current_text_only,
            search_pages_neither_repeat_nor_skip_entries,
            search_sees_every_earlier_commit_of_any_store,
            search_as_of_a_past_commit_finds_the_past_text,
        ]);
        $crate::store_contract!(@cases $home, search_many: [
            search_for_a_common_word_counts_only_the_newest_matches,
            pages_of_a_search_rank_the_same_matches_whatever_changes_between_them,
            search_for_any_of_several_words_selects_by_the_rarest,
            pages_of_a_search_by_the_rarest_word_have_no_other_matches,
            word_is_as_rare_as_all_its_terms_together,
            search_matches_up_to_the_limit_are_counted_exactly,
        ]);
        $crate::store_contract!(@cases $home, parts: [
            multi_part_commit_becomes_visible_only_as_a_whole,
            multi_part_commit_without_an_end_is_discarded,
            refused_part_discards_the_whole_multi_part_commit,
            multi_part_commit_with_a_repeated_key_is_written_once,
            multi_part_commits_do_not_interleave_with_other_commits,
        ]);
        $crate::store_contract!(@cases $home, upkeep: [
            watched_entries_are_listed_by_due_time_in_pages_m7_6_45,
            live_observation_count_excludes_archived_and_expired_m7_6_44,
            compacted_store_reads_as_before_m7_6_45,
            compaction_removes_old_tombstones_but_never_reuses_their_handles_m7_6_46,
            erased_content_appears_in_no_answer_of_the_store_m7_6_50,
            scrub_reports_the_residue_of_a_text_in_its_space_m7_6_50,
            compaction_deletes_old_body_pieces_that_no_entry_names,
            entry_naming_a_missing_body_piece_is_refused,
        ]);
        $crate::store_contract!(@cases $home, workspace: [
            links_to_removed_entries_stop_no_reader_m7_6_46,
            concurrent_writers_cannot_make_entries_replace_themselves_m7_4_37,
            successor_archived_or_forgotten_meanwhile_replaces_nothing_m7_4_37,
            concurrent_writers_cannot_make_work_wait_for_itself_m7_4_35,
            agents_that_ask_for_work_at_once_each_get_another_piece_m7_4_35,
            work_that_comes_to_wait_meanwhile_cannot_be_claimed_m7_4_35,
            import_closes_no_circle_with_what_others_write_meanwhile_m7_4_35,
            archiving_by_age_does_not_depend_on_noted_expiry_m7_6_44,
            expiry_is_noted_after_unpinning_although_a_pin_had_prevented_it_m7_1_8,
            space_that_was_only_read_is_not_listed_m7_6_51,
            what_is_written_in_a_turn_while_it_ends_is_exported_m7_6_47,
            forgotten_text_is_gone_from_turns_m7_6_50,
        ]);
        $crate::store_contract!(@cases $home, forgotten: [
            forgotten_run_leaves_only_that_it_was_there_m7_6_50,
            forgotten_run_is_refused_to_readers_and_drivers_m7_6_50,
            only_ended_runs_can_be_forgotten_m7_6_50,
            forgetting_a_run_again_changes_nothing_m7_6_50,
            interrupted_forgetting_of_a_run_is_completed_m7_6_50,
            forgotten_run_takes_nothing_from_another_m7_6_50,
            long_run_is_forgotten_part_by_part_m7_6_50,
            forgotten_run_is_copied_as_it_is_m7_6_50,
            text_alone_names_the_ended_runs_that_say_it_m7_6_50,
        ]);
    };
    ($home:expr) => {
        $crate::store_contract!(lists of $home);
        $crate::store_contract!(@cases $home, waiting: [
            wait_ends_when_the_next_commit_is_made,
            wait_ends_at_once_if_newer_commits_exist,
            wait_ignores_commits_in_other_spaces,
            commit_wakes_waiters_of_another_store_on_the_same_data,
        ]);
        $crate::store_contract!(@cases $home, pages: [
            ensuring_an_existing_page_leaves_it_unchanged,
            ensuring_a_page_in_a_later_iteration_gives_it_that_iteration,
            concurrent_writers_create_a_shared_page_once,
            page_queries_filter_by_role_parent_run_and_thread,
            pages_are_listed_in_the_order_they_were_added,
            parents_of_pages_are_those_that_the_pages_have,
            setting_a_new_page_status_makes_a_revision,
            adding_a_page_requires_its_parent,
            page_of_another_space_is_not_found,
        ]);
        $crate::store_contract!(@cases $home, policy: [
            new_space_has_the_default_policy,
            setting_a_policy_replaces_it_and_increments_its_version,
            policy_is_read_only_by_whoever_knows_an_older_one,
            setting_a_policy_with_a_stale_version_is_refused,
            commit_expecting_an_outdated_policy_is_refused,
            first_registration_of_a_type_wins_m7_3_22,
            policy_is_scoped_to_its_space,
        ]);
        $crate::store_contract!(@cases $home, runs: [
            run_row_is_created_and_updated_by_its_events,
            journal_returns_events_in_order_from_any_commit,
            run_must_start_before_other_events_and_only_once,
            append_with_a_stale_run_head_is_a_conflict,
            runs_are_listed_newest_first_with_status_filter_and_paging,
            run_progress_is_taken_from_the_last_commit_only,
        ]);
        $crate::store_contract!(@cases $home, turns: [
            begun_turn_reads_back_unchanged_by_id_and_handle,
            turn_cannot_begin_or_end_twice,
            turn_head_is_stale_once_memory_was_changed_in_the_turn_m7_6_47,
            turn_queries_filter_by_thread_run_time_and_end,
            very_long_thread_name_finds_its_pages_and_turns,
        ]);
        $crate::store_contract!(@cases $home, drivers: [
            claimed_run_cannot_be_claimed_by_another_driver,
            claiming_again_invalidates_the_fence_of_the_same_driver,
            driver_cannot_write_after_releasing_its_run,
            release_with_an_old_fence_has_no_effect,
            run_of_a_closed_store_can_be_claimed_at_once,
            run_of_a_released_owner_can_be_claimed_at_once,
            claim_for_which_nobody_waits_any_more_is_given_up,
            write_of_a_replaced_driver_fails_with_run_taken,
            requests_to_a_driven_run_need_no_fence,
        ]);
        $crate::store_contract!(@cases $home, written: [
            overlapping_written_name_of_another_run_is_refused_e9_15,
            released_run_no_longer_blocks_its_written_names_e9_15,
            taking_a_name_of_a_dead_driver_releases_its_run_e9_15,
        ]);
        $crate::store_contract!(@cases $home, blobs: [
            stored_body_reads_back_unchanged,
            body_written_repeatedly_passes_the_store_check,
            body_is_readable_only_in_its_space,
        ]);
        $crate::store_contract!(@cases $home, trace: [
            trace_notes_come_in_the_order_in_which_they_were_made,
            trace_notes_read_back_unchanged_and_in_order,
            trace_note_uses_no_commit_number,
            late_trace_note_from_before_a_forgetting_loses_its_text,
            note_queries_filter_by_turn_run_entry_component_and_commit,
            trace_notes_are_scoped_to_their_space,
            trace_notes_with_forgotten_text_are_deleted_in_any_spelling_m7_6_50,
            old_or_excess_trace_notes_are_deleted,
        ]);
        $crate::store_contract!(@cases $home, copies: [
            copied_store_continues_with_the_numbers_of_its_source,
            repeated_copy_transfers_only_new_commits,
            notes_made_in_a_copy_survive_copying_again,
            token_revoked_in_a_copy_stays_revoked_after_copying_again,
            copying_into_an_unrelated_store_is_refused,
            copied_commits_must_follow_without_gap_or_repeat,
            copied_store_continues_the_exports_of_its_source,
            store_without_parts_of_exports_lists_entries_anew,
            links_to_removed_entries_are_copied,
            copy_made_before_a_removal_can_be_continued,
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
    use std::collections::BTreeSet;
    use std::path::Path;

    /// A case that is written but not listed would never run. Every file beside this one is read, so none is left out.
    #[test]
    fn every_contract_case_is_listed_in_the_macro() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract");
        let macro_text = include_str!("mod.rs");
        let mut without_cases = Vec::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if module == "mod" {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let cases: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
                .map(|rest| rest.split('(').next().unwrap())
                .collect();
            if cases.is_empty() {
                without_cases.push(module);
                continue;
            }
            let listed = macro_text
                .split_once(&format!("@cases $home, {module}: ["))
                .and_then(|(_, rest)| rest.split_once(']'))
                .unwrap_or_else(|| panic!("{module} is not listed in store_contract!"));
            let listed = listed.0.split(',').map(str::trim).filter(|name| !name.is_empty());
            let (listed, cases) = (
                listed.collect::<BTreeSet<_>>(),
                cases.into_iter().collect::<BTreeSet<_>>(),
            );
            assert_eq!(listed, cases, "the cases of {module} in store_contract!");
        }
        assert_eq!(without_cases, ["scene"]);
    }
}
