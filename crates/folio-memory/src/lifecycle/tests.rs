use std::time::Duration;

use super::*;
use crate::actor::Trust;
use crate::change::NewEntry;
use crate::entry::{EntryFields, EntryKind, Outcome, Owner};
use crate::id::{EntryHandle, EntryId, PageId, Seq};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn entry(kind: EntryKind, status: Status) -> Entry {
    let mut fields = EntryFields::new(kind, Owner::agent(), Trust::User);
    fields.status = status;
    let new = NewEntry {
        id: EntryId::derived(&["e"]),
        page: PageId::derived(&["p"]),
        kind,
        fields,
    };
    Entry::added(new, EntryHandle(1), Seq(1), at(100))
}

/// An observation that was recorded at 100 and ends at `end`.
fn ending(end: i64) -> Entry {
    let mut entry = entry(EntryKind::Observation, Status::Active);
    entry.fields.lifetime = Lifetime::Until(at(end));
    entry
}

impl Entry {
    fn after(mut self, changes: &[FieldChange], now: Timestamp) -> Self {
        self.patch(changes, Seq(2), now);
        self
    }
}

#[test]
fn each_confirmation_renews_the_whole_lifetime_m7_1_6() {
    let mut entry = ending(160);
    for (now, end) in [(130, 190), (180, 240), (500, 560)] {
        let changes = confirm(&entry, at(now)).unwrap();
        entry = entry.after(&changes, at(now));
        assert_eq!(entry.fields.lifetime, Lifetime::Until(at(end)));
        assert_eq!(entry.fields.validated_at, Some(at(now)));
    }
}

#[test]
fn confirming_an_unlimited_entry_records_only_the_time_m7_1_6() {
    let observation = entry(EntryKind::Observation, Status::Active);
    assert_eq!(
        confirm(&observation, at(130)).unwrap(),
        [FieldChange::ValidatedAt(at(130))]
    );
}

#[test]
fn confirmed_expired_entry_is_live_and_can_expire_again_m7_1_8() {
    let live = ending(160);
    let entry = live.clone().after(&[FieldChange::Ended(at(160))], at(900));
    assert_eq!(
        (entry.fields.expired_at, ends_at(&entry.fields)),
        (Some(at(160)), None),
        "stamped with the nominal instant"
    );
    assert_eq!(entry.updated_at, live.updated_at, "nobody changed it");
    let noted_before = live.after(&[FieldChange::Expired(at(160))], at(900));
    assert_eq!(noted_before.fields, entry.fields);
    assert_eq!(
        noted_before.updated_at,
        at(160),
        "the log of an earlier version reads as ever"
    );
    let changes = confirm(&entry, at(1000)).unwrap();
    let entry = entry.after(&changes, at(1000));
    assert_eq!(
        (entry.fields.expired_at, ends_at(&entry.fields)),
        (None, Some(at(1060)))
    );
}

#[test]
fn late_expiry_does_not_change_a_pinned_or_confirmed_entry_m7_1_8() {
    let expired = [FieldChange::Ended(at(160))];
    let once = ending(160).after(&expired, at(170));
    assert!(once.is_unchanged_by(&expired), "it was noted");
    let pinned = ending(160).after(&[FieldChange::PinRank(Some(1))], at(150));
    let archived = ending(160).after(&[FieldChange::Status(Status::Archived)], at(150));
    let confirmed = ending(160).after(&confirm(&ending(160), at(150)).unwrap(), at(150));
    for entry in [pinned, archived, confirmed] {
        assert!(entry.is_unchanged_by(&expired), "{entry:?}");
    }
}

