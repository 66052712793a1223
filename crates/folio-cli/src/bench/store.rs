//! The configured store, compared with a file: adds of many writers, queries on a full space, a run.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio::memory::{
    Change, EntryFields, EntryId, EntryKind, NewEntry, NewPage, Owner, PageFields, PageId, PageRole, Seq, Status, Tag,
    Trust,
};
use folio::store::{Commit, Record, Store};
use folio::{Actor, EntryQuery, Folio, Role, SpaceName, Timestamp};
use serde::Serialize;
use tokio::time::Instant;

use super::{adds, median, micros, millis, quantile, runs, shapes};
use crate::error::Failure;
use crate::output::{Output, Report, Style};

/// The number of concurrent writers.
const WRITERS: u32 = 64;
/// The number of observations from which a space gets an index in memory, in any store.
const INDEX_THRESHOLD: u64 = 2_000;
/// How long to wait for an index, and how long between two queries meanwhile.
const WARM_UP_MAX: Duration = Duration::from_secs(60);
const WARM_UP_PAUSE: Duration = Duration::from_millis(50);
/// The number of quick answers in a row that show that the index is there.
const QUICK_ANSWERS: u32 = 5;
/// How many entries one commit adds to fill the space.
const ENTRIES_PER_COMMIT: u64 = 1_000;

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    store: String,
    adds: adds::Adds,
    /// The size of one add in the log, in bytes.
    add_bytes: usize,
    entries: u64,
    lists: Vec<Listed>,
    /// The slowest answer while the index of the space was built.
    cold_ms: f64,
    tree_ms: f64,
    tree_in_a_file_ms: f64,
    tree_to_file: f64,
}

/// How long a query took.
#[derive(Debug, Serialize)]
struct Listed {
    question: &'static str,
    total: u64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Measures `folio`: adds of 64 writers, with `each` observations each; queries on a space of `entries`; a tree of
/// 1,365 tasks, `repeats` times, there and in a file below `folder`. Each measurement uses a space of its own, which
/// stays.
pub(crate) async fn measure(
    folio: &Folio,
    folder: &Path,
    (each, entries, repeats): (u32, u64, u32),
    output: &Output,
) -> Result<Figures, Failure> {
    output.note("measuring durable adds of 64 writers");
    let adds = adds::measure_in(&folio.workspace(space("bench-adds")?), WRITERS, each).await?;
    output.note(format_args!("filling a space with {entries} observations"));
    let full = space(&format!("bench-lists-{entries}"))?;
    fill(folio, &full, entries).await?;
    output.note("asking it");
    let cold = if entries < INDEX_THRESHOLD {
        Duration::ZERO
    } else {
        wait_for_index(folio, &full).await?
    };
    let mut lists = Vec::new();
    for (question, query) in questions() {
        lists.push(measure_query(folio, &full, question, &query).await?);
    }
    output.note("measuring a tree of 1,365 tasks, and the same in a file");
    let steps = shapes::tree(4, 5);
    let (mut in_store, mut in_file) = (Vec::new(), Vec::new());
    for repeat in 0..repeats {
        let file = Folio::open(&format!(
            "sqlite:{}",
            folder.join(format!("tree-{repeat}.db")).display()
        ))
        .await?;
        in_file.push(runs::drive_in(file, SpaceName::main(), &steps).await?.elapsed());
        let space = space(&format!("bench-tree-{repeat}"))?;
        in_store.push(runs::drive_in(folio.clone(), space, &steps).await?.elapsed());
    }
    let (in_store, in_file) = (median(in_store), median(in_file));
    Ok(Figures {
        store: folio.store().location(),
        add_bytes: adds.record_bytes,
        adds,
        entries,
        lists,
        cold_ms: millis(cold),
        tree_ms: millis(in_store),
        tree_in_a_file_ms: millis(in_file),
        tree_to_file: in_store.as_secs_f64() / in_file.as_secs_f64(),
    })
}

impl Report for Figures {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        writeln!(out, "{}", style.strong(&self.store))?;
        let adds = &self.adds;
        writeln!(
            out,
            "  {WRITERS} writers, durable adds     {:>9.0} a second, p50 {:.0} µs, p99 {:.0} µs; {} bytes each",
            adds.per_second, adds.p50_us, adds.p99_us, self.add_bytes
        )?;
        writeln!(out, "  newest ten of {} observations", self.entries)?;
        writeln!(out, "  slowest before there is an index {:.1} ms", self.cold_ms)?;
        for list in &self.lists {
            writeln!(
                out,
                "    {:<26} {:>9.2} ms, p99 {:.2} ms; of {}",
                list.question, list.p50_ms, list.p99_ms, list.total
            )?;
        }
        writeln!(
            out,
            "  tree of 1,365 tasks         {:>9.0} ms; in a file {:.0} ms: {:.2} ×",
            self.tree_ms, self.tree_in_a_file_ms, self.tree_to_file
        )
    }
}

