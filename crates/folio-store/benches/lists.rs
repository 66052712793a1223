//! Measures lists of live observations: with the index in memory, with SQL alone, and right after opening.
//!
//! `FOLIO_BENCH_ENTRIES=1000000 cargo bench -p folio-store --bench lists` for a million; 100,000 by default. Prints
//! quantiles, because the promises are about quantiles.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::EntryId;
use folio_memory::{
    Actor, Change, Confidence, EntryFields, EntryKind, EntryQuery, NewEntry, NewPage, Order, Owner, PageFields, PageId,
    PageRole, Role, SpaceName, Status, Tag, TextMatch, Timestamp, Trust, TypeRanks,
};
use folio_store::LiveOptions;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{Commit, Record, Store};
use serde_json::json;
use tokio::time::Instant;

const PER_COMMIT: u64 = 1_000;
const ASKED: usize = 1_000;

fn main() {
    let entries: u64 = option_env_entries();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("folio.db");
        let began = Instant::now();
        fill(&path, entries).await;
        println!("{entries} live observations, written in {:.1?}", began.elapsed());

        let without = OpenOptions {
            live: LiveOptions {
                bytes_max: 0,
                ..LiveOptions::default()
            },
            ..OpenOptions::at(&path)
        };
        let began = Instant::now();
        let store = SqliteStore::open(&without).expect("a store");
        ask(&store, &questions().remove(0).1).await;
        println!("open to first answer          {:>9.1?}", began.elapsed());
        println!("with SQL alone");
        measure(&store, 50).await;
        drop(store);

        let store = SqliteStore::open(&OpenOptions::at(&path)).expect("a store");
        let before = resident();
        let began = Instant::now();
        for _ in 0..9 {
            ask(&store, &questions().remove(1).1).await;
        }
        // Answers come from SQL until the index is there; then they take microseconds.
        while quickest(&store).await > Duration::from_millis(1) && began.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let more = resident().saturating_sub(before) / 1024;
        println!(
            "the index was there after     {:>9.1?}, and {more} KiB more are resident",
            began.elapsed()
        );
        println!("with the index in memory");
        measure(&store, ASKED).await;
        deep(&store, entries).await;
        search(&store).await;
    });
}

fn option_env_entries() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a benchmark is a program")]
    let said = std::env::var("FOLIO_BENCH_ENTRIES");
    said.ok().and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default()
        .to_owned();
    line.split_whitespace()
        .nth(1)
        .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// Tags with a realistic distribution: a few that nearly all entries have, and most on few entries.
fn tags_of(number: u64) -> Vec<Tag> {
    let rare = format!("t{}", number % 997);
    let some = format!("area:{}", number % 23);
    let common = if number.is_multiple_of(3) { "wine" } else { "travel" };
    [common, &some, &rare]
        .into_iter()
        .map(|tag| Tag::parse(tag).expect("a tag"))
        .collect()
}

/// Words with a realistic distribution without words like `the`: the most frequent one is in about every thirtieth
/// entry, and they become rarer with their rank among fifty thousand.
fn body_of(number: u64) -> String {
    let words: Vec<_> = (0..12).map(|place| format!("word{}", rank(number, place))).collect();
    format!("case {number} in the cellar: {}", words.join(" "))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 50,000"
)]
fn rank(number: u64, place: u64) -> u64 {
    let mixed = (number ^ place << 40)
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let drawn = f64::from((mixed >> 32) as u32) / f64::from(u32::MAX);
    (50.0 * (1001_f64.powf(drawn) - 1.0)) as u64
}

async fn fill(path: &std::path::Path, entries: u64) {
    let store = SqliteStore::open(&OpenOptions::at(path)).expect("a store");
    let page = PageId::derived(&["bench"]);
    let fields = PageFields::new(PageRole::ScratchPage, "Scratch page", Owner::agent());
    let mut changes = vec![Change::EnsurePage(Box::new(NewPage { id: page, fields }))];
    let at = Timestamp::from_millis(1_000);
    for number in 0..entries {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::ToolInternal);
        let kind =
            ["observation", "contextual_insight", "risk_alert", "reminder"][usize::try_from(number % 4).unwrap_or(0)];
        fields.type_name = Some(kind.to_owned());
        fields.body = body_of(number);
        fields.tags = tags_of(number);
        fields.confidence = Some(Confidence::clamped(f64::from(u32::try_from(number % 101).unwrap_or(0)) / 100.0).0);
        fields.context = Some(json!({"goal_id": format!("goal-{}", number % 5_003), "user": {"id": number % 11}}));
        if number.is_multiple_of(10) {
            fields.status = Status::PendingReview;
        }
        let id = EntryId::derived(&[&number.to_string()]);
        changes.push(Change::AddEntry(Box::new(NewEntry {
            id,
            page,
            kind: EntryKind::Observation,
            fields,
        })));
        if (number + 1).is_multiple_of(PER_COMMIT) || number + 1 == entries {
            let commit = Commit {
                space: SpaceName::main(),
                at,
                actor: Actor::new(Role::Human, "bench"),
                idempotency_key: None,
                expected: Vec::new(),
                record: Record::of(std::mem::take(&mut changes)),
                blobs: Vec::new(),
            };
            store.commit(commit).await.expect("a commit");
        }
    }
}

fn tag(text: &str) -> Tag {
    Tag::parse(text).expect("a tag")
}

