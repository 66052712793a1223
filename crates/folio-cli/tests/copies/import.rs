//! `folio import` from files of other programs: the result, a second import, a dry run, and errors.

use crate::support::Folio;
use serde_json::{Value, json};

impl Folio {
    fn import(&self, form: &str, path: &str) -> (i32, Value) {
        let called = self.call(&["import", "--from", form, path, "--json"]);
        (called.code, serde_json::from_str(&called.stdout).unwrap_or(Value::Null))
    }

    fn titles(&self, arguments: &[&str]) -> Vec<String> {
        let items = self.json(arguments)["items"].clone();
        let items = items.as_array().unwrap().clone();
        items
            .iter()
            .map(|item| item["title"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

#[test]
fn import_without_a_form_lists_the_known_forms() {
    let folio = Folio::new();
    folio.file("memory.jsonl", "{}");
    let called = folio.call(&["import", "memory.jsonl"]);
    assert_eq!(called.code, 2, "{called}");
    for form in [
        "form_missing",
        "--from folio",
        "--from mcp-memory: The knowledge graph",
        "--from beads",
    ] {
        let told = folio.call(&["import", "memory.jsonl", "--json"]).stderr + &called.stderr;
        assert!(told.contains(form), "{form}: {told}");
    }
    // What is not there needs no form.
    let absent = folio.call(&["import", "nowhere.jsonl"]);
    assert!(absent.code != 0 && !absent.stderr.contains("form_missing"), "{absent}");
    let bare = folio.call(&["import"]);
    assert_eq!(bare.code, 2, "{bare}");
    assert!(bare.stderr.contains("task-master"), "{bare}");
}

#[test]
fn file_that_folio_exported_needs_no_form() {
    let folio = Folio::new();
    folio.json(&["observe", "add", "The tests need a database"]);
    let exported = folio.call(&["export", "--out", "memory"]);
    assert_eq!(exported.code, 0, "{exported}");
    let called = folio.call(&["--space", "other", "import", "memory"]);
    assert_eq!(called.code, 0, "{called}");
    assert!(called.stdout.contains("added 1 entry"), "{called}");
    // A line of another program may have such a key as well.
    folio.file("other", "{\"record\": \"space\"}\n");
    assert_eq!(folio.call(&["import", "other"]).code, 2);
}

#[test]
fn leading_byte_order_mark_of_an_imported_file_is_ignored() {
    let folio = Folio::new();
    let entity = json!({"type": "entity", "name": "Ada", "entityType": "person", "observations": ["draws maps"]});
    folio.file("memory.jsonl", format!("\u{feff}{entity}\n"));
    let (code, found) = folio.import("mcp-memory", "memory.jsonl");
    assert_eq!((code, &found["entries"]), (0, &json!(1)), "{found}");
    folio.file("one.json", "\u{feff}{\"content\": \"written by hand\"}");
    assert_eq!(
        folio.json(&["observe", "add", "--from", "one.json"])["content"],
        "written by hand"
    );
    folio.file("book.json", "\u{feff}{\"items\": [], \"pins\": []}");
    let book = folio.call(&["--thread", "t", "import", "--from", "colony", "book.json"]);
    assert_eq!(book.code, 0, "{book}");
    assert!(!book.stderr.contains("line 1"), "{book}");
}

#[test]
fn imported_knowledge_graph_is_found_by_its_observations() {
    let folio = Folio::new();
    let graph = lines(&[
        json!({"type": "entity", "name": "Ada", "entityType": "person", "observations": ["draws maps of harbours", "speaks French"]}),
        json!({"type": "entity", "name": "Engine", "entityType": "machine", "observations": ["has a key sk-proj-abcdefghij0123456789ABCDEFGHIJ0123456789"]}),
        json!({"type": "relation", "from": "Ada", "to": "Engine", "relationType": "writes for"}),
    ]);
    folio.file("memory.jsonl", &graph);
    let dry = folio.json(&["import", "--from", "mcp-memory", "memory.jsonl", "--dry-run"]);
    assert_eq!(
        (&dry["entries"], &dry["pages"], &dry["links"]),
        (&json!(4), &json!(2), &json!(1))
    );
    assert_eq!(folio.json(&["observe", "list"])["total"], 0);
    let (code, first) = folio.import("mcp-memory", "memory.jsonl");
    assert_eq!(
        (code, &first["entries"], &first["links"]),
        (0, &json!(4), &json!(1)),
        "{first}"
    );
    let sure = folio.json(&["observe", "list", "--min-confidence", "0.5"]);
    assert_eq!(
        (&sure["total"], &sure["items"][0]["confidence"]),
        (&json!(4), &json!(0.5))
    );
    // In a folder it is found by its name.
    let (code, again) = folio.import("mcp-memory", ".");
    assert_eq!(
        (code, &again["entries"], &again["present"]),
        (0, &json!(0), &json!(7)),
        "{again}"
    );
    let found = folio.json(&["observe", "list", "--text", "harbour"]);
    assert_eq!(found["items"][0]["content"], "draws maps of harbours");
    let of_ada = folio.json(&["observe", "list", "--context", "entity=Ada"]);
    assert_eq!(of_ada["total"], 3);
    assert_eq!(of_ada["items"][0]["trust"], "imported");
    let all = folio.ok(&["observe", "list", "--limit", "100"]);
    assert!(!all.contains("sk-proj-") && all.contains("[redacted:"), "{all}");
}

#[test]
fn imported_relations_are_written_in_bounded_commits() {
    let folio = Folio::new();
    let names: Vec<String> = (0..22).map(|number| format!("Node {number}")).collect();
    let entity = |name| json!({"type": "entity", "name": name, "entityType": "node", "observations": []});
    let mut graph: Vec<Value> = names.iter().map(entity).collect();
    for from in &names {
        let others = names.iter().filter(|to| *to != from);
        graph.extend(others.map(|to| json!({"type": "relation", "from": from, "to": to, "relationType": "knows"})));
    }
    folio.file("memory.jsonl", lines(&graph));
    let (code, imported) = folio.import("mcp-memory", "memory.jsonl");
    assert_eq!(
        (code, &imported["entries"], &imported["links"]),
        (0, &json!(462), &json!(462)),
        "{imported}"
    );
    let commits = folio.json(&["observe", "list"])["as_of"].as_u64().unwrap();
    assert!(commits >= 5, "946 changes in {commits} commits");
}

#[test]
fn imported_task_list_lands_in_the_scratchbook_of_its_thread() {
    let folio = Folio::new();
    for number in 1..=11 {
        let task = json!({"id": number.to_string(), "subject": format!("Step {number}"), "status": "pending", "blockedBy": [], "blocks": []});
        folio.file(&format!("tasks/garden/{number}.json"), task.to_string());
    }
    let alone = json!({"id": "1", "subject": "Alone", "status": "in_progress"});
    folio.file("tasks/house/1.json", alone.to_string());
    folio.file("tasks/garden/.lock", "");
    let (code, answer) = folio.import("claude-tasks", "tasks");
    assert_eq!((code, &answer["entries"]), (0, &json!(12)), "{answer}");
    let view = folio.ok(&["--thread", "garden", "book", "view"]);
    let place = |title: &str| view.find(title).unwrap();
    assert!(place("Step 2") < place("Step 11"), "{view}");
    let of_house = folio.ok(&["--thread", "house", "book", "view"]);
    assert!(of_house.contains("Alone") && !of_house.contains("Step"), "{of_house}");
    // One list by itself belongs to whoever brings it in.
    folio.ok(&["--thread", "mine", "import", "--from", "claude-tasks", "tasks/house"]);
    assert!(folio.ok(&["--thread", "mine", "book", "view"]).contains("Alone"));
    // The list of the same name of another project is another one.
    let (code, answer) = folio.import("claude-tasks", "tasks/house");
    assert_eq!((code, &answer["entries"]), (0, &json!(1)), "{answer}");
}

#[test]
fn non_utf8_task_file_does_not_block_the_others() {
    let folio = Folio::new();
    folio.file("tasks/1.json", r#"{"id": "1", "subject": "Plant"}"#);
    folio.file("tasks/2.json", b"{\"id\": \"2\", \"subject\": \"\xff\"}");
    let (code, answer) = folio.import("claude-tasks", "tasks");
    assert_eq!(
        (code, &answer["entries"], &answer["refused"]),
        (1, &json!(1), &json!(1)),
        "{answer}"
    );
    assert_eq!(answer["remarks"][0]["item"], "2.json", "{answer}");
}

#[test]
fn beads_issues_are_imported_with_their_dependencies() {
    let folio = Folio::new();
    let issues = lines(&[
        json!({"id": "bd-1", "title": "The parser stops", "description": "At a tab.", "status": "open", "priority": 0,
            "issue_type": "bug", "created_at": "2025-10-16T19:14:04Z", "updated_at": "2025-10-17T19:14:04Z"}),
        json!({"id": "bd-2", "title": "Release", "status": "open", "issue_type": "task", "priority": 2,
            "dependencies": [{"issue_id": "bd-2", "depends_on_id": "bd-1", "type": "blocks"}]}),
    ]);
    folio.file(".beads/issues.jsonl", &issues);
    let (code, answer) = folio.import("beads", ".");
    assert_eq!(
        (code, &answer["entries"], &answer["links"]),
        (0, &json!(2), &json!(1)),
        "{answer}"
    );
    let bug = folio.json(&["search", "parser"])["items"][0].clone();
    assert_eq!(bug["tags"], json!(["type:bug", "priority:0"]), "{bug}");
    assert_eq!(bug["created_at"], "2025-10-16T19:14:04Z");
    // What was changed there is told, and what is here stays.
    folio.file(".beads/issues.jsonl", issues.replace("At a tab.", "At two tabs."));
    let (_, answer) = folio.import("beads", ".");
    assert_eq!(
        (&answer["entries"], &answer["differs"]),
        (&json!(0), &json!(1)),
        "{answer}"
    );
    assert_eq!(answer["remarks"][0]["item"], "bd-1");
}

#[test]
fn task_master_subtasks_and_a_memory_bank_are_imported() {
    let folio = Folio::new();
    let tasks = json!({"master": {"tasks": [{"id": 1, "title": "Build", "status": "pending", "dependencies": [],
        "subtasks": [{"id": 1, "title": "Walls", "status": "done", "dependencies": []}]}]}});
    folio.file("project/.taskmaster/tasks/tasks.json", tasks.to_string());
    let (code, answer) = folio.import("task-master", "project");
    assert_eq!(
        (code, &answer["entries"], &answer["links"]),
        (0, &json!(2), &json!(1)),
        "{answer}"
    );
    folio.file(
        "bank/progress.md",
        "# Progress\n\nSlow.\n\n## Done\n- the roof of slate\n",
    );
    let (code, answer) = folio.import("memory-bank", "bank");
    assert_eq!(
        (code, &answer["pages"], &answer["entries"]),
        (0, &json!(2), &json!(2)),
        "{answer}"
    );
    assert_eq!(folio.titles(&["search", "slate"]), ["Done"]);
    let tree = folio.ok(&["tree"]);
    assert!(tree.contains("bank") && tree.contains("Progress"), "{tree}");
}

#[test]
fn memory_banks_of_two_projects_stay_separate() {
    let folio = Folio::new();
    for (project, text) in [("one", "A mill of slate."), ("two", "A barn of oak.")] {
        let folder = format!("{project}/memory-bank");
        folio.file(&format!("{folder}/projectbrief.md"), format!("# Brief\n\n{text}\n"));
        let (code, answer) = folio.import("memory-bank", &folder);
        assert_eq!(
            (code, &answer["pages"], &answer["entries"]),
            (0, &json!(2), &json!(1)),
            "{answer}"
        );
    }
    let tree = folio.ok(&["tree"]);
    assert!(
        tree.contains("one/memory-bank") && tree.contains("two/memory-bank"),
        "{tree}"
    );
    assert_eq!(folio.titles(&["search", "barn"]), ["Brief"]);
}

#[test]
fn unrecognized_import_file_is_refused_without_changes() {
    let folio = Folio::new();
    folio.file("other.txt", "no json\n{\"type\": \"thing\"}\n");
    folio.file("empty/readme.txt", "");
    let (code, answer) = folio.import("mcp-memory", "other.txt");
    assert_eq!(
        (code, &answer["refused"], &answer["entries"]),
        (1, &json!(2), &json!(0)),
        "{answer}"
    );
    for (form, path, code) in [
        ("task-master", "other.txt", "foreign_malformed"),
        ("beads", "empty", "foreign_missing"),
        ("memory-bank", "empty", "foreign_missing"),
        ("colony", "empty", "foreign_missing"),
        ("mcp-memory", "nowhere", "file_unusable"),
    ] {
        let called = folio.call(&["import", "--from", form, path, "--json"]);
        let problem: Value = serde_json::from_str(called.stderr.trim()).unwrap();
        assert_eq!(
            (called.code, &problem["code"]),
            (if code == "file_unusable" { 3 } else { 2 }, &json!(code)),
            "{problem}"
        );
    }
    let refused = folio.call(&["--role", "tool", "import", "--from", "beads", "other.txt"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.starts_with("error[role_denied]"), "{refused}");
    assert_eq!(folio.json(&["observe", "list"])["total"], 0);
}
