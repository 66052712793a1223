//! Search, as a person and as a program see it.

use crate::support::{Folio, session};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn search_finds_entries_of_every_kind_and_applies_filters() {
    let folio = Folio::new();
    folio.ok(&["book", "add", "task", "Book flights", "--thread", "other"]);
    let seen = session(
        &folio,
        &[
            "observe add 'The user wants a flight to Zürich' --type contextual_insight --tag travel",
            "book add todo 'Ask for the passport' --body 'Before the flights are booked, the name in it must be known' --tag travel",
            "book add note 'Wine list'",
            "search zurich flight",
            "search flight --kind todo",
            "search flight --tag travel --limit 1 --type contextual_insight",
            "search flight --thread other",
            "search zurich --thread other",
            "search zurich wine",
            "search zurich wine --any",
            "search how are the flights and zurich and wine",
            "search '\"*'",
            "search",
            "observe list --text flying",
            "observe list --text 'flights nowhere' --match any",
            "observe archive e2",
            "search flight zurich",
            "search flight zurich --all",
            "search flight --cursor nonsense",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe add 'The user wants a flight to Zürich' --type contextual_insight --tag travel
    e2 [contextual_insight/active 0.5] The user wants a flight to Zürich #travel
    $ folio book add todo 'Ask for the passport' --body 'Before the flights are booked, the name in it must be known' --tag travel
    e3 [todo/open] Ask for the passport — Before the flights are booked, the name in it must be known #travel
    $ folio book add note 'Wine list'
    e4 [note/active] Wine list
    $ folio search zurich flight
    e2 [contextual_insight/active] The user wants a flight to Zürich #travel
    $ folio search flight --kind todo
    e3 [todo/open] Ask for the passport — Before the flights are booked, the name in it must be known #travel
    $ folio search flight --tag travel --limit 1 --type contextual_insight
    e2 [contextual_insight/active] The user wants a flight to Zürich #travel
    $ folio search flight --thread other
    e1 [task/open] Book flights
    $ folio search zurich --thread other
    ! nothing found
    ! only the scratchbook of thread other was searched; leave out --thread to search everything
    $ folio search zurich wine
    e4 [note/active] Wine list
    e2 [contextual_insight/active] The user wants a flight to Zürich #travel
    ! nothing matches all of the words; these match some of them
    $ folio search zurich wine --any
    e4 [note/active] Wine list
    e2 [contextual_insight/active] The user wants a flight to Zürich #travel
    $ folio search how are the flights and zurich and wine
    e4 [note/active] Wine list
    e2 [contextual_insight/active] The user wants a flight to Zürich #travel
    e1 [task/open] Book flights
    e3 [todo/open] Ask for the passport — Before the flights are booked, the name in it must be known #travel
    ! nothing matches all of the words; these match some of them
    $ folio search '"*'
    ! "\"*" contains no words
    ! nothing found
    $ folio search
    ! error: the following required arguments were not provided:
    !   <TEXT>...
    ! 
    ! Usage: folio search <TEXT>...
    ! 
    ! For more information, try '--help'.
    = 2
    $ folio observe list --text flying
    ! no observation matches
    $ folio observe list --text 'flights nowhere' --match any
    e2 [contextual_insight/active 0.5] The user wants a flight to Zürich #travel
    $ folio observe archive e2
    e2 [contextual_insight/archived 0.5] The user wants a flight to Zürich #travel
    $ folio search flight zurich
    e1 [task/open] Book flights
    e3 [todo/open] Ask for the passport — Before the flights are booked, the name in it must be known #travel
    ! nothing matches all of the words; these match some of them
    $ folio search flight zurich --all
    e2 [contextual_insight/archived] The user wants a flight to Zürich #travel
    $ folio search flight --cursor nonsense
    ! error[invalid]: "nonsense" is not a cursor
    = 2
    "#);
}

#[test]
fn search_json_has_scores_and_highlighted_snippets() {
    let folio = Folio::new();
    for title in ["a flight", "another flight, with more words", "a train"] {
        folio.ok(&["observe", "add", title]);
    }
    let found = folio.json(&["search", "flights", "--limit", "1"]);
    let item = &found["items"][0];
    assert_eq!((&found["total"], &found["returned"]), (&json!(2), &json!(1)));
    assert_eq!(
        (&item["handle"], &item["kind"], &item["type"]),
        (&json!("e1"), &json!("observation"), &json!("observation"))
    );
    assert_eq!(
        item["snippet"],
        json!([{"text": "a ", "hit": false}, {"text": "flight", "hit": true}])
    );
    assert!(item["score"].as_f64().unwrap() > 0.0);
    let next = found["next"].as_str().unwrap();
    let more = folio.json(&["search", "flights", "--limit", "1", "--cursor", next]);
    assert_eq!(
        (&more["items"][0]["handle"], &more["next"]),
        (&json!("e2"), &Value::Null)
    );
    let listed = folio.json(&["observe", "list", "--text", "flights", "--order", "oldest"]);
    assert_eq!(listed["items"][0]["handle"], "e1");
    assert!(listed["items"][0]["score"].as_f64().unwrap() > 0.0);
    assert!(folio.json(&["observe", "list"])["items"][0].get("score").is_none());
}

#[test]
fn partial_search_matches_are_paged_without_duplicates() {
    let folio = Folio::new();
    for n in 0..5 {
        folio.ok(&["observe", "add", &format!("red apple {n}")]);
        folio.ok(&["observe", "add", &format!("green pear {n}")]);
    }
    let first = folio.json(&["search", "apple", "pear", "--limit", "4"]);
    assert_eq!((&first["returned"], &first["total"]), (&json!(4), &json!(10)));
    let mut seen: Vec<Value> = first["items"].as_array().unwrap().clone();
    let mut next = first["next"].clone();
    while let Some(cursor) = next.as_str() {
        let part = folio.json(&["search", "apple", "pear", "--limit", "4", "--cursor", cursor]);
        seen.extend(part["items"].as_array().unwrap().iter().cloned());
        next = part["next"].clone();
    }
    let mut handles: Vec<_> = seen.iter().map(|item| item["handle"].to_string()).collect();
    handles.sort();
    handles.dedup();
    assert_eq!((seen.len(), handles.len()), (10, 10));
}

#[test]
fn empty_search_and_repeated_context_path_are_refused() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "x", "--context", "k=a"]);
    let list: &[&str] = &["observe", "list", "--context", "k=a"];
    for (words, says) in [
        (&["search", ""][..], "the text to search for is empty"),
        (&["search", " ", " "], "the text to search for is empty"),
        (
            &[list, &["--context", "k=b"]].concat(),
            "--context names k more than once",
        ),
        (
            &[list, &["--context", "context.k=a"]].concat(),
            "--context names k more than once",
        ),
    ] {
        let refused = folio.call(words);
        assert_eq!(refused.code, 2, "{refused}");
        assert!(
            refused.stderr.contains("error[query_invalid]") && refused.stderr.contains(says),
            "{refused}"
        );
    }
}

#[test]
fn context_paths_are_written_alike_in_every_filter() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "low", "--context", "level=3"]);
    for path in ["level=3", "context.level=3"] {
        assert_eq!(
            folio.json(&["observe", "list", "--context", path])["total"],
            1,
            "{path}"
        );
        let named = folio.json(&["forget", "--context", path, "--dry-run"]);
        assert_eq!(named["forgotten"].as_array().unwrap().len(), 1, "{path}");
    }
}
