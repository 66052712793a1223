//! What a workspace caches between two queries gives the same answers as a workspace that has cached nothing.

use std::sync::Arc;

use folio_memory::context::Section;
use folio_memory::entry::{EntryFields, Owner};
use folio_memory::id::Ref;
use folio_memory::scratchbook::ItemInput;
use folio_memory::tokens::Estimate;
use folio_memory::{
    Actor, Change, EntryId, EntryKind, NewEntry, NewPage, PageFields, PageId, PageRole, Role, RunId, SpaceName,
    ThreadKey, Trust,
};
use folio_store::workspace::{ContextRequest, ForgetFilter, ViewRequest, Write};
use folio_store::{RunAppend, Workspace};
use folio_testkit::SeededIds;
use serde_json::{from_value, json};

use crate::house::{HOUR, House, human};

/// What a model sees of memory: its context and its view of the scratchbook.
async fn render_memory(workspace: &Workspace) -> (String, String) {
    let request = ContextRequest {
        thread: ThreadKey::main(),
        turn: None,
        prompt: "which wine".to_owned(),
        budget: 2_000,
        sections: vec![(Section::ScratchPage, 60), (Section::Semantic, 40)],
    };
    let context = workspace.assemble_context(request, &Estimate).await.unwrap().text;
    let view = workspace
        .view(ViewRequest::of(ThreadKey::main()), &Estimate)
        .await
        .unwrap();
    (context, view.rendered.text.clone())
}

/// The same; asserts that a fresh workspace gives the same answers.
async fn render_checked_memory(house: &House) -> (String, String) {
    let told = render_memory(&house.workspace).await;
    let store = Arc::clone(house.workspace.store());
    let ids = Arc::new(SeededIds::new(99));
    let fresh = Workspace::new(store, Arc::new(house.clock.clone()), ids, SpaceName::main());
    assert_eq!(told, render_memory(&fresh).await);
    told
}

#[tokio::test]
async fn cached_context_and_view_match_fresh_ones_after_every_change() {
    let house = House::new();
    let mut before = render_checked_memory(&house).await;
    assert_eq!(before, (String::new(), String::new()));
    let corked = house.say("the bottle is corked").await;
    let mut changed = async |what: &str| {
        let now = render_checked_memory(&house).await;
        assert_ne!(now, before, "{what}");
        assert_eq!(now, render_checked_memory(&house).await, "asked once more after {what}");
        before = now;
    };
    changed("an observation").await;
    house
        .update(&corked, json!({"content": "the bottle is not corked"}))
        .await;
    changed("its revision").await;
    house
        .add(json!({"content": "it is open for an hour", "ttl_minutes": 60}))
        .await;
    changed("one that ends").await;
    let todo: ItemInput = from_value(json!({"kind": "todo", "title": "buy another"})).unwrap();
    house
        .workspace
        .add_item(&human(), &ThreadKey::main(), todo, None)
        .await
        .unwrap();
    changed("a todo").await;
    house.clock.advance(HOUR * 2);
    changed("time").await;
    let other = House::at(&house.path, 2);
    other.clock.advance(HOUR * 2);
    other.say("another process found a better one").await;
    changed("another process").await;
    other
        .workspace
        .forget(
            &human(),
            &ForgetFilter {
                text: Some("not corked".to_owned()),
                ..ForgetFilter::default()
            },
            "she asked for it",
        )
        .await
        .unwrap();
    changed("what another process forgot").await;
    let all = ForgetFilter {
        text: Some("better".to_owned()),
        ..ForgetFilter::default()
    };
    house
        .workspace
        .forget(&human(), &all, "she asked for it")
        .await
        .unwrap();
    changed("what was forgotten").await;
    house.set_policy(json!({"scratchbook": {"enabled": false}})).await;
    changed("the policy").await;
}

/// Starts `run`, and returns the actor of its journal.
async fn started(house: &House, run: RunId) -> Actor {
    let actor = Actor::new(Role::Planner, "runner").in_run(run);
    let event =
        from_value(json!({"event": "run_started", "format": 1, "goal": "g", "plan": {}, "inputs": {}, "run": {}}));
    let write = Write {
        run: Some(RunAppend {
            run,
            events: vec![event.unwrap()],
            status: Some("running".to_owned()),
            title: Some("g".to_owned()),
            so_far: None,
        }),
        ..Write::default()
    };
    house.workspace.record(&actor, write).await.unwrap();
    actor
}

#[tokio::test]
async fn memory_mark_changes_for_observations_but_not_for_run_logs() {
    let house = House::new();
    house.say("the bottle is corked").await;
    let (store, space, now) = (house.workspace.store(), SpaceName::main(), house.now());
    let mark = async || store.memory_mark(&space, now).await.unwrap().unwrap().number;
    let pages = async || house.workspace.moment().await.unwrap().mark_of_pages().unwrap();
    let first = mark().await;
    let ids = SeededIds::new(7);
    let run = RunId::draw(&ids, now);
    let page = PageId::draw(&ids, now);
    let mut fields = PageFields::new(PageRole::ScratchpadExec, "a task", Owner::executor());
    fields.run = Some(run);
    let entry = |kind: EntryKind| {
        let fields = EntryFields::new(kind, Owner::executor(), Trust::ToolInternal);
        Change::AddEntry(Box::new(NewEntry {
            id: EntryId::draw(&ids, now),
            page,
            kind,
            fields,
        }))
    };
    let actor = Actor::new(Role::Planner, "runner").in_run(run);
    let added = Change::EnsurePage(Box::new(NewPage { id: page, fields }));
    let changes = vec![
        added,
        entry(EntryKind::Log),
        entry(EntryKind::Step),
        entry(EntryKind::Summary),
    ];
    house.workspace.record(&actor, Write::of(changes)).await.unwrap();
    assert_eq!(mark().await, first, "its log, its steps and the summary of its page");
    let of_pages = pages().await;
    let block = |run| {
        let mut write = Write::of(vec![entry(EntryKind::Log)]);
        write.run = Some(RunAppend {
            run,
            events: Vec::new(),
            status: None,
            title: None,
            so_far: None,
        });
        write
    };
    let own = started(&house, run).await;
    house.workspace.record(&own, block(run)).await.unwrap();
    assert_eq!(pages().await, of_pages, "what a run writes onto its own page it knows");
    let other = RunId::draw(&ids, now);
    let others = started(&house, other).await;
    house.workspace.record(&others, block(other)).await.unwrap();
    let by_a_run = pages().await;
    assert_ne!(by_a_run, of_pages, "another run wrote onto its page");
    house
        .workspace
        .append(&human(), Ref::Id(page), "By hand", "look".to_owned(), &[], None)
        .await
        .unwrap();
    assert_ne!(pages().await, by_a_run, "somebody wrote onto its page");
    assert_eq!(mark().await, first, "which is no memory of that sort");
    // The page is there already: whose summary it is, the commit does not say.
    let changes = vec![entry(EntryKind::Summary)];
    house.workspace.record(&actor, Write::of(changes)).await.unwrap();
    let second = mark().await;
    assert_ne!(second, first);
    house.say("the next one is not").await;
    assert_ne!(mark().await, second);
}
