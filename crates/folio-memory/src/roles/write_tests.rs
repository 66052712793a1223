use super::*;
use crate::actor::Trust;
use crate::entry::{EntryFields, Owner, Status};
use crate::id::{EntryHandle, RunId, Seq};
use crate::observation;
use crate::policy::SpacePolicy;
use crate::time::Timestamp;

fn actor(role: Role) -> Actor {
    Actor::new(role, "x").in_run(run("mine"))
}

fn run(name: &str) -> RunId {
    RunId::derived(&[name])
}

fn page(role: PageRole, name: &str, of: Option<&str>, parent: Option<&str>) -> Change {
    let mut fields = PageFields::new(role, name, Owner::agent());
    fields.run = of.map(run);
    fields.parent = parent.map(|parent| PageId::derived(&[parent]));
    let id = PageId::derived(&[name]);
    Change::EnsurePage(Box::new(NewPage { id, fields }))
}

fn added(name: &str, kind: EntryKind, type_name: Option<&str>) -> NewEntry {
    let mut fields = EntryFields::new(kind, Owner::agent(), Trust::Model);
    fields.type_name = type_name.map(str::to_owned);
    let (id, page) = (EntryId::derived(&[name]), PageId::derived(&["book"]));
    NewEntry { id, page, kind, fields }
}

fn add(kind: EntryKind, type_name: Option<&str>) -> Change {
    Change::AddEntry(Box::new(added("new", kind, type_name)))
}

/// An existing entry `old` of somebody else, in another run.
fn old() -> Entry {
    let mut new = added("old", EntryKind::Observation, None);
    new.fields.source.principal = Some("human:ada".to_owned());
    Entry::added(new, EntryHandle(1), Seq(1), Timestamp::default())
}

fn patch(fields: Vec<FieldChange>) -> Change {
    Change::PatchEntry {
        entry: old().id,
        fields,
        expected_version: None,
        base_version: None,
    }
}

/// The roles that may make `changes` where `old`, the pages that `there` adds, and a thread's scratchbook exist.
fn allowed_roles(changes: &[Change], there: &[Change]) -> Vec<&'static str> {
    let mut known = Known::default();
    known.entries.insert(old().id, old());
    for change in there {
        if let Change::EnsurePage(new) = change {
            known.pages.insert(new.id, new.fields.clone());
        }
    }
    let mut book = PageFields::new(PageRole::Scratchbook, "book", Owner::agent());
    book.thread = Some(ThreadKey::main());
    known.pages.insert(PageId::derived(&["book"]), book);
    let policy = SpacePolicy::default();
    let types = TypeRegistry::of(&policy);
    let may = |role: &Role| may_write(&actor(*role), &SpaceName::main(), changes, &types, &known).is_ok();
    Role::ALL.into_iter().filter(may).map(Role::as_str).collect()
}

#[test]
fn page_writes_are_limited_by_role_and_branch_m7_7() {
    let there = [
        page(PageRole::ScratchpadExec, "branch", Some("mine"), None),
        page(PageRole::ScratchpadExec, "other branch", Some("other"), None),
    ];
    let mut of_own_thread = page(PageRole::Scratchbook, "of its own thread", None, None);
    if let Change::EnsurePage(new) = &mut of_own_thread {
        new.fields.thread = Some(ThreadKey::main());
    }
    for (wanted, new) in [
        (
            &["executor", "planner", "client", "human"][..],
            page(PageRole::Note, "a", Some("mine"), Some("branch")),
        ),
        (
            &["planner", "human"],
            page(PageRole::Note, "b", Some("other"), Some("other branch")),
        ),
        (
            &["planner", "client", "human"],
            page(PageRole::Plan, "c", Some("mine"), Some("branch")),
        ),
        (&["planner", "client", "human"], page(PageRole::Note, "d", None, None)),
        (
            &["planner", "reflector", "cleaner", "client", "human"],
            page(PageRole::IterationSummary, "e", None, None),
        ),
        (
            &["planner", "client", "human"],
            page(PageRole::Scratchbook, "no thread's", None, None),
        ),
        (&["planner", "compactor", "client", "human"], of_own_thread),
    ] {
        assert_eq!(allowed_roles(std::slice::from_ref(&new), &there), wanted, "{new:?}");
        let Change::EnsurePage(page) = &new else { panic!() };
        let status = Change::SetPageStatus {
            page: page.id,
            status: "ok".to_owned(),
        };
        let there: Vec<_> = there.iter().chain([&new]).cloned().collect();
        assert_eq!(allowed_roles(&[status], &there), wanted, "its status, {new:?}");
        let link = Change::AddLink(Link {
            src: page.id.to_string(),
            rel: Relation::References,
            dst: page.id.to_string(),
        });
        assert_eq!(allowed_roles(&[link], &there), wanted, "a link of it, {new:?}");
    }
}

#[test]
fn any_role_may_create_the_scratch_page_and_a_scratchbook_m7_7() {
    let (scratch, fields) = observation::page_of(&SpaceName::main());
    let (book, book_fields) = scratchbook::page_of(&SpaceName::main(), &ThreadKey::main());
    for (id, fields) in [(scratch, fields), (book, book_fields)] {
        let change = Change::EnsurePage(Box::new(NewPage { id, fields }));
        assert_eq!(allowed_roles(&[change], &[]).len(), Role::ALL.len());
    }
}

