//! What is a pattern and what is not (M7.9).

use serde_json::json;

use super::*;
use crate::change::NewEntry;
use crate::id::{EntryHandle, EntryId, PageId, Seq};
use crate::keeping::ErasedFor;
use crate::turn_testing::{NOW, observation};

fn found(entries: &[Entry]) -> Vec<FoundPattern> {
    find(entries, &TypeRegistry::default(), Among::All)
}

fn burgundy(handle: u64, turn: &str) -> Entry {
    observation(handle, "contextual_insight", "User prefers Burgundy wines")
        .tags(&["wine", "preference"])
        .confidence(0.9)
        .turn(turn)
        .build()
}

/// The entry that `pattern` becomes.
fn entry_of_pattern(pattern: &FoundPattern, handle: u64) -> Entry {
    let new = NewEntry {
        id: EntryId::derived(&["said", &handle.to_string()]),
        page: PageId::derived(&["p"]),
        kind: EntryKind::Observation,
        fields: pattern.fields(Source::default()),
    };
    Entry::added(new, EntryHandle(handle), Seq(handle), NOW)
}

#[test]
fn pattern_needs_three_observations_in_two_turns_m7_9() {
    let three = [burgundy(1, "a"), burgundy(2, "a"), burgundy(3, "b")];
    let patterns = found(&three);
    assert_eq!(patterns.len(), 1);
    assert_eq!((patterns[0].members.len(), patterns[0].turns), (3, 2));
    assert!(found(&three[..2]).is_empty(), "two are none");
    let one_turn = [burgundy(1, "a"), burgundy(2, "a"), burgundy(3, "a")];
    assert!(found(&one_turn).is_empty(), "one turn is none");
}

#[test]
fn texts_differing_in_a_symbol_form_no_pattern_m7_9() {
    let said = |handle, text: &str| {
        observation(handle, "contextual_insight", text)
            .turn(&handle.to_string())
            .build()
    };
    let (one, two) = (said(1, "User prefers C++"), said(2, "User prefers C++"));
    assert!(found(&[one.clone(), two.clone(), said(3, "User prefers C#")]).is_empty());
    assert_eq!(found(&[one, two, said(3, "user prefers C++.")]).len(), 1);
}

#[test]
fn texts_with_opposite_words_form_no_pattern_m7_9() {
    let said =
        |state: &str| format!("The nightly check of the billing database says that the service is {state} again");
    for (one, other) in [
        ("green", "red"),
        ("up", "down"),
        ("online", "offline"),
        ("open", "closed"),
        ("started", "stopped"),
        ("full", "empty"),
        ("fast", "slow"),
        ("stable", "unstable"),
        ("available", "unavailable"),
    ] {
        let like = |words: &[&str]| Sketch::of(&said(one), words).is_like(&Sketch::of(&said(other), words));
        assert!(like(&[]) && !like(NEGATIONS), "{one} {other}");
    }
}

#[test]
fn pattern_confidence_is_wilson_bound_times_mean_confidence_m7_9() {
    let three = [burgundy(1, "a"), burgundy(2, "b"), burgundy(3, "c")];
    let alone = &found(&three)[0];
    assert!((wilson_lower(3, 3) - 0.438).abs() < 0.001, "{}", wilson_lower(3, 3));
    assert!((alone.confidence.value() - wilson_lower(3, 3) * 0.9).abs() < 1e-9);
    let rival = observation(4, "contextual_insight", "Hates all of France and its cellars")
        .tags(&["preference", "wine"])
        .turn("d")
        .build();
    let with_rival = &found(&[&three[..], &[rival]].concat())[0];
    assert_eq!(with_rival.of_turns, 4);
    assert!(
        with_rival.confidence < alone.confidence,
        "the same tags with another text are doubt"
    );
}

#[test]
fn different_tags_context_or_class_form_no_pattern_m7_9() {
    let with = |handle, type_name: &str, tag: &str, user: &str| {
        observation(handle, type_name, "User prefers Burgundy wines")
            .tags(&[tag])
            .context(json!({"user_id": user, "pending_action_id": handle.to_string()}))
            .turn(&handle.to_string())
            .build()
    };
    let same = [1, 2, 3].map(|handle| with(handle, "contextual_insight", "wine", "u1"));
    assert_eq!(found(&same).len(), 1, "what is different every time does not part them");
    assert_eq!(found(&same)[0].context, Some(json!({"user_id": "u1"})));
    for other in [
        with(3, "contextual_insight", "wine", "u2"),
        with(3, "contextual_insight", "beer", "u1"),
        with(3, "reminder", "wine", "u1"),
    ] {
        assert!(found(&[same[0].clone(), same[1].clone(), other]).is_empty());
    }
}

