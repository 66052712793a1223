use std::time::Duration;

use super::*;
use crate::actor::Trust;
use crate::change::{Change, FieldChange, NewEntry};
use crate::entry::{Entry, EntryFields, EntryKind, Lifetime, Owner, Pii, Status, Tag};
use crate::id::{EntryHandle, EntryId, PageId, Seq};
use crate::observation::TypeRegistry;
use crate::time::Timestamp;

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

fn at(seconds: u64) -> Timestamp {
    Timestamp::default().plus(Duration::from_secs(seconds))
}

fn new(kind: EntryKind, number: u64) -> NewEntry {
    let mut fields = EntryFields::new(kind, Owner::agent(), Trust::User);
    fields.body = "what was seen".to_owned();
    fields.lifetime = Lifetime::Until(at(7 * DAY));
    let (id, page) = (EntryId::derived(&[&number.to_string()]), PageId::derived(&["p"]));
    NewEntry { id, page, kind, fields }
}

fn observation() -> Entry {
    Entry::added(new(EntryKind::Observation, 1), EntryHandle(1), Seq(1), at(0))
}

fn due_at(entry: &Entry, seconds: u64) -> Option<Due> {
    due(entry, entry.created_at, &RetentionPolicy::default(), at(seconds))
}

const AGE: Option<Due> = Some(Due::Archive(ArchivedFor::Age));

#[test]
fn observation_is_archived_a_week_after_change_or_confirmation_m7_6_44() {
    let entry = observation();
    assert_eq!(due_at(&entry, 7 * DAY - 1), None);
    assert_eq!(due_at(&entry, 7 * DAY), AGE);
    let mut changed = entry.clone();
    changed.patch(&[FieldChange::Title("t".to_owned())], Seq(2), at(3 * DAY));
    assert_eq!(due_at(&changed, 7 * DAY), None);
    assert_eq!(due_at(&changed, 10 * DAY), AGE);
    let mut confirmed = entry;
    confirmed.patch(&[FieldChange::ValidatedAt(at(4 * DAY))], Seq(2), at(4 * DAY));
    assert_eq!(due_at(&confirmed, 11 * DAY - 1), None);
    assert_eq!(due_at(&confirmed, 11 * DAY), AGE);
}

#[test]
fn recording_expiry_does_not_delay_archiving_by_age_m7_6_44() {
    let mut entry = observation();
    entry.patch(&[FieldChange::Ended(at(7 * DAY))], Seq(2), at(8 * DAY));
    assert_eq!(entry.version, 2);
    assert_eq!(due_at(&entry, 8 * DAY), AGE);
}

#[test]
fn recording_expiry_does_not_hasten_archiving_by_age_m7_6_44() {
    let mut entry = observation();
    entry.patch(&[FieldChange::Title("t".to_owned())], Seq(2), at(3 * DAY));
    entry.patch(&[FieldChange::Ended(at(7 * DAY))], Seq(3), at(8 * DAY));
    assert_eq!(due_at(&entry, 10 * DAY - 1), None);
    assert_eq!(due_at(&entry, 10 * DAY), AGE);
    assert!(!hides_last_change(&entry));
}

#[test]
fn entry_of_an_earlier_version_tells_that_its_last_change_is_hidden_m7_6_44() {
    let mut entry = observation();
    entry.patch(&[FieldChange::Title("t".to_owned())], Seq(2), at(3 * DAY));
    assert!(!hides_last_change(&entry));
    entry.patch(&[FieldChange::Expired(at(7 * DAY))], Seq(3), at(8 * DAY));
    assert!(hides_last_change(&entry));
    let watched = watched(&entry);
    assert!(
        watched.iter().all(|one| one.since == at(0)),
        "it may be due since then: {watched:?}"
    );
}

#[test]
fn age_archives_no_pinned_or_longer_lived_observation_or_note_m7_6_44() {
    let mut pinned = observation();
    pinned.fields.pin_rank = Some(0);
    let mut longer = observation();
    longer.fields.lifetime = Lifetime::Until(at(400 * DAY));
    let mut for_ever = observation();
    for_ever.fields.lifetime = Lifetime::Unlimited;
    let note = Entry::added(new(EntryKind::Note, 1), EntryHandle(1), Seq(1), at(0));
    for entry in [pinned, longer, for_ever, note] {
        assert_eq!(due_at(&entry, 30 * DAY), None, "{entry:?}");
    }
}

