//! The cost of memory in tokens, and roll-ups of the pages below a page, as a person and as a program see them.

use crate::support::Folio;

#[test]
fn tokens_command_lists_entries_by_descending_cost_m7_8_v3() {
    let folio = Folio::new();
    folio.ok(&["book", "add", "note", "short"]);
    let long = "the whole story of the roof and of everybody who ever stood on it ".repeat(8);
    folio.ok(&["book", "add", "todo", "long", "--body", &long]);
    let told = folio.json(&["tokens"]);
    let entries = told["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["handle"], "e2", "the dearest first: {told}");
    assert!(entries[0]["tokens"].as_u64() > entries[1]["tokens"].as_u64());
    for (name, handle) in [("notes", "e1"), ("todos", "e2")] {
        let sections = told["sections"].as_array().unwrap();
        let section = sections.iter().find(|section| section["section"] == name).unwrap();
        let shown = section["shown"].as_array().unwrap().iter();
        let shown = shown.chain(section["shortened"].as_array().unwrap());
        assert!(shown.into_iter().any(|shown| shown == handle), "{section}");
        assert!(section["tokens"].as_u64() > Some(0), "{section}");
    }
    assert_eq!(
        folio.json(&["tokens", "--limit", "1"])["entries"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let text = folio.ok(&["tokens"]);
    assert!(text.contains("e2") && text.contains("e1"), "{text}");
}

#[test]
fn tokens_command_counts_all_entries_and_says_how_many_it_lists() {
    let folio = Folio::new();
    let issue =
        |number: u32| format!("{{\"id\": \"bd-{number}\", \"title\": \"issue {number}\", \"status\": \"open\"}}\n");
    folio.file("issues.jsonl", (0..1_010).map(issue).collect::<String>());
    folio.ok(&["import", "issues.jsonl", "--from", "beads"]);
    let told = folio.json(&["tokens", "--limit", "3"]);
    assert_eq!(
        (&told["entries_total"], told["entries"].as_array().unwrap().len()),
        (&1_010.into(), 3)
    );
    let text = folio.ok(&["tokens", "--limit", "3"]);
    assert!(text.contains("3 of 1010 listed; --limit shows more"), "{text}");
}

#[test]
fn page_rollup_lists_child_pages_within_its_budget_m7_8_v10() {
    let folio = Folio::new();
    folio.ok(&["page", "new", "House"]);
    for (title, text) in [("Roof", "three tiles are broken"), ("Cellar", "the beams are dry")] {
        folio.ok(&["page", "new", title, "--parent", "p1"]);
        let handle = if title == "Roof" { "p2" } else { "p3" };
        folio.ok(&["page", "append", handle, text]);
    }
    let whole = folio.ok(&["page", "rollup", "p1", "--budget", "400"]);
    for part in [
        "p2 [note/open] Roof",
        "e1 three tiles are broken",
        "p3 [note/open] Cellar",
        "e2 the beams are dry",
    ] {
        assert!(whole.contains(part), "{part} is not in {whole}");
    }
    let small = folio.json(&["page", "rollup", "p1", "--budget", "60"]);
    assert!(small["tokens"].as_u64().unwrap() <= 60, "{small}");
    assert!(
        !small["receipt"]["sections"][0]["omitted"]
            .as_array()
            .unwrap()
            .is_empty(),
        "{small}"
    );
    let missing = folio.call(&["page", "rollup", "p999"]);
    assert_eq!(missing.code, 3, "{}", missing.stderr);
}