fn questions() -> Vec<(&'static str, EntryQuery)> {
    let live = EntryQuery {
        kinds: vec![EntryKind::Observation],
        ..EntryQuery::default()
    };
    let narrow = EntryQuery {
        types: vec!["risk_alert".to_owned()],
        status: vec![Status::Active],
        ..live.clone()
    };
    vec![
        (
            "two tags, type, status; rare",
            EntryQuery {
                tags: vec![tag("wine"), tag("t12")],
                ..narrow.clone()
            },
        ),
        (
            "two tags, type, status; common",
            EntryQuery {
                tags: vec![tag("travel"), tag("area:7")],
                ..narrow
            },
        ),
        (
            "one tag of two thirds",
            EntryQuery {
                tags: vec![tag("travel")],
                ..live.clone()
            },
        ),
        (
            "a context key, rare",
            EntryQuery {
                context: vec![("goal_id".to_owned(), json!("goal-77"))],
                ..live.clone()
            },
        ),
        (
            "a nested context key, common",
            EntryQuery {
                context: vec![("user.id".to_owned(), json!(3))],
                ..live.clone()
            },
        ),
        ("everything, newest", live.clone()),
        (
            "what matters most",
            EntryQuery {
                order: Order::Priority,
                ranks: TypeRanks {
                    known: [("risk_alert".to_owned(), 0), ("reminder".to_owned(), 2)].into(),
                    other: 4,
                },
                ..live
            },
        ),
    ]
}

async fn ask(store: &Arc<SqliteStore>, query: &EntryQuery) -> (u64, Option<String>) {
    let answer = store
        .entries(&SpaceName::main(), query, Timestamp::from_millis(2_000))
        .await
        .expect("an answer");
    (answer.total, answer.next)
}

async fn quickest(store: &Arc<SqliteStore>) -> Duration {
    let query = questions().remove(1).1;
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        ask(store, &query).await;
        best = best.min(began.elapsed());
    }
    best
}

async fn measure(store: &Arc<SqliteStore>, asked: usize) {
    for (name, query) in questions() {
        let mut times = Vec::with_capacity(asked);
        let mut total = 0;
        for _ in 0..asked {
            let began = Instant::now();
            total = ask(store, &query).await.0;
            times.push(began.elapsed());
        }
        report(name, times, total);
    }
}

/// A page far down in a list, compared to its first.
async fn deep(store: &Arc<SqliteStore>, entries: u64) {
    let mut query = questions().remove(2).1;
    query.limit = 1_000;
    let mut pages = Vec::new();
    for _ in 0..(entries / 2_000).min(300) {
        let began = Instant::now();
        let (_, next) = ask(store, &query).await;
        pages.push(began.elapsed());
        query.cursor = next;
    }
    let (first, last) = pages.split_at(pages.len() / 2);
    println!(
        "a thousand a page: the first half of the pages {:.1?} each, the second {:.1?}",
        median(first.to_vec()),
        median(last.to_vec())
    );
}

/// Text search; the first search brings the index up to date.
async fn search(store: &Arc<SqliteStore>) {
    println!("search in text");
    let text = |text: &str| EntryQuery {
        text: Some(text.to_owned()),
        ..EntryQuery::default()
    };
    let began = Instant::now();
    ask(store, &text("cellar")).await;
    println!("  first, with all to be indexed  {:.1?}", began.elapsed());
    for words in [
        "word20000",
        "word300",
        "word0",
        "word0 word1",
        "word0 word300",
        "case 4711",
        "cellar",
        "case cellar",
        "cellar word0",
    ] {
        let query = text(words);
        let mut times = Vec::new();
        let mut total = 0;
        for _ in 0..ASKED / 20 {
            let began = Instant::now();
            total = ask(store, &query).await.0;
            times.push(began.elapsed());
        }
        report(words, times, total);
    }
    // Words as the entries have them: frequent ones are searched for more often.
    let mut times = Vec::new();
    for number in 0..ASKED {
        let body = body_of(number as u64 * 977);
        let words: Vec<_> = body.split(' ').skip(5).step_by(3).take([1, 2, 3][number % 3]).collect();
        let query = text(&words.join(" "));
        let began = Instant::now();
        ask(store, &query).await;
        times.push(began.elapsed());
    }
    report("one to three words of an entry", times, 0);
    // A sentence whose words no entry has all of.
    let (mut times, mut best) = (Vec::new(), 0);
    for number in 0..ASKED as u64 {
        let number = number * 977;
        let body = body_of(number);
        let words: Vec<_> = body.split(' ').skip(5).step_by(2).collect();
        let query = EntryQuery {
            text_match: TextMatch::Any,
            ..text(&format!("where was {} nowhere", words.join(" ")))
        };
        let began = Instant::now();
        let space = SpaceName::main();
        let answer = store.entries(&space, &query, Timestamp::from_millis(2_000)).await;
        times.push(began.elapsed());
        best += u64::from(
            answer
                .expect("an answer")
                .items
                .first()
                .is_some_and(|entry| entry.handle.0 == number + 1),
        );
    }
    report("any of six words of an entry", times, ASKED as u64);
    println!("  {best} of {ASKED} times the entry was the first");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn report(name: &str, mut times: Vec<Duration>, total: u64) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!("  {name:<32} p50 {:>9.1?}  p99 {:>9.1?}  of {total}", at(50), at(99));
}