#[test]
fn pattern_has_the_newest_wording_and_the_lowest_trust_m7_9() {
    let mut last = burgundy(3, "b");
    last.fields.body = "User prefers Burgundy wines!".to_owned();
    let strange = observation(2, "contextual_insight", "User prefers Burgundy wine")
        .tags(&["preference", "wine"])
        .turn("a")
        .trust(Trust::ToolExternal)
        .build();
    let pattern = &found(&[last, burgundy(1, "a"), strange])[0];
    assert_eq!(pattern.text, "User prefers Burgundy wines!");
    assert_eq!(pattern.trust, Trust::ToolExternal);
    let handles: Vec<_> = pattern.members.iter().map(|member| member.handle.0).collect();
    assert_eq!(handles, [1, 2, 3], "derived from all members");
}

#[test]
fn known_pattern_is_replaced_only_for_a_new_member_m7_9() {
    let mut entries = vec![burgundy(1, "a"), burgundy(2, "b"), burgundy(3, "c")];
    let first = found(&entries)[0].clone();
    assert!(first.is_news && first.replaces.is_empty());
    entries.push(entry_of_pattern(&first, 4));
    let again = found(&entries);
    assert_eq!(again.len(), 1, "a pattern is no member of a pattern");
    assert!(!again[0].is_news);
    entries.push(burgundy(5, "d"));
    let more = &found(&entries)[0];
    assert!(more.is_news);
    assert_eq!(more.replaces, [Used::of(&entries[3])]);
    // Two turns that ended at the same moment both recorded the pattern; the next turn replaces both.
    entries.push(entry_of_pattern(&first, 6));
    let cleared = &found(&entries)[0];
    assert!(cleared.is_news);
    assert_eq!(cleared.replaces.len(), 2);
}

#[test]
fn pattern_of_many_is_recorded_again_after_an_eighth_more_m7_9() {
    let sightings = |count: u64| (1..=count).map(|turn| burgundy(turn, &turn.to_string()));
    let recorded = entry_of_pattern(&found(&sightings(20).collect::<Vec<_>>())[0], 1_000);
    for (count, is_news) in [(20, false), (21, false), (22, true), (19, true)] {
        let all: Vec<Entry> = sightings(count).chain([recorded.clone()]).collect();
        assert_eq!(found(&all)[0].is_news, is_news, "{count}");
    }
}

#[test]
fn members_that_are_no_longer_searched_are_not_lost_to_their_pattern_m7_9() {
    let sightings = || (1..=20).map(|turn| burgundy(turn, &turn.to_string()));
    let recorded = entry_of_pattern(&found(&sightings().collect::<Vec<_>>())[0], 1_000);
    let newest: Vec<Entry> = sightings().skip(8).chain([recorded]).collect();
    let is_news = |entries: &[Entry], among| find(entries, &TypeRegistry::default(), among)[0].is_news;
    assert!(is_news(&newest, Among::All));
    assert!(!is_news(&newest, Among::Newest));
    let seen_again: Vec<Entry> = newest.into_iter().chain([burgundy(1_001, "again")]).collect();
    assert!(is_news(&seen_again, Among::Newest));
}

#[test]
fn group_is_searched_only_if_something_was_noticed_in_it_m7_9() {
    let types = TypeRegistry::default();
    let noticed = |entries: &[Entry]| {
        let mut news = News::default();
        entries.iter().for_each(|entry| news.add(entry, &types));
        news
    };
    let pattern = entry_of_pattern(&found(&[burgundy(1, "a"), burgundy(2, "b"), burgundy(3, "c")])[0], 4);
    assert_eq!(noticed(&[pattern]), News::default(), "a pattern is not noticed");
    let News::In(groups) = noticed(&[burgundy(1, "a"), burgundy(2, "b")]) else {
        panic!("one group is searched by itself");
    };
    assert_eq!(groups.len(), 1);
    let other = observation(3, "reminder", "User prefers Burgundy wines").build();
    assert!(groups[0].has(&burgundy(9, "z"), &types) && !groups[0].has(&other, &types));
    let tagged = |number: u64| {
        observation(number, "reminder", "x")
            .tags(&[&number.to_string()])
            .build()
    };
    let many: Vec<Entry> = (1..=5).map(tagged).collect();
    assert_eq!(noticed(&many), News::Anywhere);
    let mut gone = burgundy(1, "a");
    assert!(gone.erase(ErasedFor::Expired, Seq(9), NOW));
    assert_eq!(noticed(&[gone]), News::Anywhere);
}

