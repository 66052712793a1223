//! What a workspace makes of a store: memory stays readable whatever was removed, and concurrent writers cannot bring
//! it into a state that each of them alone would be refused.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::goals::GoalInput;
use folio_memory::id::Ref;
use folio_memory::keeping::ArchivedFor;
use folio_memory::lifecycle::Report;
use folio_memory::observation::ObservationInput;
use folio_memory::scratchbook::ItemInput;
use folio_memory::{
    Actor, Change, Entry, EntryKind, EntryQuery, FieldChange, Link, Owner, Relation, Role, Seq, ThreadKey,
};
use folio_store::workspace::{
    Delegated, Delegation, ForgetFilter, Guard, ImportOptions, Successor, TraceQuery, TurnInput, WorkReport,
};
use folio_store::{Store, StoreError, Workspace, WorkspaceError};
use futures_util::future::join_all;
use serde_json::json;

use super::Home;
use super::scene::{Scene, patch};
use crate::{FaultyStore, SeededIds, Work};

const DAY: Duration = Duration::from_secs(24 * 3_600);

impl Scene {
    /// The space, with everything that goes on above a store.
    pub(super) fn workspace(&self) -> Workspace {
        self.workspace_on(Arc::clone(&self.store))
    }

    fn workspace_on(&self, store: Arc<dyn Store>) -> Workspace {
        let (clock, ids) = (Arc::new(self.clock.clone()), Arc::new(SeededIds::new(7)));
        Workspace::new(store, clock, ids, self.space.clone())
    }