#[test]
fn resolved_observation_is_archived_after_a_day_m7_5_42() {
    let mut entry = observation();
    entry.patch(&[FieldChange::Status(Status::Resolved)], Seq(2), at(HOUR));
    assert_eq!(due_at(&entry, HOUR + DAY - 1), None);
    assert_eq!(due_at(&entry, HOUR + DAY), Some(Due::Archive(ArchivedFor::Resolved)));
}

#[test]
fn content_is_erased_thirty_days_after_its_lifetime_ends_m7_1_10() {
    let expired = Some(Due::Erase(ErasedFor::Expired));
    let mut entry = observation();
    entry.patch(&archived(Some(ArchivedFor::Age)), Seq(2), at(8 * DAY));
    assert_eq!(due_at(&entry, 37 * DAY - 1), None);
    assert_eq!(due_at(&entry, 37 * DAY), expired);
    let mut note = Entry::added(new(EntryKind::Note, 1), EntryHandle(1), Seq(1), at(0));
    assert_eq!(due_at(&note, 37 * DAY - 1), None);
    assert_eq!(due_at(&note, 37 * DAY), AGE);
    note.patch(&archived(Some(ArchivedFor::Age)), Seq(2), at(37 * DAY));
    assert_eq!(due_at(&note, 60 * DAY - 1), None);
    assert_eq!(due_at(&note, 60 * DAY), expired);
    let mut by_hand = observation();
    by_hand.patch(&archived(None), Seq(2), at(8 * DAY));
    assert_eq!(due_at(&by_hand, 4_000 * DAY), None, "what somebody put away is kept");
}

#[test]
fn content_is_erased_only_after_a_week_in_the_archive_however_late_anybody_tidies_m7_1_10() {
    let expired = Some(Due::Erase(ErasedFor::Expired));
    let mut entry = observation();
    assert_eq!(due_at(&entry, 60 * DAY), AGE, "it was never in the archive");
    entry.patch(&archived(Some(ArchivedFor::Age)), Seq(2), at(60 * DAY));
    assert_eq!(
        due_at(&entry, 83 * DAY - 1),
        None,
        "as if it had been archived when it was due"
    );
    assert_eq!(due_at(&entry, 83 * DAY), expired);
    // Whoever wants it gone sooner has it gone sooner, but not at once, either.
    let sooner = RetentionPolicy {
        purge_after_minutes: Some(60),
        ..RetentionPolicy::default()
    };
    let due_sooner = |entry: &Entry, seconds| due(entry, entry.created_at, &sooner, at(seconds));
    assert_eq!(due_sooner(&observation(), 60 * DAY), AGE);
    assert_eq!(due_sooner(&entry, 60 * DAY + HOUR - 1), None);
    assert_eq!(due_sooner(&entry, 60 * DAY + HOUR), expired);
    // Also where nothing is archived by age.
    let never = RetentionPolicy {
        archive_after_minutes: None,
        ..RetentionPolicy::default()
    };
    let due_never = |entry: &Entry, seconds| due(entry, entry.created_at, &never, at(seconds));
    assert_eq!(due_never(&observation(), 37 * DAY - 1), None);
    assert_eq!(due_never(&observation(), 37 * DAY), AGE);
    assert_eq!(due_never(&entry, 67 * DAY - 1), None);
    assert_eq!(due_never(&entry, 67 * DAY), expired);
}

fn archived(why: Option<ArchivedFor>) -> [FieldChange; 2] {
    [FieldChange::Status(Status::Archived), FieldChange::ArchivedFor(why)]
}

