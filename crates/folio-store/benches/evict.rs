//! Measures what it costs to put large results away, durably and with their secrets redacted; and how much memory a
//! very large one takes.
//!
//! `FOLIO_BENCH_MEGABYTES` is the size of the large one; 1,000 by default.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use folio_memory::evict::{Sampler, preview};
use folio_memory::tokens::Estimate;
use folio_memory::{Actor, Role, SpaceName};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::Eviction;
use folio_store::{RandomIds, SystemClock, Workspace};

const BYTES: usize = 10 * 1000 * 1000;

/// Text like the log of a build.
fn a_log(number: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 100);
    let mut n = number;
    while text.len() < bytes {
        text.push_str(&format!(
            "   Compiling crate-{n} v0.{}.{} (/srv/build/{:x})\n",
            n % 17,
            n % 5,
            n.wrapping_mul(2_654_435_761)
        ));
        n += 1;
    }
    text
}

/// Text like the answer of an API.
fn rows(number: usize, bytes: usize) -> String {
    let mut text = String::from("{\"rows\":[");
    let mut n = number;
    while text.len() < bytes {
        text.push_str(&format!(
            "{{\"id\":{n},\"name\":\"row {n}\",\"tags\":[\"a\",\"b\"],\"score\":{}.5}},",
            n % 100
        ));
        n += 1;
    }
    text.pop();
    text + "]}"
}

fn a_space(folder: &std::path::Path) -> Workspace {
    let store = SqliteStore::open(&OpenOptions::at(folder.join("folio.db"))).expect("a store");
    Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    )
}

fn evictions(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let space = a_space(folder.path());
    let actor = Actor::new(Role::Client, "bench");
    let mut group = c.benchmark_group("evict 10 MB");
    group.sample_size(20).throughput(Throughput::Bytes(BYTES as u64));
    type Make = fn(usize, usize) -> String;
    let makes: [(&str, Make); 2] = [("a log", a_log), ("JSON", rows)];
    for (name, make) in makes {
        let mut number = 0;
        group.bench_function(name, |b| {
            b.iter_batched(
                || {
                    number += 1_000_000;
                    make(number, BYTES)
                },
                |text| {
                    let evicted = space.evict(&actor, Cursor::new(text.into_bytes()), Eviction::default());
                    runtime.block_on(evicted).expect("it is put away")
                },
                criterion::BatchSize::PerIteration,
            );
        });
        let text = make(1, BYTES);
        group.bench_function(format!("{name}, the preview alone"), |b| {
            b.iter(|| {
                let mut sampler = Sampler::new(2_000);
                text.as_bytes()
                    .chunks(1024 * 1024)
                    .for_each(|piece| sampler.feed(piece));
                preview(&sampler.finish(), "e42", 2_000, &Estimate)
            });
        });
    }
    group.finish();
    very_large(&runtime, &space, &actor);
}

/// Yields lines one after the other without holding any.
struct Endless {
    left: u64,
    number: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let line = format!(
            "{:016} a line of a very large result, like the one before\n",
            self.number
        );
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX);
        let read = line.len().min(buffer.len()).min(wanted);
        buffer[..read].copy_from_slice(&line.as_bytes()[..read]);
        self.number += 1;
        self.left -= read as u64;
        Ok(read)
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
#[expect(clippy::print_stdout, reason = "a benchmark says what it measured")]
fn very_large(runtime: &tokio::runtime::Runtime, space: &Workspace, actor: &Actor) {
    let megabytes = std::env::var("FOLIO_BENCH_MEGABYTES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000);
    let before = peak();
    let start = Instant::now();
    let source = Endless {
        left: megabytes * 1_000_000,
        number: 0,
    };
    let evicted = runtime
        .block_on(space.evict(actor, source, Eviction::default()))
        .expect("it is put away");
    println!(
        "{megabytes} MB: {:.1} s, peak of the process {before} kB before and {} kB after, {} tokens",
        start.elapsed().as_secs_f64(),
        peak(),
        evicted.tokens
    );
}

/// The peak resident memory of this process in kB; zero where it cannot be read.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

criterion_group!(benches, evictions);
criterion_main!(benches);
