//! Many links in a file: reported as if one by one, but with far fewer queries.

use folio_memory::EntryQuery;
use folio_store::workspace::{Fate, ImportOptions};
use serde_json::{Value, json};

use crate::house::House;
use crate::spaces::{export, import, import_with, later, observe};

const ENTRIES: usize = 60;

/// A file with this many entries and the links in `links`, by numbers of entries.
async fn file(links: &[(usize, &str, usize)]) -> String {
    let house = House::new();
    for number in 0..ENTRIES {
        observe(&house.space, &format!("oak {number}")).await;
    }
    let text = export(&house.space).await;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let ids: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["record"] == "entry").then(|| line["id"].as_str().unwrap().to_owned())
        })
        .collect();
    let mut end: Value = serde_json::from_str(&lines.pop().unwrap()).unwrap();
    end["links"] = json!(links.len());
    for (src, rel, dst) in links {
        lines.push(json!({"record": "link", "src": ids[*src], "rel": rel, "dst": ids[*dst]}).to_string());
    }
    lines.push(end.to_string());
    lines.join("\n")
}

/// The same file with the superseding entry of each entry.
fn superseded(text: &str, by: impl Fn(usize) -> Option<usize>) -> String {
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at]["record"] == "entry").collect();
    let ids: Vec<Value> = places.iter().map(|at| lines[*at]["id"].clone()).collect();
    for (number, at) in places.iter().enumerate() {
        if let Some(by) = by(number) {
            lines[*at]["superseded_by"] = ids[by].clone();
        }
    }
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    lines.join("\n")
}

#[tokio::test]
async fn importing_links_of_new_entries_queries_no_stored_links() {
    let chain = (1..ENTRIES).map(|number| (number, "blocks", number - 1));
    let other = (1..ENTRIES).map(|number| (number - 1, "supersedes", number));
    let hub = (1..ENTRIES).map(|number| (0, "references", number));
    let links: Vec<_> = chain.chain(other).chain(hub).collect();
    let text = file(&links).await;
    let house = later();
    let report = import(&house.space, &text).await;
    assert_eq!(
        (report.links, report.refused),
        (3 * (ENTRIES as u64 - 1), 0),
        "{report:?}"
    );
    assert_eq!(
        house.store.links_and_entries().0,
        0,
        "one question for many, and none for circles"
    );
    let again = import(&house.space, &text).await;
    assert_eq!(
        (again.links, again.present),
        (0, 1 + ENTRIES as u64 + links.len() as u64)
    );
    assert_eq!(house.store.links_and_entries().0, 0);
}

#[tokio::test]
async fn import_queries_the_links_of_an_existing_entry_once() {
    let half: Vec<_> = (1..ENTRIES / 2).map(|number| (number, "blocks", number - 1)).collect();
    let house = later();
    let text = file(&half).await;
    assert_eq!(import(&house.space, &text).await.links, half.len() as u64);
    // The other half, from its far end, and what closes the circle of both.
    let mut rest: Vec<_> = (ENTRIES / 2..ENTRIES)
        .map(|number| (number, "blocks", number - 1))
        .collect();
    rest.reverse();
    rest.push((0, "blocks", ENTRIES - 1));
    let report = import(&house.space, &file(&rest).await).await;
    assert_eq!(report.links, rest.len() as u64 - 1);
    let refused: Vec<_> = report
        .remarks
        .iter()
        .map(|remark| (remark.fate, remark.code.as_str()))
        .collect();
    assert_eq!(refused, [(Fate::Refused, "blocks_itself")]);
    let asked = house.store.links_and_entries().0;
    assert!(asked <= ENTRIES as u64, "{asked}");
}

#[tokio::test]
async fn import_looks_up_each_superseding_entry_once() {
    let text = file(&[]).await;
    for chain in [
        superseded(&text, |number| number.checked_sub(1)),
        superseded(&text, |number| Some(number + 1).filter(|by| *by < ENTRIES)),
    ] {
        let house = later();
        let report = import(&house.space, &chain).await;
        assert_eq!((report.entries, report.refused), (ENTRIES as u64, 0), "{report:?}");
        let asked = house.store.links_and_entries().1;
        assert!(asked <= 2 * ENTRIES as u64, "{asked}");
        let again = import(&house.space, &chain).await;
        assert_eq!(again.present, 1 + ENTRIES as u64);
        let asked = house.store.links_and_entries().1 - asked;
        assert!(asked <= 2 * ENTRIES as u64, "{asked}");
    }
}

#[tokio::test]
async fn link_remarks_keep_file_order_and_match_the_dry_run() {
    let mut links: Vec<_> = (0..450).map(|number| (number % 7, "references", number % 11)).collect();
    links.extend([(1, "blocks", 2), (2, "blocks", 1), (3, "blocks", 3)]);
    let text = file(&links).await;
    // Between the two that are refused stands one of which an end is missing.
    let missing = json!({"record": "link", "src": "obs_01ARZ3NDEKTSV4RRFFQ69G5FAV", "rel": "blocks", "dst": "e1"});
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.insert(lines.len() - 2, missing.to_string());
    let text = lines.join("\n");
    let dry_run = ImportOptions {
        dry_run: true,
        ..ImportOptions::default()
    };
    let house = later();
    let dry = import_with(&house.space, &text, dry_run).await;
    let report = import(&house.space, &text).await;
    assert_eq!(dry, report);
    assert_eq!((report.links, report.present), (78, 450 - 77));
    let codes: Vec<_> = report.remarks.iter().map(|remark| remark.code.as_str()).collect();
    assert_eq!(
        codes,
        ["blocks_itself", "end_missing", "blocks_itself", "file_incomplete"]
    );
    let first = house.space.entries(&EntryQuery::default()).await.unwrap();
    assert_eq!(first.total, ENTRIES as u64);
}
