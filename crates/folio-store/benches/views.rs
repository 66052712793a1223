//! Measures what a view costs: counting, a view after a change and unchanged, a context, and how much of a request
//! stays the same.
//!
//! `cargo bench -p folio-store --bench views`. Prints quantiles, because the promises are about quantiles.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::sync::Arc;
use std::time::Duration;

use folio_memory::observation::page_of as scratch_page;
use folio_memory::tokens::{Estimate, Tokens, Vocabulary};
use folio_memory::view::{Message, Placement, Request, Speaker, place};
use folio_memory::{
    Actor, Change, Clock, EntryFields, EntryId, EntryKind, NewEntry, NewPage, Owner, Role, SpaceName, Status,
    ThreadKey, Timestamp, Trust, scratchbook,
};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::system::{RandomIds, SystemClock};
use folio_store::workspace::{BookFilter, ContextRequest, ViewRequest};
use folio_store::{Commit, Record, Store, Workspace};
use tokio::time::Instant;

const PER_COMMIT: u64 = 1_000;
const ASKED: usize = 200;
/// Number of turns of the conversation on which placements are compared.
const TURNS: usize = 500;

fn main() {
    count();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let book = filled(&folder.path().join("book.db"), 10_000, false).await;
        views(&book).await;
        placements(&book).await;
        let large = filled(&folder.path().join("large.db"), 100_000, true).await;
        contexts(&large).await;
        items(&large).await;
    });
}

/// Counts the tokens of a text as it is found in repositories.
fn count() {
    let part = include_str!("../../../ARCHITECTURE.md").to_owned() + include_str!("../src/workspace.rs");
    let text = part.repeat(4_000_000 / part.len() + 1);
    for (name, tokens) in [
        ("o200k_base", &Vocabulary::O200k as &dyn Tokens),
        ("estimate", &Estimate),
    ] {
        tokens.count("first use");
        let began = Instant::now();
        let counted = tokens.count(&text);
        let seconds = began.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = text.len() as f64 / 1e6 / seconds;
        println!("count {name:<12} {rate:>7.0} MB/s ({counted} tokens)");
    }
}

