//! Which HTTP status goes with which error code: for the server, for the problem documents of the program, and for the
//! pages about errors, which a test compares with this table.

/// The codes of the errors that HTTP can answer with, by their status. A few have two, depending on the mistake.
pub const STATUSES: &[(u16, &[&str])] = &[
    (
        400,
        &[
            "body_invalid",
            "header_invalid",
            "id_invalid",
            "if_match_invalid",
            "invalid",
            "key_invalid",
            "last_event_id_invalid",
            "path_invalid",
            "query_invalid",
            "query_unknown",
        ],
    ),
    (401, &["token_invalid", "token_missing"]),
    (403, &["origin_refused", "role_denied", "token_of_another_space"]),
    (
        404,
        &[
            "id_invalid",
            "no_approval",
            "no_plan",
            "no_question",
            "not_found",
            "path_unknown",
            "space_not_served",
        ],
    ),
    (405, &["method_not_allowed"]),
    (406, &["header_invalid"]),
    (
        409,
        &[
            // An archived entry cannot change, and a superseded one cannot be pinned.
            "archived",
            "superseded",
            "asked_else",
            "claimed",
            "fork_unusable",
            "limit_unusable",
            "not_claimable",
            "plan_stale",
            "plan_too_large",
            "policy_changed",
            "run_ended",
            "run_not_ended",
            "run_taken",
            "stale_policy",
            "stale_run",
            "stale_space",
            "stale_version",
            "step_begun",
            "time_is_up",
            "turn_ended",
            "turn_open",
        ],
    ),
    (410, &["run_forgotten"]),
    (413, &["body_too_large", "content_too_large", "input_too_large"]),
    (415, &["body_encoded", "body_not_json"]),
    (421, &["host_refused"]),
    (
        422,
        &[
            "answer_empty",
            "base_version_invalid",
            "blocks_itself",
            "body_empty",
            "body_invalid",
            "book_malformed",
            "confidence_invalid",
            "content_empty",
            "context_too_deep",
            "context_too_large",
            "expires_at_invalid",
            "field_immutable",
            "field_not_cleared",
            "field_not_of_kind",
            "filter_invalid",
            "filter_too_large",
            "filter_unknown",
            "inputs_invalid",
            "invalid",
            "key_reused",
            "kind_invalid",
            "messages_invalid",
            "metadata_too_large",
            "needs_model",
            "not_an_option",
            "not_equipped",
            "observation_malformed",
            "owner_invalid",
            "phase_too_long",
            "plan_invalid",
            "policy_invalid",
            "progress_invalid",
            "share_invalid",
            "status_invalid",
            "supersede_cycle",
            "superseded_by_unseen",
            "tag_invalid",
            "tags_too_many",
            "text_too_long",
            "thread_invalid",
            "thread_is_secret",
            "title_empty",
            "title_too_long",
            "tokens_invalid",
            "transfer_malformed",
            "transfer_unknown",
            "type_invalid",
            "type_unknown",
        ],
    ),
    (
        429,
        &["runs_busy", "streams_busy", "too_many_requests", "transfers_busy"],
    ),
    (500, &["internal", "run_unreadable", "store_damaged"]),
    (
        503,
        &[
            "bodies_busy",
            "connections_busy",
            "dispatch_unavailable",
            "leaving",
            "run_too_new",
            "sessions_busy",
            "spaces_busy",
            "store_too_new",
            "store_unavailable",
            "too_slow",
            "transfers_busy",
        ],
    ),
];

/// Returns the status for `code`. If that has several, or HTTP never answers with it, `otherwise` is what the kind of
/// error suggests; of several statuses, the first is returned if that is none of them.
#[must_use]
pub fn status_of(code: &str, otherwise: u16) -> u16 {
    let with_code = STATUSES.iter().filter(|(_, codes)| codes.contains(&code));
    let mut statuses = with_code.map(|(status, _)| *status);
    match statuses.next() {
        Some(first) if first != otherwise && !statuses.any(|status| status == otherwise) => first,
        _ => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::status_of;

    #[test]
    fn status_of_a_code_with_several_follows_the_kind_of_error() {
        for (code, otherwise, status) in [
            ("plan_invalid", 400, 422),
            ("invalid", 400, 400),
            ("invalid", 422, 422),
            ("header_invalid", 422, 400),
            ("usage", 400, 400),
        ] {
            assert_eq!(status_of(code, otherwise), status, "{code}");
        }
    }
}
