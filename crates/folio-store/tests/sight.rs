//! How far each role reads (M7.7, the first column), through the workspace.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::sync::Arc;

use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::scratchbook::ItemInput;
use folio_memory::{
    Actor, Change, Entry, EntryQuery, NewPage, Owner, PageFields, PageId, PageQuery, PageRole, Role, RunId, SpaceName,
    SpacePolicy, ThreadKey,
};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{BookFilter, EpisodeQuery, Guard, Write};
use folio_store::{BlobHash, Workspace, WorkspaceError};
use folio_testkit::{SeededIds, SimClock};
use serde_json::{Value, json};

/// A space with something for everybody: observations for the agent and for the user, the pages of two runs, and the books
/// of two threads.
struct House {
    space: Workspace,
    asks_agent: Entry,
    asks_user: Entry,
    of_run: Entry,
    of_other_run: Entry,
    in_book: Entry,
    in_other_book: Entry,
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn run(name: &str) -> RunId {
    RunId::derived(&[name])
}

fn thread(name: &str) -> ThreadKey {
    ThreadKey(name.to_owned())
}

async fn house() -> House {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let (clock, ids) = (Arc::new(SimClock::default()), Arc::new(SeededIds::default()));
    let space = Workspace::new(store, clock, ids, SpaceName::main());
    let policy: SpacePolicy =
        serde_json::from_value(json!({"manifests": {"scan": {"reads": {"types": ["risk_alert"]}}}})).unwrap();
    space.set_policy(&person(), policy, None, None).await.unwrap();
    let observe = async |input: Value| {
        let input: ObservationInput = serde_json::from_value(input).unwrap();
        space.add_observation(&person(), input, None).await.unwrap().entry
    };
    let asks_agent = observe(json!({"content": "for the agent", "type": "risk_alert"})).await;
    let asks_user = observe(json!({"content": "for the user", "owner": "user"})).await;
    let on_page_of = async |name: &str| {
        let mut fields = PageFields::new(PageRole::ScratchpadExec, name, Owner::executor());
        fields.run = Some(run(name));
        let id = PageId::derived(&[name]);
        let page = Change::EnsurePage(Box::new(NewPage { id, fields }));
        space.record(&person(), Write::of(vec![page])).await.unwrap();
        let written = space
            .append(&person(), Ref::Id(id), "", format!("of {name}"), &[], None)
            .await;
        written.unwrap().entry
    };
    let (of_run, of_other_run) = (on_page_of("run").await, on_page_of("other").await);
    let note = async |name: &str| {
        let input: ItemInput = serde_json::from_value(json!({"kind": "note", "body": name})).unwrap();
        space
            .add_item(&person(), &thread(name), input, None)
            .await
            .unwrap()
            .entry
    };
    let (in_book, in_other_book) = (note("own").await, note("another").await);
    House {
        asks_agent,
        asks_user,
        of_run,
        of_other_run,
        in_book,
        in_other_book,
        space,
    }
}

impl House {
    /// The space as `role` sees it, in the run `run` and the thread `own`.
    fn seen_by(&self, role: Role) -> Workspace {
        let actor = Actor::new(role, "scan").in_run(run("run"));
        self.space.asked_by(&actor).in_thread(&thread("own"))
    }

    /// Every entry with its name here.
    fn all(&self) -> [(&'static str, &Entry); 6] {
        [
            ("agent", &self.asks_agent),
            ("user", &self.asks_user),
            ("run", &self.of_run),
            ("other run", &self.of_other_run),
            ("book", &self.in_book),
            ("other book", &self.in_other_book),
        ]
    }

    fn name_of(&self, entry: &Entry) -> &'static str {
        self.all()
            .into_iter()
            .find(|(_, known)| known.id == entry.id)
            .unwrap()
            .0
    }
}

/// What each role may read of the six, as the table says.
fn readable(role: Role) -> &'static [&'static str] {
    match role {
        Role::Tool => &["agent"],
        Role::Executor | Role::Planner => &["agent", "run"],
        Role::Compactor => &["book"],
        _ => &["agent", "user", "run", "other run", "book", "other book"],
    }
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, WorkspaceError>) -> bool {
    match answer {
        Ok(_) => false,
        Err(WorkspaceError::Refused(_)) => true,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn every_role_gets_by_name_what_the_table_says_and_is_refused_the_rest_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        for (name, entry) in house.all() {
            let wanted = !readable(role).contains(&name);
            let id = Ref::Id(entry.id);
            assert_eq!(is_refused(space.entry(id).await), wanted, "{role} {name}");
            assert_eq!(is_refused(space.history(id).await), wanted, "{role} history of {name}");
            assert_eq!(
                is_refused(space.versions(id).await),
                wanted,
                "{role} versions of {name}"
            );
            let links = space.links(&entry.id.to_string()).await;
            assert_eq!(is_refused(links), wanted, "{role} links of {name}");
        }
    }
}

