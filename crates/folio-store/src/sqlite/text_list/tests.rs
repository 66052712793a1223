use std::sync::Arc;

use folio_memory::{
    Actor, Change, EntryFields, EntryKind, NewEntry, NewPage, Owner, PageFields, PageId, PageRole, Role, TextMatch,
    Trust,
};

use super::*;
use crate::commit::{Commit, Record};
use crate::sqlite::OpenOptions;
use crate::sqlite::open::Target;
use crate::store::Store as _;
use crate::words::Expression;

const BODIES: [&str; 4] = ["case rain rain", "case", "case and rain today", "case closed"];

async fn filled(path: &std::path::Path) -> Arc<SqliteStore> {
    let store = SqliteStore::open(&OpenOptions::at(path)).unwrap();
    let page = PageId::derived(&["page"]);
    let fields = PageFields::new(PageRole::Note, "A page", Owner::agent());
    let mut changes = vec![Change::EnsurePage(Box::new(NewPage { id: page, fields }))];
    for body in BODIES {
        let mut fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
        fields.body = body.to_owned();
        changes.push(Change::AddEntry(Box::new(NewEntry {
            id: folio_memory::EntryId::derived(&[body]),
            page,
            kind: EntryKind::Note,
            fields,
        })));
    }
    let commit = Commit {
        space: SpaceName::main(),
        at: Timestamp::default(),
        actor: Actor::new(Role::Human, "test"),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(changes),
        blobs: Vec::new(),
    };
    store.commit(commit).await.unwrap();
    store
}

#[tokio::test]
async fn hits_are_ranked_by_the_given_words_then_by_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let store = filled(&path).await;
    let query = EntryQuery {
        text: Some("case".to_owned()),
        ..EntryQuery::default()
    };
    // So that all is indexed.
    let all = store
        .entries(&SpaceName::main(), &query, Timestamp::default())
        .await
        .unwrap();
    assert_eq!(all.total, 4);
    let conn = Target::of(&OpenOptions::at(&path)).prepare().unwrap();
    let question = Question {
        conn: &conn,
        space: SpaceId(1),
        query: &query,
        words: TextQuery::of("case", TextMatch::All),
        now: Timestamp::default(),
        as_of: all.as_of,
        has_index: true,
        unindexed: Vec::new(),
    };
    let found = |ranking, limit| {
        let asked = IndexLookup {
            ranking,
            ..IndexLookup::whole(&question.words)
        };
        let filter = question.filter().unwrap().unwrap().filter;
        let mut hits = question.fetch_hits(&asked, &filter, limit).unwrap();
        question.sort(&mut hits).unwrap();
        let scored = hits.iter().map(|hit| (hit.place.number(), hit.score > 0.0));
        scored.collect::<Vec<_>>()
    };
    let by_rain = || Ranking::By(vec![Expression::of(&[vec!["rain".to_owned()]], TextMatch::All)]);
    assert_eq!(
        found(Ranking::Nothing, None),
        [(4, false), (3, false), (2, false), (1, false)]
    );
    assert_eq!(found(by_rain(), None), [(1, true), (3, true), (4, false), (2, false)]);
    // The newest are ranked.
    assert_eq!(found(by_rain(), Some(2)), [(3, true), (4, false)]);
}