#[test]
fn pinned_personal_data_is_archived_then_erased_m7_6_49() {
    let mut entry = observation();
    entry.fields.pin_rank = Some(0);
    entry.fields.pii = vec![Pii::Email];
    assert_eq!(due_at(&entry, 30 * DAY - 1), None);
    assert_eq!(due_at(&entry, 30 * DAY), Some(Due::Archive(ArchivedFor::Pii)));
    entry.patch(&archived(Some(ArchivedFor::Pii)), Seq(2), at(30 * DAY));
    assert_eq!(due_at(&entry, 60 * DAY - 1), None);
    assert_eq!(due_at(&entry, 60 * DAY), Some(Due::Erase(ErasedFor::Pii)));
}

#[test]
fn personal_data_is_erased_only_a_full_period_after_archiving_m7_6_49() {
    let (archive, erase) = (Some(Due::Archive(ArchivedFor::Pii)), Some(Due::Erase(ErasedFor::Pii)));
    let of = |entry: &Entry, since, day| due(entry, at(since * DAY), &RetentionPolicy::default(), at(day * DAY));
    let mut entry = Entry::added(new(EntryKind::Note, 1), EntryHandle(1), Seq(1), at(0));
    entry.fields.lifetime = Lifetime::Unlimited;
    entry.fields.pii = vec![Pii::Email];
    assert_eq!(of(&entry, 0, 500), archive, "nobody looked for long");
    assert_eq!(of(&entry, 61, 90), None, "the address came in on day 61");
    assert_eq!(of(&entry, 61, 91), archive);
    entry.patch(&archived(Some(ArchivedFor::Pii)), Seq(2), at(500 * DAY));
    assert_eq!(of(&entry, 0, 529), None);
    assert_eq!(of(&entry, 0, 530), erase);
    entry.patch(&archived(None), Seq(3), at(510 * DAY));
    assert_eq!(of(&entry, 0, 539), None);
    assert_eq!(of(&entry, 0, 540), erase, "whoever put it away");
    assert_eq!(of(&entry, 505, 564), None);
    assert_eq!(of(&entry, 505, 565), erase, "both periods are over");
}

#[test]
fn changes_that_bring_personal_data_are_detected_m7_6_49() {
    let patch = |fields| Change::PatchEntry {
        entry: EntryId::derived(&["1"]),
        fields,
        expected_version: None,
        base_version: None,
    };
    let mut personal = new(EntryKind::Note, 1);
    assert!(!brings_personal_data(&Change::AddEntry(Box::new(personal.clone()))));
    personal.fields.pii = vec![Pii::Email];
    assert!(brings_personal_data(&Change::AddEntry(Box::new(personal))));
    assert!(brings_personal_data(&patch(vec![FieldChange::PiiFound(vec![
        Pii::Phone
    ])])));
    assert!(!brings_personal_data(&patch(vec![FieldChange::Body("x".to_owned())])));
}

#[test]
fn retention_of_a_restored_entry_counts_from_its_restoration_m7_1_10() {
    let mut entry = observation();
    entry.patch(&archived(Some(ArchivedFor::Age)), Seq(2), at(8 * DAY));
    entry.patch(&[FieldChange::Restored(Status::Active)], Seq(3), at(100 * DAY));
    assert_eq!(due_at(&entry, 107 * DAY - 1), None);
    assert_eq!(due_at(&entry, 107 * DAY), AGE);
    entry.patch(&archived(Some(ArchivedFor::Age)), Seq(4), at(107 * DAY));
    assert_eq!(due_at(&entry, 130 * DAY - 1), None);
    assert_eq!(due_at(&entry, 130 * DAY), Some(Due::Erase(ErasedFor::Expired)));
}

#[test]
fn retention_policy_without_periods_keeps_entries_forever_m7_6_44() {
    let none = RetentionPolicy {
        archive_after_minutes: None,
        archive_resolved_after_minutes: None,
        purge_after_minutes: None,
        pii_archive_after_minutes: None,
        pii_erase_after_minutes: None,
        tombstone_minutes: None,
    };
    let mut entry = observation();
    entry.fields.pii = vec![Pii::Phone];
    assert_eq!(due(&entry, at(0), &none, at(40_000 * DAY)), None);
}

