#![allow(clippy::all, clippy::disallowed_methods, missing_docs)]
use std::time::{Duration, Instant};
use rusqlite::{Connection, params};
fn p50(mut v: Vec<Duration>) -> (Duration, Duration) { v.sort(); (v[v.len()/2], v.iter().sum::<Duration>()/v.len() as u32) }
fn main() {
    let dir = tempfile::tempdir().unwrap();
    let n = 4000i64;
    let sets: Vec<(&str, Vec<&str>, i64, i64)> = vec![
        ("bare", vec!["entry", "entry_id", "entry_page", "entry_kind", "entry_tag"], 4096, 1000),
        ("all", vec![], 4096, 1000),
        ("all, checkpoint 4000", vec![], 4096, 4000),
        ("all, 8k pages", vec![], 8192, 1000),
        ("all, 16k pages", vec![], 16384, 1000),
        ("no tag", vec!["entry_tag"], 4096, 1000),
        ("no kind", vec!["entry_kind"], 4096, 1000),
        ("no kind, tag", vec!["entry_kind", "entry_tag"], 4096, 1000),
        ("no kind, page, tag", vec!["entry_kind", "entry_page", "entry_tag"], 4096, 1000),
        ("no kind, page, tag, id", vec!["entry_kind", "entry_page", "entry_tag", "entry_id"], 4096, 1000),
    ];
    for round in 0..2 { for (name, without, size, ckpt) in &sets {
        let path = dir.path().join(format!("{name}{round}.db"));
        let conn = Connection::open(&path).unwrap();
        conn.set_prepared_statement_cache_capacity(50);
        conn.execute_batch(&format!("PRAGMA page_size={size}; PRAGMA journal_mode = wal; PRAGMA synchronous = full; PRAGMA wal_autocheckpoint={ckpt}; PRAGMA cache_size=-16000")).unwrap();
        conn.execute_batch(include_str!("../src/sqlite/migrations/0001_start.sql")).unwrap();
        for w in without { if !matches!(*w, "entry_tag" | "entry") { let _ = conn.execute_batch(&format!("DROP INDEX {w}")); } }
        let record = "x".repeat(540); let fields = "y".repeat(380);
        let mut v = Vec::new();
        let mut id: u128 = 0x0199_0000_0000_0000_0000_0000_0000_0000;
        for i in 0..n {
            id += 1 << 70; 
            let s = Instant::now();
            conn.prepare_cached("BEGIN IMMEDIATE").unwrap().execute([]).unwrap();
            conn.prepare_cached("INSERT INTO log (place, space, at, key, actor, record) VALUES (?1, 1, ?1, NULL, '{}', ?2)").unwrap().execute(params![i + (1<<40), record]).unwrap();
            if !without.contains(&"entry") {
                conn.prepare_cached("INSERT INTO entry (place, space, id, page, kind, type, status, owner, pinned, expires_at, superseded, confidence, version, created_at, updated_at, created_seq, updated_seq, fields)
               VALUES (?1, 1, ?2, ?3, 'observation', 'contextual_insight', 'active', 'agent', 0, NULL, 0, 0.5, 1, ?1, ?1, ?1, ?1, ?4)").unwrap().execute(params![i + (1<<40), &id.to_be_bytes()[..], 1i64 << 40, fields]).unwrap();
            if !without.contains(&"entry_tag") { for t in ["hot-file", "lang/rust"] { conn.prepare_cached("INSERT INTO entry_tag (tag, entry) VALUES (?1, ?2) ON CONFLICT DO NOTHING").unwrap().execute(params![t, i + (1<<40)]).unwrap(); } }
            }
            let _cpu = s.elapsed();
            conn.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
            v.push(s.elapsed());
        }
        println!("{name}: p50 {:?} mean {:?}", p50(v.clone()).0, p50(v).1);
    } }
}