#[test]
fn fact_requires_a_pattern_seen_in_three_turns_m7_11_5() {
    let entries = [burgundy(1, "a"), burgundy(2, "b"), burgundy(3, "b")];
    assert!(found(&entries)[0].fact(Source::default()).is_none());
    let entries = [burgundy(1, "a"), burgundy(2, "b"), burgundy(3, "c")];
    let fact = found(&entries)[0].fact(Source::default()).unwrap();
    assert_eq!(fact.type_name.as_deref(), Some(FACT));
    assert_eq!(fact.body, "User prefers Burgundy wines");
}

#[test]
fn superseded_observation_is_no_member_of_a_pattern_m7_9() {
    let mut old = burgundy(1, "a");
    old.fields.superseded_by = Some(EntryId::derived(&["new"]));
    assert!(found(&[old, burgundy(2, "b"), burgundy(3, "c")]).is_empty());
}

#[test]
fn refuted_observation_is_no_member_of_a_pattern_m7_9() {
    let refuted = |handle: u64, status| {
        let mut entry = burgundy(handle, &handle.to_string());
        (entry.fields.status, entry.fields.outcome) = (status, Some(Outcome::Refuted));
        entry
    };
    for status in [Status::Resolved, Status::Archived] {
        let members = [refuted(1, status), burgundy(2, "b"), burgundy(3, "c")];
        assert!(found(&members).is_empty(), "{status:?}");
    }
    let reopened = [refuted(1, Status::Active), burgundy(2, "b"), burgundy(3, "c")];
    assert_eq!(found(&reopened).len(), 1, "it holds again");
}

#[test]
fn readings_with_different_numbers_are_a_pattern_but_no_fact_m7_9() {
    let reading = |handle: u64, lag: u32| {
        observation(
            handle,
            "observation",
            &format!("Replication lag on the replica db is {lag} seconds"),
        )
        .turn(&handle.to_string())
        .build()
    };
    let says = |lags: [u32; 3]| {
        let found = found(&[reading(1, lags[0]), reading(2, lags[1]), reading(3, lags[2])]);
        let [pattern] = found.as_slice() else {
            panic!("{found:?}")
        };
        (pattern.text.clone(), pattern.fact(Source::default()).is_some())
    };
    assert_eq!(
        says([60, 61, 62]),
        ("Replication lag on the replica db is 62 seconds".to_owned(), false)
    );
    assert_eq!(
        says([60, 60, 60]),
        ("Replication lag on the replica db is 60 seconds".to_owned(), true)
    );
}

#[test]
fn question_of_the_clarifier_is_no_member_of_a_pattern_m7_9() {
    let asked = |handle: u64, key: String| {
        observation(handle, "pending_confirmation", "What does \"it\" mean here?")
            .turn(&handle.to_string())
            .context(json!({"pending_action_id": key}))
            .build()
    };
    assert!(found(&[1, 2, 3].map(|handle| asked(handle, format!("clarify_t{handle}")))).is_empty());
    assert_eq!(
        found(&[1, 2, 3].map(|handle| asked(handle, format!("pay_{handle}")))).len(),
        1
    );
}

#[test]
fn erased_observation_is_no_member_of_a_pattern_m7_9() {
    let mut gone = [burgundy(1, "a"), burgundy(2, "b"), burgundy(3, "c")];
    for entry in &mut gone {
        assert!(entry.erase(ErasedFor::Expired, Seq(9), NOW));
    }
    assert!(found(&gone).is_empty(), "nothing is said by what says nothing any more");
}

#[test]
fn each_pattern_entry_is_replaced_by_only_one_pattern_m7_9() {
    let numbered = |handle: u64| {
        observation(handle, "observation", &format!("number {handle}"))
            .turn(&handle.to_string())
            .build()
    };
    let mut entries: Vec<Entry> = (1..=200).map(numbered).collect();
    let first = found(&entries);
    assert!(first.len() > 1, "texts that are nearly alike");
    entries.extend(
        (1001..)
            .zip(&first)
            .map(|(handle, pattern)| entry_of_pattern(pattern, handle)),
    );
    assert!(found(&entries).iter().all(|pattern| !pattern.is_news));
    // One more turn in which the group occurred changes only the pattern with one more member.
    entries.push(numbered(201));
    let again = found(&entries);
    let replaced: Vec<Used> = again.iter().flat_map(|pattern| pattern.replaces.clone()).collect();
    let each_once: BTreeSet<EntryId> = replaced.iter().map(|used| used.id).collect();
    assert_eq!((replaced.len(), each_once.len()), (first.len(), first.len()));
    assert!(again.iter().all(|pattern| pattern.replaces.len() == 1));
    assert_eq!(again.iter().filter(|pattern| pattern.is_news).count(), 1);
}