#[test]
fn unpinned_entry_past_its_lifetime_expires_at_once_m7_1_7() {
    let pinned = ending(160).after(&[FieldChange::PinRank(Some(1))], at(110));
    assert_eq!(
        (pinned.state(at(900)), ends_at(&pinned.fields)),
        (crate::State::Live, None)
    );
    let taken = unpin(&pinned);
    let unpinned = pinned.after(&taken, at(170));
    assert_eq!(unpinned.state(at(159)), crate::State::Live);
    assert_eq!(unpinned.state(at(170)), crate::State::Expired);
    assert_eq!(ends_at(&unpinned.fields), Some(at(160)), "noted with the end itself");
    assert_eq!(unpin(&unpinned), []);
}

#[test]
fn completing_resolves_observations_and_marks_tasks_done_m7_5_41() {
    let resolved = complete(&entry(EntryKind::Observation, Status::PendingReview)).unwrap();
    assert_eq!(resolved, [FieldChange::Status(Status::Resolved)]);
    let done = complete(&entry(EntryKind::Task, Status::Blocked)).unwrap();
    assert_eq!(
        done,
        [FieldChange::Status(Status::Done), FieldChange::Progress(Some(1.0))]
    );
}

#[test]
fn what_only_a_run_writes_has_no_life_of_its_own() {
    let ada = Owner::parse("ada").unwrap();
    for kind in [EntryKind::Step, EntryKind::Log, EntryKind::Summary] {
        let written = entry(
            kind,
            match kind.family() {
                Family::Knowledge => Status::Active,
                Family::Work => Status::Open,
            },
        );
        for refused in [
            confirm(&written, at(1)).err(),
            complete(&written).err(),
            reopen(&written).err(),
            claim(&written, &ada, None, at(1)).err(),
            give_up(&written, &ada).err(),
            report(&written, &ada, Report::Done, at(1)).err(),
        ] {
            assert_eq!(refused.unwrap().code, "kind_invalid", "{kind}");
        }
    }
}

#[test]
fn settled_entry_is_reopened_and_archived_entry_is_restored_m7_5_39() {
    let cases = [
        (EntryKind::Observation, Status::Resolved, Some(Status::Active)),
        (EntryKind::Observation, Status::PendingReview, None),
        (EntryKind::Task, Status::Done, Some(Status::Open)),
        (EntryKind::Task, Status::Blocked, None),
    ];
    for (kind, from, to) in cases {
        let changes = reopen(&entry(kind, from)).unwrap();
        assert_eq!(
            changes,
            to.map(FieldChange::Status).into_iter().collect::<Vec<_>>(),
            "{kind} {from}"
        );
        assert_eq!(restore(&entry(kind, from), None), [], "{kind} {from}");
    }
    for kind in [EntryKind::Observation, EntryKind::Task] {
        let archived = entry(kind, Status::Archived);
        for error in [
            reopen(&archived).err(),
            confirm(&archived, at(1)).err(),
            complete(&archived).err(),
        ] {
            assert_eq!(error.unwrap().code, "archived");
        }
    }
    let archived = entry(EntryKind::Observation, Status::Archived);
    assert_eq!(
        restore(&archived, Some(Status::Resolved)),
        [FieldChange::Restored(Status::Resolved)]
    );
    assert_eq!(
        restore(&archived, Some(Status::Done)),
        [FieldChange::Restored(Status::Active)]
    );
    assert_eq!(restore(&archived, None), [FieldChange::Restored(Status::Active)]);
}

#[test]
fn reopening_clears_the_outcome_m7_11_6() {
    let mut refuted = entry(EntryKind::Observation, Status::Resolved);
    refuted.fields.outcome = Some(Outcome::Refuted);
    let reopened = refuted.clone().after(&reopen(&refuted).unwrap(), at(1));
    assert_eq!(
        (reopened.fields.status, reopened.fields.outcome),
        (Status::Active, None)
    );
}

