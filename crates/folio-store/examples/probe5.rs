#![allow(clippy::all, clippy::disallowed_methods, missing_docs)]
use std::time::{Duration, Instant};
use std::sync::Arc;
use folio_memory::{Change, EntryKind, EntryQuery, EntryHandle, id::Ref};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_testkit::contract::scene::{Scene, tag};
fn pct(mut v: Vec<Duration>) -> String { v.sort(); format!("p50 {:?} p90 {:?} p99 {:?}", v[v.len()/2], v[v.len()*9/10], v[v.len()*99/100]) }
fn main() {
    let n: u32 = std::env::args().nth(1).map_or(10000, |s| s.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let path = dir.path().join("folio.db");
    let scene = Arc::new(Scene::on(SqliteStore::open(&OpenOptions::at(&path)).unwrap()));
    rt.block_on(async {
        let pages = [scene.a_page().await, scene.a_page().await, scene.a_page().await];
        let s = Instant::now();
        for chunk in 0..n / 100 {
            let mut c = Vec::new();
            for i in 0..100 {
                let k = if i % 10 == 0 { EntryKind::Observation } else { EntryKind::Log };
                let mut new = scene.entry(pages[if k == EntryKind::Observation { 0 } else { 1 + i % 2 }], k, "A file is changed more often than all others");
                new.fields.body = "src/lib.rs was touched by 41 of the last 100 commits. ".repeat(4);
                if k == EntryKind::Observation { new.fields.tags = vec![tag("hot-file"), tag(&format!("t{}", chunk % 50))]; }
                c.push(Change::AddEntry(Box::new(new)));
            }
            scene.commit(c).await;
        }
        println!("batched add: {:?} each", s.elapsed() / n);
    });
    let sc = scene.clone();
    rt.block_on(async { tokio::spawn(async move {
        let scene = sc;
        for round in 0..2 {
        let mut v = Vec::new();
        for i in 0..3000u64 { let s = Instant::now(); scene.store.entry(&scene.space, Ref::Handle(EntryHandle(i * 7 % u64::from(n) + 1))).await.unwrap(); v.push(s.elapsed()); }
        println!("point read: {}", pct(v));
        let page = scene.store.pages(&scene.space, &Default::default()).await.unwrap();
        for (name, q) in [("newest", EntryQuery::default()), ("observations", EntryQuery { kinds: vec![EntryKind::Observation], ..Default::default() }),
            ("page 2 oldest", EntryQuery { page: Some(page[1].id), order: folio_memory::Order::Oldest, limit: 50, ..Default::default() }),
            ("tag", EntryQuery { tags: vec![tag("t7")], ..Default::default() }), ("kind+tag", EntryQuery { kinds: vec![EntryKind::Observation], tags: vec![tag("t7")], ..Default::default() })] {
            let mut v = Vec::new();
            for _ in 0..50 { let s = Instant::now(); scene.list(&q).await.unwrap(); v.push(s.elapsed()); }
            println!("  {name}: {}", pct(v));
        }
        if round == 1 { let s = Instant::now(); let c = scene.store.check().await.unwrap(); println!("check {:?} {:?}", s.elapsed(), c); }
        }
    }).await.unwrap() });
    let conn = rusqlite::Connection::open(&path).unwrap();
    let mut v = Vec::new();
    for i in 0..3000u64 { let s = Instant::now(); 
        let t: String = conn.prepare_cached("SELECT fields FROM entry WHERE place = ?1").unwrap().query_row([(1i64 << 40) + (i * 7 % u64::from(n) + 1) as i64], |r| r.get(0)).unwrap();
        let _f: folio_memory::EntryFields = serde_json::from_str(&t).unwrap();
        v.push(s.elapsed()); }
    println!("bare point read: {}", pct(v));
}