#[test]
fn entries_and_links_are_added_only_by_permitted_roles_m7_7() {
    let all_but = |names: &[&str]| -> Vec<&str> {
        let all = Role::ALL.into_iter().map(Role::as_str);
        all.filter(|name| !names.contains(name)).collect()
    };
    for (without, change) in [
        (
            &["reflector", "cleaner", "compactor"][..],
            add(EntryKind::Observation, Some("pending_confirmation")),
        ),
        (
            &["clarifier", "reflector", "cleaner", "compactor"],
            add(EntryKind::Observation, Some("insight")),
        ),
        (
            &["reflector", "cleaner", "compactor"],
            add(EntryKind::PendingAction, None),
        ),
        (&["clarifier"], add(EntryKind::Summary, None)),
        (&["clarifier", "reflector", "cleaner"], add(EntryKind::Note, None)),
        (&["clarifier", "reflector", "cleaner"], add(EntryKind::Todo, None)),
        (
            &["clarifier", "reflector", "cleaner", "compactor"],
            add(EntryKind::Task, None),
        ),
    ] {
        assert_eq!(
            allowed_roles(std::slice::from_ref(&change), &[]),
            all_but(without),
            "{change:?}"
        );
    }
    let derived = Change::AddLink(Link {
        src: EntryId::derived(&["new"]).to_string(),
        rel: Relation::DerivedFrom,
        dst: old().id.to_string(),
    });
    let pattern = [add(EntryKind::Observation, Some("pattern_detected")), derived];
    assert_eq!(allowed_roles(&pattern, &[]), all_but(&["clarifier", "compactor"]));
    let replaces = patch(vec![FieldChange::SupersededBy(Some(EntryId::derived(&["new"])))]);
    let consolidated = [&pattern[..], &[replaces]].concat();
    assert_eq!(
        allowed_roles(&consolidated, &[]),
        ["executor", "evaluator", "reflector", "cleaner", "human"]
    );
}

#[test]
fn patch_needs_permission_for_each_of_its_fields_m7_7() {
    let body = || FieldChange::Body("other".to_owned());
    assert_eq!(allowed_roles(&[patch(vec![body()])], &[]), ["human"]);
    let archived = FieldChange::Status(Status::Archived);
    let who_archives = ["reflector", "cleaner", "human"];
    assert_eq!(allowed_roles(&[patch(vec![archived.clone()])], &[]), who_archives);
    assert_eq!(allowed_roles(&[patch(vec![archived, body()])], &[]), ["human"]);
    let confirmed = FieldChange::ValidatedAt(Timestamp::default());
    assert_eq!(
        allowed_roles(&[patch(vec![confirmed.clone()])], &[]).len(),
        Role::ALL.len() - 1
    );
    assert_eq!(allowed_roles(&[patch(vec![confirmed, body()])], &[]), ["human"]);
    for ended in [FieldChange::Ended, FieldChange::Expired] {
        let ended = patch(vec![ended(Timestamp::default())]);
        assert_eq!(allowed_roles(&[ended], &[]), who_archives);
    }
    for (why, who) in [(ErasedFor::Forgotten, &["human"][..]), (ErasedFor::Pii, &who_archives)] {
        let erased = Change::EraseEntry {
            entry: old().id,
            why,
            expected_version: None,
        };
        assert_eq!(allowed_roles(&[erased], &[]), who, "{why}");
    }
    let policy = Change::SetPolicy {
        policy: Box::default(),
        expected_version: None,
    };
    assert_eq!(allowed_roles(&[policy], &[]), ["human"]);
}

#[test]
fn adding_a_pinned_entry_needs_permission_to_pin_m7_7() {
    let mut new = added("new", EntryKind::Note, None);
    new.fields.pin_rank = Some(1);
    let pinned = Change::AddEntry(Box::new(new.clone()));
    assert_eq!(
        allowed_roles(&[pinned], &[]),
        ["planner", "compactor", "client", "human"]
    );
    // An executor, on a page of its branch.
    let own = page(PageRole::ScratchpadExec, "branch", Some("mine"), None);
    new.page = PageId::derived(&["branch"]);
    let pinned = Change::AddEntry(Box::new(new));
    let may = allowed_roles(&[pinned], std::slice::from_ref(&own));
    assert!(may.contains(&"executor"), "{may:?}");
}

#[test]
fn executor_may_pin_only_on_scratchpads_of_its_branch_m7_7() {
    let pins = [patch(vec![FieldChange::PinRank(Some(1))])];
    let may = |kind: EntryKind, page: Option<(&str, PageRole)>| {
        let mut known = Known::default();
        known.entries.insert(old().id, Entry { kind, ..old() });
        if let Some((of, role)) = page {
            let mut fields = PageFields::new(role, "page", Owner::executor());
            fields.run = Some(run(of));
            known.pages.insert(old().page, fields);
        }
        let types = TypeRegistry::of(&SpacePolicy::default());
        may_write(&actor(Role::Executor), &SpaceName::main(), &pins, &types, &known).is_ok()
    };
    assert!(may(EntryKind::Log, Some(("mine", PageRole::ScratchpadExec))));
    assert!(!may(EntryKind::Log, Some(("mine", PageRole::Plan))));
    assert!(!may(EntryKind::Log, Some(("other", PageRole::ScratchpadExec))));
    assert!(!may(EntryKind::Observation, None), "what anybody noticed");
}

#[test]
fn planner_may_patch_only_entries_on_pages_of_its_run_m7_7() {
    let status = [patch(vec![FieldChange::Status(Status::InProgress)])];
    let may_of = |of: &str| {
        let mut known = Known::default();
        known.entries.insert(old().id, old());
        let mut fields = PageFields::new(PageRole::Plan, "Plan", Owner::planner());
        fields.run = Some(run(of));
        known.pages.insert(old().page, fields);
        let types = TypeRegistry::of(&SpacePolicy::default());
        may_write(&actor(Role::Planner), &SpaceName::main(), &status, &types, &known).is_ok()
    };
    assert_eq!((may_of("mine"), may_of("other")), (true, false));
}