#[test]
fn heartbeat_after_lease_expiry_keeps_the_claim_m7_4_35() {
    let [one, two, three] = ["one", "two", "three"].map(|name| Owner::parse(name).unwrap());
    let open = entry(EntryKind::Task, Status::Open);
    let lease = Some(Duration::from_secs(60));
    let claimed = open
        .clone()
        .after(&claim(&open, &one, lease, at(0)).unwrap().unwrap(), at(0));
    let at_it = |entry: &Entry, by, now| {
        let said = Report::Underway(None);
        entry
            .clone()
            .after(&report(entry, by, said, now).unwrap().unwrap(), now)
    };
    assert_eq!(
        at_it(&claimed, &one, at(59)).fields.lease_until,
        Some(at(60)),
        "before, it stays"
    );
    for by in [&one, &two] {
        let underway = at_it(&claimed, by, at(70));
        assert_eq!(underway.fields.lease_until, None);
        let taken = claim(&underway, &three, lease, at(80)).unwrap().unwrap_err();
        assert_eq!(taken.owner, *by);
    }
}

#[test]
fn claim_is_exclusive_and_repeatable_by_its_owner_m7_4_35() {
    let (ada, bob) = (Owner::parse("ada").unwrap(), Owner::parse("bob").unwrap());
    let claimed = claim(&entry(EntryKind::Task, Status::Open), &ada, None, at(200))
        .unwrap()
        .unwrap();
    let task = entry(EntryKind::Task, Status::Open).after(&claimed, at(200));
    assert_eq!((task.fields.status, &task.fields.owner), (Status::InProgress, &ada));
    assert_eq!(
        claim(&task, &ada, None, at(300)).unwrap(),
        Ok(Vec::new()),
        "it is hers already"
    );
    let taken = claim(&task, &bob, None, at(900_000)).unwrap().unwrap_err();
    assert_eq!(taken.to_string(), "e1 is taken by ada");
    assert_eq!(
        give_up(&task, &bob).unwrap().unwrap_err(),
        taken,
        "only its owner gives it up"
    );
    let given = give_up(&task, &ada).unwrap().unwrap();
    let free = task.after(&given, at(300));
    assert_eq!(free.fields.status, Status::Open);
    let claimed = claim(&free, &bob, None, at(300)).unwrap().unwrap();
    assert_eq!(free.after(&claimed, at(300)).fields.owner, bob);
}

#[test]
fn work_that_is_meant_for_one_is_not_claimed_by_others_m7_4_35() {
    let (ada, bob) = (Owner::parse("ada").unwrap(), Owner::parse("bob").unwrap());
    let for_ada = entry(EntryKind::Task, Status::Open).after(&[FieldChange::Owner(ada.clone())], at(200));
    assert!(is_free_for(&for_ada, &ada, at(300)) && !is_free_for(&for_ada, &bob, at(300)));
    let refused = claim(&for_ada, &bob, None, at(300)).unwrap().unwrap_err();
    assert_eq!(refused.to_string(), "e1 is meant for ada");
    for said in [Report::Done, Report::Underway(None), Report::Blocked] {
        let reported = report(&for_ada, &bob, said, at(300)).unwrap();
        assert_eq!(reported.unwrap_err(), refused);
    }
    for work in [
        claim(&for_ada, &ada, None, at(300)).unwrap().unwrap(),
        report(&for_ada, &ada, Report::Done, at(300)).unwrap().unwrap(),
        report(&for_ada, &bob, Report::HandedTo(bob.clone()), at(300))
            .unwrap()
            .unwrap(),
    ] {
        assert!(!work.is_empty());
    }
    assert_eq!(
        give_up(&for_ada, &bob).unwrap().unwrap(),
        [],
        "it is not bob's to give up"
    );
    let declined = give_up(&for_ada, &ada).unwrap().unwrap();
    let free = for_ada.after(&declined, at(300));
    assert!(is_free_for(&free, &bob, at(300)));
    assert_eq!(
        give_up(&free, &Owner::agent()).unwrap().unwrap(),
        [],
        "it is open for anybody"
    );
}