#[tokio::test]
async fn every_list_has_what_the_role_may_read_and_counts_no_more_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        for limit in [1, 2, 100] {
            let mut query = EntryQuery {
                limit,
                ..EntryQuery::default()
            };
            let mut found = Vec::new();
            loop {
                let answer = space.entries(&query).await.unwrap();
                assert_eq!(answer.total, readable(role).len() as u64, "{role}");
                assert_eq!(answer.returned, answer.items.len());
                found.extend(answer.items.iter().map(|entry| house.name_of(entry)));
                match answer.next {
                    Some(next) => query.cursor = Some(next),
                    None => break,
                }
            }
            found.sort_unstable();
            let mut wanted = readable(role).to_vec();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{role}, {limit} at a time");
        }
        let active = space.active_observations(10).await.unwrap();
        let names: Vec<_> = active.items.iter().map(|entry| house.name_of(entry)).collect();
        assert!(
            names.iter().all(|name| readable(role).contains(name)),
            "{role} {names:?}"
        );
        let words = EntryQuery {
            text: Some("agent user".to_owned()),
            text_match: folio_memory::TextMatch::Any,
            ..EntryQuery::default()
        };
        let found = space.entries(&words).await.unwrap();
        assert_eq!(
            (found.scores.len(), found.total),
            (found.items.len(), found.items.len() as u64)
        );
        assert!(
            found
                .items
                .iter()
                .all(|entry| readable(role).contains(&house.name_of(entry)))
        );
    }
}

#[tokio::test]
async fn every_role_sees_the_pages_and_books_of_its_column_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let all = matches!(readable(role).len(), 6);
        let own_run = matches!(role, Role::Executor | Role::Planner);
        let pages = [
            (house.of_run.page, all || own_run),
            (house.of_other_run.page, all),
            (house.in_book.page, all || role == Role::Compactor),
            (house.in_other_book.page, all),
        ];
        for (page, wanted) in pages {
            let id = Ref::Id(page);
            assert_eq!(is_refused(space.page(id).await), !wanted, "{role}");
            assert_eq!(is_refused(space.page_entries(id).await), !wanted, "{role}");
            assert_eq!(is_refused(space.page_markdown(id).await), !wanted, "{role}");
            assert_eq!(is_refused(space.tail(id, 1).await), !wanted, "{role}");
            let listed = space.pages(&PageQuery::default()).await.unwrap();
            assert_eq!(listed.iter().any(|listed| listed.id == page), wanted, "{role}");
            let tree = space.tree(None).await.unwrap();
            assert_eq!(tree.iter().any(|node| node.page.id == page), wanted, "{role}");
        }
        for (name, wanted) in [("own", all || role == Role::Compactor), ("another", all)] {
            let items = space.book_items(&thread(name), BookFilter::default()).await.unwrap();
            assert_eq!(items.total, u64::from(wanted), "{role} {name}");
        }
    }
}

#[tokio::test]
async fn what_tells_of_the_whole_space_is_for_those_who_may_read_it_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let refused = readable(role).len() < 6;
        assert_eq!(
            is_refused(space.changes(folio_memory::Seq(0), 10).await),
            refused,
            "{role}"
        );
        assert_eq!(is_refused(space.runs(&Default::default()).await), refused, "{role}");
        assert_eq!(
            is_refused(space.episodes(&EpisodeQuery::default()).await),
            refused,
            "{role}"
        );
        assert_eq!(is_refused(space.patterns(1).await), refused, "{role}");
        assert_eq!(is_refused(space.calibration().await), refused, "{role}");
        if refused {
            let hash = BlobHash("0".repeat(64));
            assert!(is_refused(space.blob(&hash).await), "{role}");
            let journal = space.journal(run("other"), folio_memory::Seq(0)).await;
            assert!(is_refused(journal), "{role}");
        }
    }
}

#[tokio::test]
async fn a_client_changes_the_book_of_the_thread_that_its_connection_named_m7_7() {
    let house = house().await;
    let client = Actor::new(Role::Client, "a_model");
    let own = house.space.in_thread(&thread("own"));
    let update = async |space: &Workspace, entry: &Entry| {
        let patch = serde_json::from_value(json!({"title": "t"})).unwrap();
        space.update_item(&client, Ref::Id(entry.id), patch, None).await
    };
    assert!(!is_refused(update(&own, &house.in_book).await));
    assert!(is_refused(update(&own, &house.in_other_book).await));
    assert!(
        is_refused(update(&house.space, &house.in_book).await),
        "without a thread it is the main one"
    );
    let archived = own.archive(&client, Ref::Id(house.in_other_book.id), None).await;
    assert!(is_refused(archived));
    assert!(!is_refused(own.archive(&client, Ref::Id(house.in_book.id), None).await));
    let own_note: ItemInput = serde_json::from_value(json!({"kind": "todo", "title": "x"})).unwrap();
    let todo = own
        .add_item(&client, &thread("another"), own_note, None)
        .await
        .unwrap()
        .entry;
    let done = own.complete(&client, Ref::Id(todo.id), Guard::default()).await;
    assert!(!is_refused(done), "what it wrote itself is its own wherever it stands");
}