fn space(name: &str) -> Result<SpaceName, Failure> {
    SpaceName::parse(name).map_err(|error| Failure::usage("space_invalid", error))
}

/// Fills `space` with `entries` live observations with three tags each, if it is empty.
async fn fill(folio: &Folio, space: &SpaceName, entries: u64) -> Result<(), Failure> {
    let store = folio.store();
    if store.head(space).await? > Seq(0) {
        return Ok(());
    }
    let page = PageId::derived(&["bench"]);
    let fields = PageFields::new(PageRole::ScratchPage, "Scratch page", Owner::agent());
    let mut changes = vec![Change::EnsurePage(Box::new(NewPage { id: page, fields }))];
    for number in 0..entries {
        changes.push(Change::AddEntry(Box::new(observation(number, page))));
        if (number + 1).is_multiple_of(ENTRIES_PER_COMMIT) || number + 1 == entries {
            let record = Record::of(std::mem::take(&mut changes));
            commit(store, space, record).await?;
        }
    }
    Ok(())
}

async fn commit(store: &Arc<dyn Store>, space: &SpaceName, record: Record) -> Result<(), Failure> {
    store
        .commit(Commit {
            space: space.clone(),
            at: Timestamp::from_millis(1_000),
            actor: Actor::new(Role::Human, "bench"),
            idempotency_key: None,
            expected: Vec::new(),
            record,
            blobs: Vec::new(),
        })
        .await?;
    Ok(())
}

/// Tags as in practice: a few are used by nearly everybody, most by few.
fn observation(number: u64, page: PageId) -> NewEntry {
    let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::ToolInternal);
    let types = ["observation", "contextual_insight", "risk_alert", "reminder"];
    fields.type_name = usize::try_from(number % 4).ok().map(|kind| types[kind].to_owned());
    fields.body = format!("case {number} in the cellar, seen by one of those who were there that night");
    let common = if number.is_multiple_of(3) { "wine" } else { "travel" };
    let tags = [
        common.to_owned(),
        format!("area:{}", number % 23),
        format!("t{}", number % 997),
    ];
    fields.tags = tags.iter().filter_map(|tag| Tag::parse(tag).ok()).collect();
    if number.is_multiple_of(10) {
        fields.status = Status::PendingReview;
    }
    NewEntry {
        id: EntryId::derived(&["bench", &number.to_string()]),
        page,
        kind: EntryKind::Observation,
        fields,
    }
}

fn questions() -> [(&'static str, EntryQuery); 3] {
    let tagged = |tags: &[&str]| EntryQuery {
        kinds: vec![EntryKind::Observation],
        types: vec!["risk_alert".to_owned()],
        status: vec![Status::Active],
        tags: tags.iter().filter_map(|tag| Tag::parse(tag).ok()).collect(),
        ..EntryQuery::default()
    };
    [
        ("two tags, type, status; few", tagged(&["wine", "t12"])),
        ("the same; many", tagged(&["travel", "area:7"])),
        ("two that nothing has", tagged(&["wine", "area:nowhere"])),
    ]
}

/// Queries until the index of the space is there, which is built meanwhile: until answers take a tenth of the slowest
/// one, or the time is over. Returns the slowest time.
async fn wait_for_index(folio: &Folio, space: &SpaceName) -> Result<Duration, Failure> {
    let until = Instant::now() + WARM_UP_MAX;
    let (mut slowest, mut quick) = (Duration::ZERO, 0);
    let [_, (_, query), _] = questions();
    while quick < QUICK_ANSWERS && Instant::now() < until {
        let began = Instant::now();
        folio
            .store()
            .entries(space, &query, Timestamp::from_millis(2_000))
            .await?;
        let elapsed = began.elapsed();
        quick = if elapsed * 10 < slowest { quick + 1 } else { 0 };
        slowest = slowest.max(elapsed);
        tokio::time::sleep(WARM_UP_PAUSE).await;
    }
    Ok(slowest)
}

/// Runs `query` two hundred times.
async fn measure_query(
    folio: &Folio,
    space: &SpaceName,
    question: &'static str,
    query: &EntryQuery,
) -> Result<Listed, Failure> {
    let (mut times, mut total) = (Vec::<Duration>::new(), 0);
    for _ in 0..200 {
        let began = Instant::now();
        let answer = folio
            .store()
            .entries(space, query, Timestamp::from_millis(2_000))
            .await?;
        times.push(began.elapsed());
        total = answer.total;
    }
    Ok(Listed {
        question,
        total,
        p50_ms: micros(quantile(times.clone(), 0.5)) / 1_000.0,
        p99_ms: micros(quantile(times, 0.99)) / 1_000.0,
    })
}