#[test]
fn work_that_was_only_begun_is_claimed_by_nobody_m7_4_35() {
    let (ada, bob) = (Owner::parse("ada").unwrap(), Owner::parse("bob").unwrap());
    // Somebody set its status, and gave no name.
    let begun = entry(EntryKind::Task, Status::InProgress);
    assert!(is_free_for(&begun, &ada, at(300)));
    assert!(!report(&begun, &ada, Report::Done, at(300)).unwrap().unwrap().is_empty());
    let given = give_up(&begun, &ada).unwrap().unwrap();
    assert_eq!(begun.clone().after(&given, at(300)).fields.status, Status::Open);
    let claimed = claim(&begun, &ada, None, at(300)).unwrap().unwrap();
    let taken = claim(&begun.after(&claimed, at(300)), &bob, None, at(400));
    assert_eq!(taken.unwrap().unwrap_err().owner, ada);
}

#[test]
fn expired_lease_lets_another_owner_claim_the_work_m7_4_35() {
    let (ada, bob) = (Owner::parse("ada").unwrap(), Owner::parse("bob").unwrap());
    let minute = Some(Duration::from_secs(60));
    let claimed = claim(&entry(EntryKind::Todo, Status::Open), &ada, minute, at(200))
        .unwrap()
        .unwrap();
    let task = entry(EntryKind::Todo, Status::Open).after(&claimed, at(200));
    assert_eq!(task.fields.lease_until, Some(at(260)));
    assert_eq!(
        claim(&task, &bob, minute, at(259)).unwrap().unwrap_err().until,
        Some(at(260))
    );
    let lapsed = claim(&task, &bob, minute, at(260)).unwrap().unwrap();
    let lapsed = task.clone().after(&lapsed, at(260)).fields;
    assert_eq!((lapsed.owner, lapsed.lease_until), (bob, Some(at(320))));
    let renewed = claim(&task, &ada, minute, at(250)).unwrap().unwrap();
    assert_eq!(task.after(&renewed, at(250)).fields.lease_until, Some(at(310)));
}

#[test]
fn only_open_work_can_be_claimed_m7_4_35() {
    let cases = [
        (EntryKind::Observation, Status::Active, "kind_invalid"),
        (EntryKind::Task, Status::Blocked, "not_claimable"),
        (EntryKind::Task, Status::Done, "not_claimable"),
        (EntryKind::Task, Status::Archived, "archived"),
    ];
    for (kind, status, code) in cases {
        let error = claim(&entry(kind, status), &Owner::agent(), None, at(200)).unwrap_err();
        assert_eq!(error.code, code, "{kind} {status}");
    }
}

#[test]
fn text_that_a_model_rewrites_is_no_longer_believed_as_a_persons() {
    let mut note = entry(EntryKind::Note, Status::Active);
    (note.fields.title, note.fields.body) = ("Ship".to_owned(), "on Friday".to_owned());
    let after = |changes: &[FieldChange], by| trust_after(&note, changes, by);
    let lowered = Some(FieldChange::Trust(Trust::Model));
    let title = || FieldChange::Title("Ship it".to_owned());
    assert_eq!(after(&[title()], Trust::Model), lowered);
    assert_eq!(after(&[FieldChange::Body(String::new())], Trust::Model), lowered);
    assert_eq!(after(&[title()], Trust::User), None);
    for same in [
        FieldChange::Title("Ship".to_owned()),
        FieldChange::Body("on Friday".to_owned()),
        FieldChange::Tags(vec![crate::entry::Tag::parse("boat").unwrap()]),
        FieldChange::Status(Status::Resolved),
    ] {
        assert_eq!(after(std::slice::from_ref(&same), Trust::Imported), None, "{same:?}");
    }
    // A person who corrects what a model wrote does not vouch for the rest of it.
    let of_model = note.after(&[title(), FieldChange::Trust(Trust::Model)], at(101));
    assert_eq!(of_model.fields.trust, Trust::Model);
    assert_eq!(
        trust_after(&of_model, &[FieldChange::Title("Go".to_owned())], Trust::User),
        None
    );
}
