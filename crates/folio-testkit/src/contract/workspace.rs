//! What a workspace makes of a store: memory stays readable whatever was removed, and concurrent writers cannot bring it
//! into a state that each of them alone would be refused.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::goals::GoalInput;
use folio_memory::id::Ref;
use folio_memory::lifecycle::Report;
use folio_memory::observation::ObservationInput;
use folio_memory::scratchbook::ItemInput;
use folio_memory::{Actor, Change, Entry, EntryKind, Link, Owner, Relation, Role, ThreadKey};
use folio_store::workspace::{Guard, ImportOptions, TurnInput, WorkReport};
use folio_store::{Store, StoreError, Workspace};
use serde_json::json;

use super::Home;
use super::scene::Scene;
use crate::SeededIds;

const DAY: Duration = Duration::from_secs(24 * 3_600);

impl Scene {
    /// The space, with everything that goes on above a store.
    fn workspace(&self) -> Workspace {
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