async fn filled(path: &std::path::Path, entries: u64, with_observations: bool) -> Workspace {
    let store = SqliteStore::open(&OpenOptions::at(path)).expect("a store");
    let space = SpaceName::main();
    let (book, book_fields) = scratchbook::page_of(&space, &ThreadKey::main());
    let (noticed, noticed_fields) = scratch_page(&space);
    let mut at = 0;
    while at < entries {
        let mut changes = vec![
            Change::EnsurePage(Box::new(NewPage {
                id: book,
                fields: book_fields.clone(),
            })),
            Change::EnsurePage(Box::new(NewPage {
                id: noticed,
                fields: noticed_fields.clone(),
            })),
        ];
        for n in at..(at + PER_COMMIT).min(entries) {
            let is_observation = with_observations && n % 2 == 0;
            let kind = match (is_observation, n % 3) {
                (true, _) => EntryKind::Observation,
                (_, 0) => EntryKind::Note,
                (_, 1) => EntryKind::Todo,
                _ => EntryKind::Task,
            };
            let mut fields = EntryFields::new(kind, Owner::agent(), Trust::User);
            fields.title = format!("Item {n} of many in the book of this thread");
            fields.body =
                format!("What there is to say of item {n}: it was written by a benchmark, and nobody will do it.");
            if is_observation {
                fields.type_name =
                    Some(["observation", "risk_alert", "learning"][usize::try_from(n % 3).unwrap_or(0)].to_owned());
            } else if n % 10 == 0 && kind != EntryKind::Note {
                fields.status = Status::InProgress;
            }
            fields.pin_rank = (n % 1_000 == 999).then_some(1);
            let page = if is_observation { noticed } else { book };
            let id = EntryId::derived(&[&n.to_string()]);
            changes.push(Change::AddEntry(Box::new(NewEntry { id, page, kind, fields })));
        }
        let commit = Commit {
            space: space.clone(),
            at: Timestamp::from_millis(i64::try_from(at).unwrap_or(0)),
            actor: Actor::new(Role::Human, ""),
            idempotency_key: None,
            expected: Vec::new(),
            record: Record::of(changes),
            blobs: Vec::new(),
        };
        store.commit(commit).await.expect("a commit");
        at += PER_COMMIT;
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    Workspace::new(store, clock, Arc::new(RandomIds::default()), space)
}

fn request() -> ViewRequest {
    ViewRequest {
        view_token_limit: Some(800),
        ..ViewRequest::of(ThreadKey::main())
    }
}

async fn change(space: &Workspace, n: usize) {
    let item = serde_json::from_value(serde_json::json!({"kind": "note", "title": format!("Note {n}")}));
    let item = item.expect("an item");
    let actor = Actor::new(Role::Human, "bench");
    space
        .add_item(&actor, &ThreadKey::main(), item, None)
        .await
        .expect("an add");
}

async fn views(space: &Workspace) {
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    // The index in memory is built once a space is queried often.
    for n in 0..ASKED + 20 {
        change(space, n).await;
        let began = Instant::now();
        let view = space.view(request(), &Vocabulary::O200k).await.expect("a view");
        let first = began.elapsed();
        let began = Instant::now();
        space.view(request(), &Vocabulary::O200k).await.expect("a view");
        if n >= 20 {
            changed.push(first);
            unchanged.push(began.elapsed());
        }
        assert!(view.rendered.receipt.tokens <= 800);
    }
    quantiles("view of 800 from 10,000 items, after a change", changed);
    quantiles("the same, unchanged", unchanged);
}

/// Lists the items of a large scratchbook: those beside a view, and all of them page by page.
async fn items(space: &Workspace) {
    let thread = ThreadKey::main();
    let mut took = Vec::new();
    for _ in 0..ASKED {
        let began = Instant::now();
        let beside = space.book_items(&thread, BookFilter::beside_a_view()).await;
        took.push(began.elapsed());
        beside.expect("items");
    }
    quantiles("forty items of 50,000 beside a view", took);
    let (mut took, mut filter) = (Vec::new(), BookFilter::default());
    loop {
        let began = Instant::now();
        let page = space.book_items(&thread, filter.clone()).await.expect("items");
        took.push(began.elapsed());
        filter.cursor = page.next;
        if filter.cursor.is_none() {
            break;
        }
    }
    quantiles("a thousand of them, page after page", took);
}

async fn contexts(space: &Workspace) {
    let mut took = Vec::new();
    for n in 0..60 {
        let request = ContextRequest {
            thread: ThreadKey::main(),
            turn: None,
            prompt: "what is left to do with the items of the book?".to_owned(),
            budget: 8_000,
            sections: Vec::new(),
        };
        let began = Instant::now();
        space
            .assemble_context(request, &Vocabulary::O200k)
            .await
            .expect("a context");
        if n >= 10 {
            took.push(began.elapsed());
        }
    }
    quantiles("context of 8,000 from 100,000 entries", took);
}

/// A conversation in which every fifth turn writes to the scratchbook: how many bytes of each request are a prefix that
/// it shares with the previous one.
async fn placements(space: &Workspace) {
    for placement in [Placement::System, Placement::Tail] {
        let (mut said, mut last, mut same, mut all) = (Vec::<Message>::new(), String::new(), 0_usize, 0_usize);
        for turn in 0..TURNS {
            if turn % 5 == 0 {
                change(space, turn).await;
            }
            said.push(message(
                Speaker::User,
                format!("Question {turn}: what about the tables that nobody has looked at?"),
            ));
            let view = space.view(request(), &Vocabulary::O200k).await.expect("a view");
            let request = Request {
                system: "You keep the books of a large house, and answer briefly.".repeat(40),
                messages: said.clone(),
            };
            let placed = place(request, &view.rendered.text, placement);
            let mut sent = placed.system.clone();
            placed
                .messages
                .iter()
                .for_each(|message| sent.push_str(&message.content));
            let common = sent
                .bytes()
                .zip(last.bytes())
                .take_while(|(new, old)| new == old)
                .count();
            if turn > 0 {
                same += common;
                all += sent.len();
            }
            (said, last) = (placed.messages, sent);
            said.push(message(
                Speaker::Assistant,
                format!("Answer {turn}: they are empty, and can be dropped."),
            ));
        }
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let share = 100.0 * same as f64 / all as f64;
        println!("{placement:?}: {share:.1} % of the request bytes of {TURNS} turns were those of the request before");
    }
}

fn message(speaker: Speaker, content: String) -> Message {
    Message { speaker, content }
}

fn quantiles(name: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |per_cent: usize| took.get(took.len() * per_cent / 100).copied().unwrap_or_default();
    println!("{name:<48} p50 {:>9.1?}  p99 {:>9.1?}", at(50), at(99));
}
