use serde_json::{Value, json};

use super::*;
use crate::actor::{Actor, Role};

fn to() -> Destination {
    Destination {
        space: SpaceName::main(),
        thread: ThreadKey("work".to_owned()),
        source: Source {
            principal: Some(Actor::new(Role::Human, "ada").to_string()),
            ..Source::default()
        },
        now: Timestamp::from_millis(1_800_000_000_000),
    }
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// The result as text: one line per entry, and the links with the names of their ends.
fn shown(foreign: &Foreign) -> String {
    let mut text = String::new();
    for page in &foreign.pages {
        text += &format!("page {}\n", page.fields.title);
    }
    for ForeignItem { name, new, changed, .. } in &foreign.items {
        let tags: Vec<_> = new.fields.tags.iter().map(Tag::as_str).collect();
        let (kind, status, title) = (new.kind, new.fields.status, &new.fields.title);
        text += &format!(
            "{name} | {kind} {status} | {title} | {:?} | {tags:?} {}\n",
            new.fields.body,
            changed.len()
        );
    }
    for (name, link) in &foreign.links {
        text += &format!("link {name}: {}\n", link.rel.as_str());
    }
    for (name, invalid) in &foreign.refused {
        text += &format!("refused {name}: {invalid}\n");
    }
    text
}

#[test]
fn mcp_memory_import_creates_pages_observations_and_links() {
    let graph = lines(&[
        json!({"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes maps", "speaks French"]}),
        json!({"type": "entity", "name": "Engine", "entityType": "machine", "observations": []}),
        json!({"type": "relation", "from": "Ada", "to": "Engine", "relationType": "writes_programs_for"}),
        json!({"type": "relation", "from": "Ada", "to": "Nobody", "relationType": "knows"}),
        json!({"type": "relation", "from": "Nobody", "to": "Ada", "relationType": "knows"}),
        json!({"type": "entity", "name": "Ada", "entityType": "person", "observations": ["again"]}),
        json!({"type": "thing"}),
    ]);
    let foreign = mcp_memory(&format!("{graph}\nno json"), &to());
    insta::assert_snapshot!(shown(&foreign), @r#"
    page Ada
    page Engine
    Ada: likes maps | observation active |  | "likes maps" | ["person"] 0
    Ada: speaks French | observation active |  | "speaks French" | ["person"] 0
    Ada: Ada writes_programs_for Engine | observation active |  | "Ada writes_programs_for Engine" | ["relation"] 0
    Ada: Ada knows Nobody | observation active |  | "Ada knows Nobody" | ["relation"] 0
    link Ada writes_programs_for Engine: references
    refused line 6: name: the entity "Ada" occurs twice
    refused line 7: type: "thing" is neither entity nor relation
    refused line 9: line: expected ident at line 1 column 2
    refused line 4: to: there is no entity "Nobody"
    refused line 5: from: there is no entity "Nobody"
    "#);
    let context = foreign.items[2].new.fields.context.clone().unwrap();
    assert_eq!(
        context,
        json!({"entity": "Ada", "relation": {"type": "writes_programs_for", "to": "Engine"}})
    );
}

#[test]
fn claude_tasks_import_creates_scratchbooks_by_thread() {
    let file = |path: &str, value: Value| TextFile {
        path: path.to_owned(),
        text: value.to_string(),
    };
    let files = [
        file(
            "1.json",
            json!({"id": "1", "subject": "Dig", "description": "a hole", "status": "completed", "blocks": ["2"]}),
        ),
        file(
            "2.json",
            json!({"id": "2", "subject": "Fill", "status": "in_progress", "blockedBy": ["1", "9"], "activeForm": "Filling"}),
        ),
        file(
            "other/1.json",
            json!({"id": 1, "subject": "Elsewhere", "status": "pending"}),
        ),
        file("3.json", json!({"id": "3", "subject": "Odd", "status": "sometime"})),
    ];
    let foreign = claude_tasks(&files, &to());
    insta::assert_snapshot!(shown(&foreign), @r#"
    page Scratchbook of work
    page Scratchbook of other
    1 | task done | Dig | "a hole" | [] 0
    2 | task in_progress | Fill | "" | [] 0
    1 | task open | Elsewhere | "" | [] 0
    link 1 blocks 2: blocks
    refused 3.json: status: "sometime" is not pending, in_progress, completed or deleted
    refused 9 blocks 2: link: one end of the link does not exist
    "#);
    let kept = foreign.items[1].new.fields.claimed_source.clone().unwrap();
    assert_eq!(kept["brought_from"]["record"]["activeForm"], "Filling");
}

#[test]
fn beads_import_turns_issues_into_tasks_with_links() {
    let issues = lines(&[
        json!({"id": "bd-1", "title": "Crash", "description": "It stops.", "design": "Hold on.", "acceptance_criteria": "It does not.",
            "notes": "", "status": "closed", "priority": 1, "issue_type": "bug", "assignee": "bob", "labels": ["parser", "two words"],
            "created_at": "2025-10-16T19:14:04.541Z", "updated_at": "2025-10-17T01:00:00Z", "close_reason": "Mended",
            "comments": [{"author": "eve", "text": "Seen, too.", "created_at": "2025-10-16T20:00:00Z"}]}),
        json!({"id": "bd-2", "title": "After it", "status": "open", "dependencies": [
            {"issue_id": "bd-2", "depends_on_id": "bd-1", "type": "blocks"},
            {"issue_id": "bd-2", "depends_on_id": "bd-1", "type": "discovered-from"},
            {"issue_id": "bd-2", "depends_on_id": "bd-7", "type": "related"}]}),
        json!({"id": "bd-3", "title": "Gone", "status": "tombstone"}),
        json!({"id": "bd-4", "title": "Later", "status": "deferred"}),
        json!({"title": "Nameless"}),
    ]);
    let foreign = beads(&issues, &to());
    insta::assert_snapshot!(shown(&foreign), @r#"
    page Scratchbook of work
    bd-1 | task done | Crash | "It stops.\n\n## Design\n\nHold on.\n\n## Acceptance criteria\n\nIt does not.\n\n## Comments\n\n2025-10-16T20:00:00Z eve: Seen, too.\n\n## Closed\n\nMended" | ["parser", "two_words", "type:bug", "priority:1"] 0
    bd-2 | task open | After it | "" | [] 0
    bd-4 | task open | Later | "" | ["deferred"] 0
    link bd-2 blocks bd-1: blocks
    link bd-2 discovered-from bd-1: derived_from
    refused line 5: id: is missing
    refused bd-2 related bd-7: link: one end of the link does not exist
    "#);
    let first = &foreign.items[0].new.fields;
    assert_eq!(
        first.brought.unwrap().created_at.to_string(),
        "2025-10-16T19:14:04.541Z"
    );
    assert_eq!(
        first.claimed_source.clone().unwrap()["brought_from"]["record"],
        json!({"id": "bd-1", "assignee": "bob"})
    );
}

#[test]
fn untitled_issue_is_titled_with_first_words_of_its_text() {
    let issues = lines(&[
        json!({"id": "bd-1", "status": "closed", "close_reason": "Mended with a new valve"}),
        json!({"id": "bd-2", "status": "open", "design": "> - [ ] hold on\n- let go"}),
    ]);
    let foreign = beads(&issues, &to());
    let titles: Vec<_> = foreign
        .items
        .iter()
        .map(|item| item.new.fields.title.as_str())
        .collect();
    assert_eq!(
        (titles, &foreign.refused),
        (vec!["Mended with a new valve", "hold on"], &Vec::new())
    );
    for (text, words) in [
        ("# One\n\n## Two ##\n", "One"),
        ("---\n12. twelve\n", "twelve"),
        ("<!-- for nobody -->\n```sh\nmake\n```", "make"),
        ("#tag is a word\n", "#tag is a word"),
        ("12 months", "12 months"),
        ("-\n\n  * star", "star"),
        (" \n---\n", "---"),
        ("", ""),
    ] {
        assert_eq!(first_words(text), words, "{text}");
    }
}

#[test]
fn task_master_import_links_subtasks_and_dependencies_as_blocking() {
    let tasks = json!([
        {"id": 1, "title": "Build", "description": "the house", "details": "of stone", "testStrategy": "Wait for rain.",
            "priority": "high", "status": "in-progress", "dependencies": [],
            "subtasks": [{"id": 1, "title": "Walls", "status": "done", "dependencies": []},
                         {"id": 2, "title": "Roof", "status": "pending", "dependencies": [1]}]},
        {"id": 2, "title": "Move in", "status": "cancelled", "dependencies": [1, 8]},
    ]);
    let alone = task_master(&json!({"tasks": tasks}).to_string(), &to()).unwrap();
    insta::assert_snapshot!(shown(&alone), @r#"
    page Scratchbook of work
    1 | task in_progress | Build | "the house\n\n## Details\n\nof stone\n\n## Test strategy\n\nWait for rain." | ["priority:high"] 0
    1.1 | task done | Walls | "" | [] 0
    1.2 | task open | Roof | "" | [] 0
    2 | task archived | Move in | "" | ["cancelled"] 0
    link master: 1.1 before 1: blocks
    link master: 1.1 before 1.2: blocks
    link master: 1.2 before 1: blocks
    link master: 1 before 2: blocks
    refused master: 8 before 2: link: one end of the link does not exist
    "#);
    let with_contexts =
        json!({"master": {"tasks": tasks, "metadata": {}}, "garden": {"tasks": [{"id": 1, "title": "Plant"}]}});
    let both = task_master(&with_contexts.to_string(), &to()).unwrap();
    assert_eq!(both.items[..4], alone.items[..]);
    assert_eq!(both.items[4].new.fields.tags, Tag::parse_all(["garden"]).unwrap());
    for not_one in ["[]", "{}", r#"{"tasks": 7}"#, "no"] {
        assert_eq!(
            task_master(not_one, &to()).unwrap_err().code,
            "foreign_malformed",
            "{not_one}"
        );
    }
}

#[test]
fn memory_bank_import_creates_a_note_for_each_section() {
    let file = |path: &str, text: &str| TextFile {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let files = [
        file("progress.md", "# Progress\n\nSlow.\n\n## Done\n- a\n- b\n\n## Left\n"),
        file("notes/api.md", "no heading\n"),
    ];
    let foreign = memory_bank("memory-bank", &files, &to());
    insta::assert_snapshot!(shown(&foreign), @r#"
    page memory-bank
    page Progress
    page notes/api
    progress.md 2: Progress | note active | Progress | "Slow." | [] 0
    progress.md 3: Done | note active | Done | "- a\n- b" | [] 0
    progress.md 4: Left | note active | Left | "" | [] 0
    notes/api.md 1:  | note active | no heading | "no heading" | [] 0
    "#);
    let root = foreign.pages[0].id;
    assert!(foreign.pages[1..].iter().all(|page| page.fields.parent == Some(root)));
}

#[test]
fn imported_values_over_limits_are_corrected_and_reported() {
    let long = "word ".repeat(200);
    let labels: Vec<String> = (0..40).map(|n| format!("l{n}")).chain(["x".repeat(70)]).collect();
    let issue = json!({"id": "bd-1", "title": long, "labels": labels, "big": "y".repeat(70_000), "created_at": "2999-01-01T00:00:00Z"});
    let foreign = beads(&issue.to_string(), &to());
    let item = &foreign.items[0];
    assert_eq!(item.new.fields.tags.len(), 32);
    assert!(item.new.fields.title.len() <= 512 && item.new.fields.title.ends_with('…'));
    assert_eq!(item.new.fields.brought.unwrap().created_at, to().now);
    assert_eq!(item.new.fields.claimed_source, None);
    assert_eq!(item.changed.len(), 1 + 8 + 1 + 1, "{:?}", item.changed);
    let twice = format!("{issue}\n{issue}");
    let refused = beads(&twice, &to()).refused;
    assert_eq!((refused.len(), refused[0].1.code.as_str()), (1, "item_twice"));
    let empty = beads(&json!({"id": "bd-2"}).to_string(), &to());
    assert_eq!(empty.refused[0].1.code, "title_empty");
}

/// The ids of the entries of `foreign`.
fn ids(foreign: &Foreign) -> Vec<EntryId> {
    foreign.items.iter().map(|item| item.new.id).collect()
}

#[test]
fn imported_ids_differ_between_threads_and_projects() {
    let elsewhere = Destination {
        thread: ThreadKey("elsewhere".to_owned()),
        ..to()
    };
    let file = |project: Option<&str>| {
        json!({"master": {"tasks": [{"id": 1, "title": "x"}], "metadata": {"projectName": project}}}).to_string()
    };
    let task_file = [TextFile {
        path: "1.json".to_owned(),
        text: r#"{"id": "1", "subject": "x"}"#.to_owned(),
    }];
    let forms: [&dyn Fn(&Destination) -> Foreign; 3] = [
        &|to| beads(r#"{"id": "bd-1", "title": "x"}"#, to),
        &|to| claude_tasks(&task_file, to),
        &|to| task_master(&file(None), to).unwrap(),
    ];
    for read in forms {
        let (here, there) = (read(&to()), read(&elsewhere));
        assert_eq!(ids(&here), ids(&read(&to())), "the same twice is the same");
        assert_ne!(ids(&here), ids(&there), "{here:?}");
    }
    let of = |project| ids(&task_master(&file(project), &to()).unwrap());
    assert_ne!(of(Some("one")), of(Some("two")), "in one thread");
}

#[test]
fn inserted_section_leaves_ids_of_other_sections_unchanged() {
    let read = |text: &str| {
        let file = TextFile {
            path: "a.md".to_owned(),
            text: text.to_owned(),
        };
        ids(&memory_bank("bank", &[file], &to()))
    };
    let before = read("# One\na\n# Two\nb\n# Two\nc\n");
    let after = read("# One\na\n# New\nx\n# Two\nb\n# Two\nc\n");
    assert_eq!(before, [after[0], after[2], after[3]]);
    assert!(!before.contains(&after[1]));
}
