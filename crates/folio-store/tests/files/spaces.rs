//! Two spaces in one file (M7.6.51): nothing of one is reachable from the other, whatever is queried or named.

use std::fmt::Debug;
use std::sync::Arc;

use folio_memory::entry::BodyRef;
use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::query::{MAX_LIMIT, PageQuery};
use folio_memory::scratchbook::{self, ItemInput};
use folio_memory::tokens::Estimate;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, Link, NewEntry, Order, Page, Relation, Role,
    Seq, SpaceName, Status, Tag, ThreadKey, Timestamp, TurnQuery,
};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{
    BookFilter, ContextRequest, EpisodeQuery, ForgetFilter, Guard, PageInput, TraceQuery, TurnInput, Write,
};
use folio_store::{Blob, ErrorKind, RunAppend, RunQuery, Workspace};
use folio_testkit::contract::scene;
use folio_testkit::{SeededIds, SimClock};
use serde_json::{Value, json};

/// A word that is in everything of the first space, and nowhere else.
const SECRET: &str = "zarquon";

struct Houses {
    theirs: Workspace,
    ours: Workspace,
    seen: Entry,
    item: Entry,
    page: Page,
    turn: folio_memory::Turn,
    run: folio_memory::RunId,
    blob: Blob,
    _folder: tempfile::TempDir,
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

async fn observe(space: &Workspace, word: &str, key: Option<String>) -> Entry {
    let input: ObservationInput = serde_json::from_value(json!({
        "content": format!("{word} wine is out of stock"), "type": "insight", "tags": [word], "title": word,
        "context": {"secret": word}, "confidence": 0.9,
    }))
    .unwrap();
    space.add_observation(&person(), input, key).await.unwrap().entry
}

async fn houses() -> Houses {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let (clock, ids) = (Arc::new(SimClock::default()), Arc::new(SeededIds::new(1)));
    let space = |name: &str| {
        let name = SpaceName::parse(name).unwrap();
        Workspace::new(
            Arc::clone(&store) as _,
            Arc::clone(&clock) as _,
            Arc::clone(&ids) as _,
            name,
        )
    };
    let (theirs, ours) = (space("theirs"), space("ours"));
    let seen = observe(&theirs, SECRET, Some("key".to_owned())).await;
    let todo: ItemInput = serde_json::from_value(json!({"kind": "todo", "title": SECRET})).unwrap();
    let item = theirs
        .add_item(&person(), &ThreadKey::main(), todo, None)
        .await
        .unwrap()
        .entry;
    let input = PageInput {
        title: SECRET.to_owned(),
        ..PageInput::default()
    };
    let page = theirs.new_page(&person(), input).await.unwrap();
    theirs
        .append(&person(), Ref::Id(page.id), SECRET, SECRET.to_owned(), &[], None)
        .await
        .unwrap();
    let link = Change::AddLink(Link {
        src: seen.id.to_string(),
        rel: Relation::References,
        dst: page.id.to_string(),
    });
    let (run, blob) = (
        folio_memory::RunId::derived(&["theirs"]),
        Blob::new(SECRET.as_bytes().to_vec()),
    );
    let write = Write {
        run: Some(RunAppend {
            run,
            events: vec![scene::started(SECRET)],
            status: Some("running".to_owned()),
            title: Some(SECRET.to_owned()),
            so_far: None,
        }),
        blobs: vec![blob.clone()],
        reason: Some(SECRET.to_owned()),
        ..Write::of(vec![link])
    };
    theirs.record(&person(), write).await.unwrap();
    let input = TurnInput {
        thread: ThreadKey::main(),
        input: format!("look after the {SECRET}"),
        run: None,
        background: false,
    };
    let turn = theirs.begin_turn(&person(), input).await.unwrap().turn;
    theirs.end_turn(&person(), Ref::Id(turn.begun.id)).await.unwrap();
    let turn = theirs.turn(Ref::Id(turn.begun.id)).await.unwrap();
    theirs.flush_trace().await.unwrap();
    Houses {
        theirs,
        ours,
        seen,
        item,
        page,
        turn,
        run,
        blob,
        _folder: folder,
    }
}

fn request() -> ContextRequest {
    ContextRequest {
        thread: ThreadKey::main(),
        turn: None,
        prompt: String::new(),
        budget: 500,
        sections: Vec::new(),
    }
}

/// The contents of `space`, as text.
async fn everything(space: &Workspace) -> String {
    let (store, name) = (space.store(), space.space());
    let query = EntryQuery {
        status: Status::ALL.to_vec(),
        include_expired: true,
        include_superseded: true,
        order: Order::Oldest,
        limit: MAX_LIMIT,
        ..EntryQuery::default()
    };
    let entries = store.entries(name, &query, space.clock().now()).await.unwrap().items;
    let pages = store.pages(name, &PageQuery::default()).await.unwrap();
    let turns = store.turns(name, &TurnQuery::default()).await.unwrap();
    let runs = store.runs(name, &RunQuery::default()).await.unwrap();
    let log = store.changes(name, Seq(0), 10_000).await.unwrap();
    let notes = store.notes(name, &folio_memory::NoteQuery::default()).await.unwrap();
    let policy = store.policy(name).await.unwrap();
    format!("{entries:?}{pages:?}{turns:?}{runs:?}{log:?}{notes:?}{policy:?}")
}

/// Asserts that an answer reveals nothing of the other space. Notes and errors repeat the query, so query by ids.
fn assert_reveals_nothing(what: &str, answer: &impl Debug) {
    let said = format!("{answer:?}").to_lowercase();
    assert!(!said.contains(SECRET), "{what}: {said}");
}

fn not_found<T: Debug>(what: &str, answer: Result<T, folio_store::WorkspaceError>) {
    assert_reveals_nothing(what, &answer);
    let kind = answer.map_err(|error| error.kind());
    assert!(matches!(kind, Err(ErrorKind::NotFound)), "{what}: {kind:?}");
}

#[tokio::test]
async fn query_parameters_cannot_reach_another_space_m7_6_51() {
    let h = houses().await;
    let ours = &h.ours;
    let first = EntryQuery {
        limit: 1,
        order: Order::Oldest,
        ..EntryQuery::default()
    };
    let cursor = h.theirs.entries(&first).await.unwrap().next.unwrap();
    let said = EntryQuery::default;
    let tag = || Tag::parse(SECRET).unwrap();
    let queries = [
        said(),
        EntryQuery {
            page: Some(h.page.id),
            ..said()
        },
        EntryQuery {
            page: Some(h.seen.page),
            ..said()
        },
        EntryQuery {
            page: Some(scratchbook::page_of(h.theirs.space(), &ThreadKey::main()).0),
            ..said()
        },
        EntryQuery {
            kinds: EntryKind::ALL.to_vec(),
            status: Status::ALL.to_vec(),
            ..said()
        },
        EntryQuery {
            types: vec!["insight".to_owned()],
            ..said()
        },
        EntryQuery {
            as_of: Some(Seq(3)),
            ..said()
        },
        EntryQuery {
            since: Some(Seq(0)),
            ..said()
        },
        EntryQuery {
            tags: vec![tag()],
            ..said()
        },
        EntryQuery {
            tags_any: vec![tag()],
            ..said()
        },
        EntryQuery {
            tags_none: vec![Tag::parse("none").unwrap()],
            ..said()
        },
        EntryQuery {
            context: vec![("secret".to_owned(), json!(SECRET))],
            ..said()
        },
        EntryQuery {
            min_confidence: Some(0.1),
            ..said()
        },
        EntryQuery {
            text: Some(SECRET.to_owned()),
            ..said()
        },
        EntryQuery {
            text: Some(SECRET.to_owned()),
            order: Order::Relevance,
            ..said()
        },
        EntryQuery {
            order: Order::Priority,
            include_expired: true,
            include_superseded: true,
            ..said()
        },
    ];
    for query in &queries {
        match ours.entries(query).await {
            Ok(answer) => assert_eq!((answer.items.len(), answer.total), (0, 0), "{query:?}"),
            // There is no such commit here.
            Err(error) => assert!(query.as_of.is_some(), "{query:?}: {error}"),
        }
    }
    let with_cursor = EntryQuery {
        cursor: Some(cursor),
        ..first
    };
    assert_eq!(ours.entries(&with_cursor).await.unwrap_err().kind(), ErrorKind::Invalid);
    // How well something of ours matches does not tell of theirs.
    let score = async |space: &Workspace| {
        let mine = observe(space, "bordeaux", None).await;
        let query = EntryQuery {
            text: Some("bordeaux wine".to_owned()),
            order: Order::Relevance,
            ..said()
        };
        let answer = space.entries(&query).await.unwrap();
        assert_eq!(answer.items.iter().map(|entry| entry.id).collect::<Vec<_>>(), [mine.id]);
        format!("{answer:?}")
    };
    assert_reveals_nothing("scores", &score(ours).await);
}

#[tokio::test]
async fn ids_and_handles_of_another_space_are_not_found_m7_6_51() {
    let h = houses().await;
    let (ours, person) = (&h.ours, person());
    let before = everything(&h.theirs).await;
    for id in [h.seen.id, h.item.id] {
        let (entry, guard) = (Ref::Id(id), Guard::default);
        not_found("entry", ours.entry(entry).await);
        not_found("history", ours.history(entry).await);
        not_found("versions", ours.versions(entry).await);
        not_found("why", ours.why(entry, None).await);
        not_found("archive", ours.archive(&person, entry, None).await);
        not_found("confirm", ours.confirm(&person, entry, guard()).await);
        not_found("complete", ours.complete(&person, entry, guard()).await);
        not_found("reopen", ours.reopen(&person, entry, guard()).await);
        not_found("restore", ours.restore(&person, entry, guard()).await);
        not_found("replace", ours.str_replace(&person, entry, "wine", "x", guard()).await);
        not_found("pin", ours.pin_item(&person, entry).await);
        not_found("unpin", ours.unpin_item(&person, entry).await);
        let filter = ForgetFilter {
            entries: vec![entry],
            ..ForgetFilter::default()
        };
        not_found("forget", ours.forget(&person, &filter, "r").await);
        assert_reveals_nothing("links", &ours.links(&id.to_string()).await.unwrap());
        assert_eq!(ours.links(&id.to_string()).await.unwrap(), []);
        // A handle names what is ours.
        not_found("handle", ours.entry(Ref::Handle(h.seen.handle)).await);
    }
    let mine = observe(ours, "mine", None).await;
    not_found(
        "supersede",
        ours.supersede(&person, Ref::Id(mine.id), Ref::Id(h.seen.id), Guard::default())
            .await,
    );
    not_found(
        "supersede",
        ours.supersede(&person, Ref::Id(h.seen.id), Ref::Id(mine.id), Guard::default())
            .await,
    );
    assert_eq!(ours.entry(Ref::Handle(h.seen.handle)).await.unwrap().id, mine.id);
    let page = Ref::Id(h.page.id);
    not_found("page", ours.page(page).await);
    not_found("tail", ours.tail(page, 9).await);
    not_found("markdown", ours.page_markdown(page).await);
    not_found("tree", ours.tree(Some(page)).await);
    not_found(
        "append",
        ours.append(&person, page, "t", "b".to_owned(), &[], None).await,
    );
    let input = PageInput {
        title: "t".to_owned(),
        parent: Some(page),
        ..PageInput::default()
    };
    not_found("child", ours.new_page(&person, input).await);
    assert_eq!(ours.children(h.page.id).await.unwrap(), []);
    not_found("blob", ours.blob(h.blob.hash()).await);
    not_found("run", ours.run(Ref::Id(h.run)).await);
    not_found("journal", ours.journal(h.run, Seq(0)).await);
    let turn = Ref::Id(h.turn.begun.id);
    not_found("turn", ours.turn(turn).await);
    not_found("end", ours.end_turn(&person, turn).await);
    not_found("export", ours.turn_export(turn).await);
    let export = h.theirs.turn_export(turn).await.unwrap();
    let told = ours.exported(&export, true).await;
    assert_reveals_nothing("exported", &told.map(|told| told.len()));
    let context = ContextRequest {
        turn: Some(turn),
        budget: 500,
        ..request()
    };
    not_found("context", ours.assemble_context(context, &Estimate).await.map(drop));
    for run in [Some(Ref::Id(h.run)), None] {
        let turn = Some(h.turn.begun.id).filter(|_| run.is_none());
        let query = TraceQuery {
            run,
            turn,
            limit: 1_000,
            ..TraceQuery::default()
        };
        assert_reveals_nothing("trace", &ours.trace(query).await);
    }
    assert_eq!(everything(&h.theirs).await, before);
}

#[tokio::test]
async fn lists_learning_and_totals_cover_one_space_only_m7_6_51() {
    let h = houses().await;
    let ours = &h.ours;
    assert_reveals_nothing("observations", &ours.active_observations(50).await.unwrap());
    assert_reveals_nothing(
        "book",
        &ours
            .book_items(&ThreadKey::main(), BookFilter::default())
            .await
            .unwrap(),
    );
    assert_reveals_nothing("pages", &ours.pages(&PageQuery::default()).await.unwrap());
    let of_run = PageQuery {
        run: Some(h.run),
        parent: Some(h.page.id),
        ..PageQuery::default()
    };
    assert_eq!(ours.pages(&of_run).await.unwrap(), []);
    assert!(ours.tree(None).await.unwrap().is_empty());
    assert_eq!(ours.runs(&RunQuery::default()).await.unwrap(), []);
    assert_eq!(ours.turns(&TurnQuery::default()).await.unwrap(), []);
    assert_eq!(ours.head().await.unwrap(), Seq(0));
    assert_eq!(ours.changes(Seq(0), 1_000).await.unwrap(), []);
    let episodes = EpisodeQuery {
        text: Some(SECRET.to_owned()),
        ..EpisodeQuery::default()
    };
    assert_eq!(ours.episodes(&episodes).await.unwrap().found, []);
    assert_eq!(ours.episodes(&EpisodeQuery::default()).await.unwrap().found, []);
    assert_eq!(ours.goals(None, true).await.unwrap(), []);
    assert!(ours.calibration().await.unwrap().is_empty());
    assert!(ours.find_patterns(&person()).await.unwrap().is_empty());
    assert!(ours.patterns(10).await.unwrap().items.is_empty());
    assert_reveals_nothing("policy", &ours.policy().await.unwrap());
    assert_reveals_nothing("trace", &ours.trace(TraceQuery::default()).await.unwrap());
    let request = ContextRequest {
        budget: 2_000,
        prompt: "wine".to_owned(),
        ..request()
    };
    assert_reveals_nothing("context", &ours.assemble_context(request, &Estimate).await.unwrap());
    let before = everything(&h.theirs).await;
    assert_eq!(ours.clear_resolved(&person(), None).await.unwrap(), 0);
    ours.note_ended().await.unwrap();
    assert!(ours.tidy(Timestamp::MAX).await.unwrap().is_nothing());
    let everything_of_theirs = ForgetFilter {
        text: Some("stock".to_owned()),
        ..ForgetFilter::default()
    };
    assert_eq!(ours.to_forget(&everything_of_theirs).await.unwrap(), []);
    assert_eq!(everything(&h.theirs).await, before);
}

#[tokio::test]
async fn write_naming_ids_of_another_space_changes_nothing_there_m7_6_51() {
    let h = houses().await;
    let (ours, before) = (&h.ours, everything(&h.theirs).await);
    let mine = observe(ours, "mine", Some("key".to_owned())).await;
    assert_ne!(mine.id, h.seen.id, "a key is of its space");
    let patch = |fields| Change::PatchEntry {
        entry: h.seen.id,
        fields,
        expected_version: None,
        base_version: None,
    };
    let on_page = |page| {
        let id = EntryId::derived(&["ours", "new"]);
        let fields = mine.fields.clone();
        Change::AddEntry(Box::new(NewEntry {
            id,
            page,
            kind: EntryKind::Observation,
            fields,
        }))
    };
    let link = |src: String, dst: String| {
        Change::AddLink(Link {
            src,
            rel: Relation::DerivedFrom,
            dst,
        })
    };
    let erase = Change::EraseEntry {
        entry: h.seen.id,
        why: folio_memory::keeping::ErasedFor::Forgotten,
        expected_version: None,
    };
    let status = Change::SetPageStatus {
        page: h.page.id,
        status: "ok".to_owned(),
    };
    for change in [
        patch(vec![FieldChange::Body("ours now".to_owned())]),
        patch(vec![FieldChange::Status(Status::Archived)]),
        on_page(h.page.id),
        on_page(h.seen.page),
        link(mine.id.to_string(), h.seen.id.to_string()),
        link(h.page.id.to_string(), mine.id.to_string()),
        erase,
        status,
    ] {
        let refused = ours.record(&person(), Write::of(vec![change.clone()])).await;
        assert!(refused.is_err(), "{change:?}");
        assert_reveals_nothing("a refusal", &refused);
    }
    // A hash that is known is no key to the body.
    let body = FieldChange::BodyRef(Some(BodyRef {
        hash: h.blob.hash().0.clone(),
        bytes: 7,
        pieces: Vec::new(),
    }));
    let named = Change::PatchEntry {
        entry: mine.id,
        fields: vec![body],
        expected_version: None,
        base_version: None,
    };
    assert_reveals_nothing(
        "a named body",
        &ours
            .record(&person(), Write::of(vec![named]))
            .await
            .map(|done| done.committed),
    );
    not_found("blob", ours.blob(h.blob.hash()).await);
    let journal = Write {
        run: Some(RunAppend {
            run: h.run,
            events: vec![scene::asked_by("us")],
            status: None,
            title: None,
            so_far: None,
        }),
        ..Write::default()
    };
    assert!(ours.record(&person(), journal).await.is_err());
    assert_eq!(everything(&h.theirs).await, before);
    let value: Value = serde_json::to_value(&ours.entry(Ref::Id(mine.id)).await.unwrap().fields).unwrap();
    assert_reveals_nothing("ours", &value);
}

#[tokio::test]
async fn forget_in_one_space_reveals_nothing_of_another_m7_6_51() {
    let h = houses().await;
    let before = everything(&h.theirs).await;
    let mine = observe(&h.ours, "mine", None).await;
    let filter = ForgetFilter {
        entries: vec![Ref::Id(mine.id)],
        ..ForgetFilter::default()
    };
    let forgotten = h.ours.forget(&person(), &filter, "r").await.unwrap();
    assert_reveals_nothing("residue", &forgotten);
    assert_eq!(everything(&h.theirs).await, before);
}

#[tokio::test]
async fn forget_neither_reports_nor_erases_text_of_another_space_m7_6_51() {
    let h = houses().await;
    let words = "the wedding is in the old mill";
    let theirs = observe(&h.theirs, words, None).await;
    let mut note = h.theirs.noted("scratch_page", "search");
    note.detail = Some(serde_json::json!({ "text": words }));
    h.theirs.note(note);
    h.theirs.flush_trace().await.unwrap();
    let before = everything(&h.theirs).await;
    let mine = observe(&h.ours, words, None).await;
    let filter = ForgetFilter {
        entries: vec![Ref::Id(mine.id)],
        ..ForgetFilter::default()
    };
    let forgotten = h.ours.forget(&person(), &filter, "r").await.unwrap();
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    assert_eq!(everything(&h.theirs).await, before);
    let kept = h.theirs.entry(Ref::Id(theirs.id)).await.unwrap();
    assert_eq!(kept.fields.body, theirs.fields.body);
    let trace = h.theirs.trace(Default::default()).await.unwrap();
    assert!(trace.iter().any(|line| line.operation == "search"), "their note stays");
}