#[test]
fn quota_evicts_settled_then_low_priority_then_older_entries_m7_6_46() {
    let entry = |number: u64, type_name: &str, status| {
        let mut entry = Entry::added(
            new(EntryKind::Observation, number),
            EntryHandle(number),
            Seq(number),
            at(0),
        );
        entry.fields.type_name = Some(type_name.to_owned());
        entry.fields.status = status;
        entry
    };
    let mut entries = [
        entry(1, "alert", Status::Active),
        entry(2, "observation", Status::Active),
        entry(3, "pattern_detected", Status::Active),
        entry(4, "alert", Status::Resolved),
        entry(5, "observation", Status::Resolved),
        entry(6, "observation", Status::Resolved),
        entry(7, "observation", Status::Resolved),
    ];
    entries[6].fields.pin_rank = Some(0);
    let types = TypeRegistry::default();
    entries.sort_by_key(|entry| {
        (
            eviction_key(entry, &types, at(1)).is_none(),
            eviction_key(entry, &types, at(1)),
        )
    });
    let order: Vec<u64> = entries.iter().map(|entry| entry.handle.0).collect();
    assert_eq!(order, [5, 6, 4, 3, 2, 1, 7]);
    assert_eq!(
        eviction_key(&entries[6], &types, at(1)),
        None,
        "what is pinned does not go"
    );
}

#[test]
fn cleaned_log_folds_to_the_same_tombstone_as_before_m7_6_50() {
    let id = EntryId::derived(&["1"]);
    let patch = |fields| Change::PatchEntry {
        entry: id,
        fields,
        expected_version: None,
        base_version: None,
    };
    let tags = Tag::parse_all(["private"]).unwrap();
    let mut changes = vec![
        Change::AddEntry(Box::new(new(EntryKind::Observation, 1))),
        patch(vec![FieldChange::Body("a secret".to_owned())]),
        patch(vec![FieldChange::Body("a secret".to_owned())]),
        patch(vec![FieldChange::Tags(tags), FieldChange::Status(Status::Resolved)]),
    ];
    let whole = folded(&changes);
    let mut eraser = Eraser::of([id], []);
    let cleaned: Vec<bool> = changes.iter_mut().map(|change| eraser.clean(change)).collect();
    assert_eq!(cleaned, [true, true, true, true]);
    let written = serde_json::to_string(&changes).unwrap();
    assert!(!written.contains("secret") && !written.contains("private") && !written.contains("seen"));
    let rest = folded(&changes);
    assert_eq!(rest, whole);
    assert_eq!((rest.version, rest.fields.erased), (4, Some(ErasedFor::Forgotten)));
}

fn folded(changes: &[Change]) -> Entry {
    let mut entry = observation();
    for (seq, change) in (1..).zip(changes) {
        match change {
            Change::AddEntry(new) => entry = Entry::added((**new).clone(), EntryHandle(1), Seq(seq), at(seq)),
            Change::PatchEntry { fields, .. } if !entry.is_unchanged_by(fields) => {
                entry.patch(fields, Seq(seq), at(seq));
            }
            _ => {}
        }
    }
    assert!(entry.erase(ErasedFor::Forgotten, Seq(9), at(9)));
    assert!(!entry.erase(ErasedFor::Expired, Seq(10), at(10)), "once is enough");
    entry
}

#[test]
fn every_due_entry_has_a_watch_by_that_time_m7_6_44() {
    let mut resolved = observation();
    resolved.fields.status = Status::Resolved;
    let mut personal = observation();
    personal.fields.pii = vec![Pii::Email];
    personal.fields.pin_rank = Some(1);
    let mut ending = observation();
    ending.patch(&archived(Some(ArchivedFor::Quota)), Seq(2), at(DAY));
    let note = Entry::added(new(EntryKind::Note, 1), EntryHandle(1), Seq(1), at(0));
    let mut all_due = Vec::new();
    for entry in [observation(), resolved, personal, ending, note] {
        let watched = watched(&entry);
        assert!(watched.is_sorted());
        let days = (0..100).map(|day| day * DAY);
        let due: Vec<_> = days.filter(|day| due_at(&entry, *day).is_some()).collect();
        all_due.push(!due.is_empty());
        for day in &due {
            assert!(
                watched.iter().any(|watched| watched.at <= at(*day)),
                "{entry:?} on day {day}"
            );
        }
    }
    assert_eq!(all_due, [true, true, true, true, true]);
}