    async fn link(&self, src: &Entry, rel: Relation, dst: &Entry) {
        let (src, dst) = (src.id.to_string(), dst.id.to_string());
        self.commit(vec![Change::AddLink(Link { src, rel, dst })]).await;
    }
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn main_thread() -> ThreadKey {
    ThreadKey::main()
}

async fn say(memory: &Workspace, actor: &Actor, content: &str) -> Entry {
    let input: ObservationInput =
        serde_json::from_value(json!({"content": content, "ttl_minutes": null})).expect("an observation");
    let added = memory.add_observation(actor, input, None).await;
    added.expect("an observation").entry
}

async fn item(memory: &Workspace, kind: EntryKind, title: &str) -> Entry {
    let input = ItemInput {
        kind,
        title: Some(title.to_owned()),
        body: title.to_owned(),
        tags: Vec::new(),
        phase: None,
        progress: None,
    };
    let added = memory.add_item(&person(), &main_thread(), input, None).await;
    added.expect("an item").entry
}

/// Links and decisions outlive the entries that they name: whoever follows them finds what is left, and no file has a
/// link to nothing.
pub async fn links_to_removed_entries_stop_no_reader_m7_6_46(home: &dyn Home) {
    let scene = Scene::of(home);
    let (memory, person, thread) = (scene.workspace(), person(), main_thread());
    // Neither the entry whose commit adds a page nor the last entry is ever removed.
    say(&memory, &person, "stays").await;
    let work = item(&memory, EntryKind::Todo, "stays").await;
    let evidence = say(&memory, &person, "grace@example.org waits").await;
    let blocker = item(&memory, EntryKind::Todo, "ask grace@example.org").await;
    let reply = item(&memory, EntryKind::Note, "grace@example.org says yes").await;
    let input = GoalInput {
        title: "an answer".to_owned(),
        body: "whoever it is from".to_owned(),
        ..GoalInput::default()
    };
    let from = Some(Ref::Id(evidence.id));
    let goal = memory.add_goal(&person, &thread, EntryKind::Goal, input, from).await;
    let goal = goal.expect("a goal").entry;
    scene.link(&blocker, Relation::Blocks, &work).await;
    scene.link(&reply, Relation::RepliesTo, &work).await;
    let begin = async || {
        let input = TurnInput::of(thread.clone(), "Write down what grace said about it");
        let begun = memory.begin_turn(&person, input).await.expect("a turn");
        begun.turn.begun.id
    };
    let turn = begin().await;
    let said = say(&memory, &person.clone().in_turn(turn), "grace@example.org said so").await;
    let resolved = memory.complete(&person, Ref::Id(said.id), Guard::default()).await;
    resolved.expect("a resolved observation");
    let end = async || {
        let ended = memory
            .end_turn_under(&person, Ref::Id(turn), Some("end".to_owned()))
            .await;
        ended.expect("the end of a turn")
    };
    let ended = end().await;
    assert_eq!(ended.reflection.archive[0].id, said.id);
    say(&memory, &person, "stays, too").await;

    let mut buried = 0;
    for _ in 0..5 {
        scene.clock.advance(100 * DAY);
        buried += memory.tidy(scene.now()).await.expect("a tidy space").buried;
    }
    assert_eq!(buried, 4);
    for gone in [&evidence, &blocker, &reply, &said] {
        let read = scene.store.entry(&scene.space, Ref::Id(gone.id)).await;
        assert!(matches!(read, Err(StoreError::NotFound { .. })), "{read:?}");
    }
    let goals = memory.goals(None, false).await.expect("goals");
    assert_eq!(goals.iter().map(|goal| goal.entry.id).collect::<Vec<_>>(), [goal.id]);
    let again = end().await;
    assert_eq!(
        (again.replayed, &again.reflection.archive),
        (true, &ended.reflection.archive)
    );
    assert_eq!(again.export, ended.export);
    let next = begin().await;
    memory
        .end_turn(&person, Ref::Id(next))
        .await
        .expect("the end of a turn");
    let ready = memory
        .ready_work(&thread, &Owner::agent(), 10)
        .await
        .expect("ready work");
    assert_eq!(ready.items.iter().map(|work| work.id).collect::<Vec<_>>(), [work.id]);
    let report = WorkReport {
        item: Ref::Id(work.id),
        said: Report::Done,
        result: "grace says yes".to_owned(),
        after: Vec::new(),
    };
    let reported = memory
        .report_work(&person, &thread, &Owner::agent(), report, None)
        .await;
    assert!(reported.expect("a report").1.is_some());

    let export = async |memory: &Workspace| {
        let mut file = Vec::new();
        memory.export_space(&mut file, &mut |_| {}).await.expect("a file");
        String::from_utf8(file).expect("text")
    };
    let file = export(&memory).await;
    let names = |id: &str| {
        file.lines()
            .filter(|line| line.contains("\"rel\"") && line.contains(id))
            .count()
    };
    for gone in [&evidence, &blocker, &reply, &said] {
        assert_eq!(names(&gone.id.to_string()), 0, "{file}");
    }
    assert_eq!(names(&work.id.to_string()), 1, "{file}");
    let other = scene.other_space("elsewhere");
    let (source, options) = (Cursor::new(file.clone().into_bytes()), ImportOptions::default());
    let elsewhere = other.workspace();
    let imported = elsewhere.import_space(&person, source, options, &mut |_| {}).await;
    let imported = imported.expect("an import");
    assert_eq!((imported.refused, imported.links), (0, 1), "{imported:?}");
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}

/// The codes of the errors among `outcomes`.
fn codes<T>(outcomes: Vec<Result<T, WorkspaceError>>) -> Vec<String> {
    let errors = outcomes.into_iter().filter_map(Result::err);
    errors.map(|error| error.code().to_owned()).collect()
}

/// Each of them would be right alone. All have read before any of them is made; the last one would close the cycle.
pub async fn concurrent_writers_cannot_make_entries_replace_themselves_m7_4_37(home: &dyn Home) {
    let scene = Scene::of(home);
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    for (count, way) in [(2, "supersede"), (3, "supersede"), (2, "consolidate"), (4, "both")] {
        let mut entries = Vec::new();
        for number in 0..count {
            entries.push(say(&memory, &person, &format!("{number} of {count} to {way}")).await);
        }
        let replace = async |number: usize| {
            let (old, new) = (&entries[number], &entries[(number + 1) % count]);
            let (old, new) = (Ref::Id(old.id), Ref::Id(new.id));
            if way == "supersede" || (way == "both" && number.is_multiple_of(2)) {
                let written = memory.supersede(&person, old, new, Guard::default()).await;
                written.map(drop)
            } else {
                let (sources, by) = ([(old, None)], Successor::There(new));
                memory.consolidate(&person, &sources, by, None).await.map(drop)
            }
        };
        store.let_commits_meet(count);
        let refused = codes(join_all((0..count).map(replace)).await);
        assert_eq!(refused, ["supersede_cycle"], "{count} by {way}");
        let shown = memory.entries(&EntryQuery::default()).await.expect("a list");
        let shown = shown
            .items
            .iter()
            .filter(|entry| entries.iter().any(|one| one.id == entry.id));
        assert_eq!(shown.count(), 1, "one of {count} by {way} is left");
    }
}

/// The successor was there when its writer looked, and is hidden before the commit is made.
pub async fn successor_archived_or_forgotten_meanwhile_replaces_nothing_m7_4_37(home: &dyn Home) {
    let scene = Scene::of(home);
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    let others = scene.workspace();
    for (hides, way) in [
        ("archive", "supersede"),
        ("forget", "supersede"),
        ("archive", "consolidate"),
    ] {
        let (old, new) = (
            say(&memory, &person, "the old one").await,
            say(&memory, &person, "the new one").await,
        );
        let (old, new) = (Ref::Id(old.id), Ref::Id(new.id));
        let gate = store.hold(Work::Commit);
        let replacing = async {
            if way == "supersede" {
                let written = memory.supersede(&person, old, new, Guard::default()).await;
                written.map(drop)
            } else {
                let (sources, by) = ([(old, None)], Successor::There(new));
                memory.consolidate(&person, &sources, by, None).await.map(drop)
            }
        };
        let hiding = async {
            gate.wait_until_reached().await;
            if hides == "archive" {
                others.archive(&person, new, None).await.expect("an archived entry");
            } else {
                let filter = ForgetFilter {
                    entries: vec![new],
                    ..ForgetFilter::default()
                };
                let forgotten = others.forget(&person, &filter, "it was wrong").await;
                forgotten.expect("nothing left of it");
            }
            gate.open();
        };
        let (replaced, ()) = tokio::join!(replacing, hiding);
        assert_eq!(codes(vec![replaced]), ["superseded_by_unseen"], "{hides}, {way}");
        let old = memory.entry(old).await.expect("the old one");
        assert_eq!(old.fields.superseded_by, None, "{hides}, {way}");
    }
}

/// As for entries that replace each other.
pub async fn concurrent_writers_cannot_make_work_wait_for_itself_m7_4_35(home: &dyn Home) {
    let scene = Scene::of(home);
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    let (thread, owner) = (main_thread(), Owner::agent());
    for (count, way) in [(2, "after"), (3, "after"), (2, "part of"), (3, "report")] {
        let mut works = Vec::new();
        for number in 0..count {
            works.push(item(&memory, EntryKind::Task, &format!("{number} of {count}, {way}")).await);
        }
        let order = async |number: usize| {
            let (one, other) = (Ref::Id(works[number].id), Ref::Id(works[(number + 1) % count].id));
            let delegation = Delegation {
                what: Delegated::There(one),
                to: None,
                after: Vec::new(),
                part_of: None,
            };
            let delegation = match way {
                "after" => Delegation {
                    after: vec![other],
                    ..delegation
                },
                "part of" => Delegation {
                    part_of: Some(other),
                    ..delegation
                },
                _ => {
                    let report = WorkReport {
                        item: one,
                        said: Report::Underway(None),
                        result: String::new(),
                        after: vec![other],
                    };
                    let reported = memory.report_work(&person, &thread, &owner, report, None).await;
                    return reported.map(drop);
                }
            };
            let delegated = memory.delegate_work(&person, &thread, &owner, delegation, None).await;
            delegated.map(drop)
        };
        store.let_commits_meet(count);
        let refused = codes(join_all((0..count).map(order)).await);
        assert_eq!(refused, ["blocks_itself"], "{count}, {way}");
        let ready = memory
            .ready_work(&thread, &Owner::agent(), 100)
            .await
            .expect("ready work");
        let ready = ready
            .items
            .iter()
            .filter(|entry| works.iter().any(|one| one.id == entry.id));
        assert_eq!(ready.count(), 1, "{count}, {way}");
    }
}

/// As long as there is enough for all of them; whoever is too late is told that nothing is ready, as if they had asked
/// later.
pub async fn agents_that_ask_for_work_at_once_each_get_another_piece_m7_4_35(home: &dyn Home) {
    const AGENTS: usize = 24;
    let scene = Scene::of(home);
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    let thread = main_thread();
    for number in 1..AGENTS {
        item(&memory, EntryKind::Task, &format!("piece {number}")).await;
    }
    let ask = async |number: usize| {
        let owner = Owner::parse(&format!("agent-{number}")).expect("a name");
        let claimed = memory.claim_work(&person, &thread, None, &owner, None).await;
        claimed.expect("no agent is in the way of another").map(|claimed| {
            assert_eq!(claimed.entry.fields.owner, owner);
            claimed.entry.id
        })
    };
    store.let_commits_meet(AGENTS);
    let claimed = join_all((0..AGENTS).map(ask)).await;
    let pieces: BTreeSet<_> = claimed.iter().flatten().collect();
    assert_eq!(pieces.len(), AGENTS - 1, "{claimed:?}");
    assert_eq!(claimed.iter().filter(|piece| piece.is_none()).count(), 1, "{claimed:?}");
}

/// The links of a file are checked before they are written. Whoever writes in between may have closed the other half.
pub async fn import_closes_no_circle_with_what_others_write_meanwhile_m7_4_35(home: &dyn Home) {
    for (rel, code) in [
        (Relation::Blocks, "blocks_itself"),
        (Relation::Supersedes, "supersede_cycle"),
    ] {
        import_beside_others(&Scene::of(home).other_space(code), rel, code).await;
    }
}

async fn import_beside_others(scene: &Scene, rel: Relation, code: &str) {
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    let mut works = Vec::new();
    for title in ["first", "second", "third", "fourth"] {
        works.push(item(&memory, EntryKind::Task, title).await);
    }
    let mut file = Vec::new();
    memory.export_space(&mut file, &mut |_| {}).await.expect("a file");
    let mut lines: Vec<_> = String::from_utf8(file)
        .expect("text")
        .lines()
        .map(str::to_owned)
        .collect();
    let end = lines.pop().expect("a last line");
    for (src, dst) in [(0, 1), (2, 3)] {
        let (src, dst) = (works[src].id.to_string(), works[dst].id.to_string());
        lines.push(json!({"record": "link", "src": src, "rel": rel.as_str(), "dst": dst}).to_string());
    }
    lines.push(end);
    let source = Cursor::new(lines.join("\n").into_bytes());
    let gate = store.hold(Work::Commit);
    let mut progress = |_: &_| {};
    let importing = memory.import_space(&person, source, ImportOptions::default(), &mut progress);
    let others = async {
        gate.wait_until_reached().await;
        // By way of both links of the file.
        scene.link(&works[1], rel, &works[2]).await;
        scene.link(&works[3], rel, &works[0]).await;
        gate.open();
    };
    let (report, ()) = tokio::join!(importing, others);
    let report = report.expect("a report");
    let refused = report.remarks.iter().filter(|remark| remark.code == code);
    assert_eq!((report.links, refused.count()), (1, 1), "{report:?}");
}

/// Nothing was to be waited for when its claimant looked.
pub async fn work_that_comes_to_wait_meanwhile_cannot_be_claimed_m7_4_35(home: &dyn Home) {
    let scene = Scene::of(home);
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    let (first, second) = (
        item(&memory, EntryKind::Task, "first").await,
        item(&memory, EntryKind::Task, "second").await,
    );
    let (owner, thread, work) = (Owner::agent(), main_thread(), Some(Ref::Id(second.id)));
    let gate = store.hold(Work::Commit);
    let claims = memory.claim_work(&person, &thread, work, &owner, None);
    let others = async {
        gate.wait_until_reached().await;
        scene.link(&first, Relation::Blocks, &second).await;
        gate.open();
    };
    let (claimed, ()) = tokio::join!(claims, others);
    assert_eq!(codes(vec![claimed]), ["not_claimable"]);
    let done = memory.complete(&person, Ref::Id(first.id), Guard::default()).await;
    done.expect("nothing is waited for");
    let claimed = memory.claim_work(&person, &thread, work, &owner, None).await;
    assert!(claimed.expect("a claim").is_some());
    // Work that has begun goes on.
    let third = item(&memory, EntryKind::Task, "third").await;
    scene.link(&third, Relation::Blocks, &second).await;
    let claimed = memory.claim_work(&person, &thread, work, &owner, None).await;
    assert!(claimed.expect("a claim").is_some());
}

/// It counts from the last change, whether nobody has noted the expiry yet, somebody has, or an earlier version had.
pub async fn archiving_by_age_does_not_depend_on_noted_expiry_m7_6_44(home: &dyn Home) {
    let scene = Scene::of(home);
    let second = Duration::from_secs(1);
    let spaces = ["unnoted", "noted", "noted-before"].map(|name| scene.other_space(name));
    let memories = spaces.each_ref().map(Scene::workspace);
    let person = person();
    let mut entries = Vec::new();
    for memory in &memories {
        let policy = serde_json::from_value(json!({"retention": {"archive_after_minutes": 1}})).expect("a policy");
        memory.set_policy(&person, policy, None, None).await.expect("a policy");
        let input = json!({"content": "the build is slow", "ttl_minutes": 1});
        let input = serde_json::from_value(input).expect("an observation");
        let added = memory.add_observation(&person, input, None).await;
        entries.push(added.expect("an observation").entry);
    }
    scene.clock.advance(50 * second);
    for (memory, entry) in memories.iter().zip(&entries) {
        let patch = serde_json::from_value(json!({"content": "the build is very slow"})).expect("a patch");
        let updated = memory.update_observation(&person, Ref::Id(entry.id), patch, None).await;
        updated.expect("an update");
    }
    let changed_at = scene.now();
    scene.clock.advance(12 * second);
    assert_eq!(memories[1].note_ended().await.expect("one"), 1);
    let end = entries[2].fields.lifetime.expires_at().expect("an end");
    spaces[2]
        .commit(vec![patch(entries[2].id, vec![FieldChange::Expired(end)])])
        .await;
    let noted = memories[1].entry(Ref::Id(entries[1].id)).await.expect("an entry");
    assert_eq!((noted.fields.expired_at, noted.updated_at), (Some(end), changed_at));
    for (seconds, archived) in [(0, 0), (47, 0), (1, 1)] {
        scene.clock.advance(seconds * second);
        for memory in &memories {
            let tidied = memory.tidy(scene.now()).await.expect("a tidy space");
            let by_age = tidied.archived.get(&ArchivedFor::Age).copied();
            assert_eq!(
                by_age.unwrap_or_default(),
                archived,
                "{} {:?}",
                memory.space(),
                scene.now()
            );
        }
    }
    let checkup = scene.store.check().await.expect("a checkup");
    assert_eq!(checkup.problems, Vec::<String>::new());
}

/// A mistyped name is not listed for ever, although the trace knows who asked for it.
pub async fn space_that_was_only_read_is_not_listed_m7_6_51(home: &dyn Home) {
    let scene = Scene::of(home);
    let typo = scene.other_space("typo");
    let memory = typo.workspace().asked_by(&person());
    let listed = async || {
        let spaces = scene.store.spaces().await.expect("spaces");
        spaces.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(memory.entries(&EntryQuery::default()).await.expect("a list").total, 0);
    memory.flush_trace().await.expect("written notes");
    assert_eq!(listed().await, Vec::<String>::new());
    let asked = memory.trace(TraceQuery::default()).await.expect("the trace");
    assert_eq!(
        asked.iter().map(|line| line.operation.as_str()).collect::<Vec<_>>(),
        ["list_entries"]
    );
    say(&memory, &person(), "now it is written to").await;
    assert_eq!(listed().await, ["typo"]);
}

/// What was to be noted is pinned just before, and unpinned later: it expires then, each time.
pub async fn expiry_is_noted_after_unpinning_although_a_pin_had_prevented_it_m7_1_8(home: &dyn Home) {
    let scene = Scene::of(home);
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    let input = serde_json::from_value(json!({"content": "the build is slow", "ttl_minutes": 1}));
    let added = memory
        .add_observation(&person, input.expect("an observation"), None)
        .await;
    let entry = added.expect("an observation").entry.id;
    scene.clock.advance(Duration::from_secs(60));
    for _ in 0..2 {
        let gate = store.hold(Work::Commit);
        let pinning = async {
            gate.wait_until_reached().await;
            scene
                .commit(vec![patch(entry, vec![FieldChange::PinRank(Some(1))])])
                .await;
            gate.open();
        };
        let (noted, ()) = tokio::join!(memory.note_ended(), pinning);
        assert_eq!(noted.expect("nothing"), 0);
        scene.commit(vec![patch(entry, vec![FieldChange::PinRank(None)])]).await;
    }
    assert_eq!(memory.note_ended().await.expect("one"), 1);
    let noted = memory.entry(Ref::Id(entry)).await.expect("an entry").fields;
    assert_eq!(noted.expired_at, noted.lifetime.expires_at());
    assert_eq!(memory.note_ended().await.expect("none"), 0);
}

/// A turn that is written to each time its end is worked out ends nevertheless, and says so.
pub async fn what_is_written_in_a_turn_while_it_ends_is_exported_m7_6_47(home: &dyn Home) {
    let scene = Scene::of(home);
    let store = Arc::new(FaultyStore::new(Arc::clone(&scene.store)));
    let (memory, person) = (scene.workspace_on(Arc::clone(&store) as Arc<dyn Store>), person());
    for (writes, exported, is_unread) in [(1, 2, false), (20, 9, true)] {
        let begun = memory.begin_turn(&person, TurnInput::of(main_thread(), "look")).await;
        let turn = begun.expect("a turn").turn;
        let in_turn = person.clone().in_turn(turn.begun.id);
        say(&memory, &in_turn, "before").await;
        let mut gate = store.hold(Work::Commit);
        let ending = memory.end_turn(&person, Ref::Id(turn.begun.id));
        let writing = async {
            for _ in 0..writes {
                gate.wait_until_reached().await;
                say(&memory, &in_turn, "meanwhile").await;
                let reached = std::mem::replace(&mut gate, store.hold(Work::Commit));
                reached.open();
            }
            gate.wait_until_reached().await;
            gate.open();
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = ending => ended.expect("it ends"),
            () = writing => unreachable!("it writes on"),
        };
        assert_eq!(ended.export.touched.len(), exported, "of {writes}");
        let of_end = ended.turn.ended.expect("an end").seq;
        let log = scene.store.changes(&scene.space, Seq(of_end.0 - 1), 1).await;
        let reason = log.expect("the log").remove(0).record.reason.unwrap_or_default();
        assert_eq!(reason.contains("all the time"), is_unread, "{reason:?}");
    }
}

/// Its input and the reasons of its decisions are gone from the rows and the log; its export and what it used stay.
pub async fn forgotten_text_is_gone_from_turns_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let (memory, person) = (scene.workspace(), person());
    let begin = async |input: &str| {
        let begun = memory.begin_turn(&person, TurnInput::of(main_thread(), input)).await;
        begun.expect("a turn").turn
    };
    let alert = json!({"content": "The mill is locked", "type": "risk_alert", "tags": ["Winterbourne"]});
    let alert: ObservationInput = serde_json::from_value(alert).expect("an observation");
    let alert = memory
        .add_observation(&person, alert, None)
        .await
        .expect("an alert")
        .entry;
    let ended = begin("Ask at the mill of Winterbourne").await;
    memory
        .end_turn(&person, Ref::Id(ended.begun.id))
        .await
        .expect("it ends");
    let open = begin("And now for the MILL  of winterbourne again").await;
    let other = begin("Water the plants").await;
    let filter = ForgetFilter {
        text: Some("mill of Winterbourne".to_owned()),
        ..ForgetFilter::default()
    };
    let found = memory.turns_to_forget(&filter).await.expect("turns");
    let found: Vec<_> = found.iter().map(|turn| turn.handle).collect();
    assert_eq!(found, [open.handle, ended.handle]);
    let forget = async || {
        let forgotten = memory
            .forget_under(&person, &filter, "they asked", Some("k".to_owned()))
            .await;
        forgotten.expect("it is forgotten")
    };
    let forgotten = forget().await;
    assert_eq!((&forgotten.turns, forgotten.entries.len()), (&found, 0));
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    let begun_later = begin("Back at the mill of Winterbourne").await;
    let again = forget().await;
    assert_eq!((&again.turns, again.replayed), (&found, true));
    for turn in &found {
        let turn = memory.turn(Ref::Handle(*turn)).await.expect("a turn");
        assert_eq!(turn.begun.input, "");
        assert!(turn.decisions().all(|decision| decision.reasons.is_empty()), "{turn:?}");
        let uses = turn.decisions().flat_map(|decision| &decision.used);
        assert!(uses.into_iter().any(|used| used.id == alert.id), "{turn:?}");
    }
    memory.end_turn(&person, Ref::Id(open.begun.id)).await.expect("it ends");
    memory.turn_export(Ref::Id(ended.begun.id)).await.expect("an export");
    for (turn, input) in [
        (other, "Water the plants"),
        (begun_later, "Back at the mill of Winterbourne"),
    ] {
        let turn = memory.turn(Ref::Id(turn.begun.id)).await.expect("a turn");
        assert_eq!(turn.begun.input, input);
    }
    let problems = scene.store.check().await.expect("a check").problems;
    assert_eq!(problems, Vec::<String>::new());
    // With anything else required, a turn is not meant.
    let filter = ForgetFilter {
        entries: vec![Ref::Id(alert.id)],
        ..filter
    };
    assert_eq!(memory.turns_to_forget(&filter).await.expect("turns"), []);
}
