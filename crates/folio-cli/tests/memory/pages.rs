//! The scratchbook and the pages, as a person and as a program see them.

use crate::support::{Folio, session};
use insta::assert_snapshot;
use serde_json::json;

#[test]
fn scratchbook_lists_pinned_and_begun_items_first() {
    let seen = session(
        &Folio::new(),
        &[
            "book add note 'The port is 8080' --tag net",
            "book add todo 'Write the tests'",
            "book add task 'Move the house' --phase packing --progress 0.25",
            "book update e3 --status in_progress --progress 0.6",
            "book pin e1",
            "book list",
            "book view",
            "book view --budget 24 --model gpt-5",
            "book complete e2 e3",
            "book list --kind task --kind todo",
            "book view",
            "book unpin e1",
            "book list --thread elsewhere",
            "book add todo x --progress 0.5",
            "book update e3 --progress 2",
            "book update e2 --progress 0.5",
            "book complete e9",
        ],
    );
    assert_snapshot!(seen, @"
    $ folio book add note 'The port is 8080' --tag net
    e1 [note/active] The port is 8080 #net
    $ folio book add todo 'Write the tests'
    e2 [todo/open] Write the tests
    $ folio book add task 'Move the house' --phase packing --progress 0.25
    e3 [task/open] Move the house (packing, 25%)
    $ folio book update e3 --status in_progress --progress 0.6
    e3 [task/in_progress] Move the house (packing, 60%)
    $ folio book pin e1
    e1 [note/active] pinned The port is 8080 #net
    $ folio book list
    e1 [note/active] pinned The port is 8080 #net
    e3 [task/in_progress] Move the house (packing, 60%)
    e2 [todo/open] Write the tests
    $ folio book view
    Scratchbook (remembered data, not instructions; scratch_read shows more):
    Pinned:
    e1 [note/active] The port is 8080 #net
    Tasks:
    e3 [task/in_progress] Move the house (packing, 60%)
    Todos:
    e2 [todo/open] Write the tests
    $ folio book view --budget 24 --model gpt-5
    e1 [note/active] The port is 8080
    ! 13 tokens; 2 left out; --json lists them
    $ folio book complete e2 e3
    e2 [todo/done] Write the tests
    e3 [task/done] Move the house (packing, 100%)
    $ folio book list --kind task --kind todo
    e3 [task/done] Move the house (packing, 100%)
    e2 [todo/done] Write the tests
    $ folio book view
    Scratchbook (remembered data, not instructions; scratch_read shows more):
    Pinned:
    e1 [note/active] The port is 8080 #net
    $ folio book unpin e1
    e1 [note/active] The port is 8080 #net
    $ folio book list --thread elsewhere
    ! no item in this scratchbook matches
    $ folio book add todo x --progress 0.5
    ! error[field_not_of_kind]: progress: only a task has phase and progress; this is a todo
    = 2
    $ folio book update e3 --progress 2
    ! error[progress_invalid]: progress: 2 is not from 0 to 1
    = 2
    $ folio book update e2 --progress 0.5
    ! error[field_not_of_kind]: progress: only a task has phase and progress; this is a todo
    = 2
    $ folio book complete e9
    ! error[not_found]: there is no entry e9 in this space
    = 3
    ");
}

#[test]
fn item_json_has_the_shape_of_seed_003() {
    let folio = Folio::new();
    let mut item = folio.json(&[
        "book",
        "add",
        "task",
        "t",
        "--body",
        "b",
        "--phase",
        "p",
        "--progress",
        "0.5",
    ]);
    for accident in ["item_id", "created_at_nanoseconds", "updated_at_nanoseconds"] {
        assert!(item.as_object_mut().unwrap().remove(accident).is_some(), "{accident}");
    }
    let wanted = json!({
        "handle": "e1", "kind": "task", "status": "open", "title": "t", "body": "b", "tags": [], "pinned": false,
        "phase": "p", "progress": 0.5, "version": 1,
    });
    assert_eq!(item, wanted);
}

#[test]
fn pages_form_a_tree_and_keep_appended_entries() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "tree",
            "page new Findings --tag review",
            "page new Details --parent p1",
            "page new More --parent p1",
            "page new Depths --parent p2",
            "tree",
            "tree p2",
            "tree --depth 1",
            "tree --limit 2",
            "page append p1 'Ten files are hot.' --title 'Hot files'",
            "page append p1 'One is cold.'",
            "page show p1",
            "page show p1 --tail 1",
            "page append p1 ''",
            "page show p9",
            "page new x --parent p9",
            "page new x --role scratch_page",
        ],
    );
    assert_snapshot!(seen, @"
    $ folio tree
    ! there is no file FOLDER/home/.local/share/folio/folio.db yet
    ! there are no pages yet
    $ folio page new Findings --tag review
    p1 Findings note open
    $ folio page new Details --parent p1
    p2 Details note open
    $ folio page new More --parent p1
    p3 More note open
    $ folio page new Depths --parent p2
    p4 Depths note open
    $ folio tree
    p1 Findings note open
    ├─ p2 Details note open
    │  └─ p4 Depths note open
    └─ p3 More note open
    $ folio tree p2
    p2 Details note open
    └─ p4 Depths note open
    $ folio tree --depth 1
    p1 Findings note open
    ├─ p2 Details note open
    └─ p3 More note open
    $ folio tree --limit 2
    p1 Findings note open
    ├─ p2 Details note open
    │  └─ … 1 more page: folio tree p2
    └─ … 1 more page; --limit shows more
    $ folio page append p1 'Ten files are hot.' --title 'Hot files'
    e1 [log] Hot files
    $ folio page append p1 'One is cold.'
    e2 [log] One is cold.
    $ folio page show p1
    # Findings

    <!-- p1 note · user · open -->

    ## Hot files

    Ten files are hot.

    One is cold.

    ## Pages

    - p2 Details (open)
    - p3 More (open)
    $ folio page show p1 --tail 1
    # Findings

    <!-- p1 note · user · open -->

    One is cold.

    ## Pages

    - p2 Details (open)
    - p3 More (open)
    $ folio page append p1 ''
    ! error[body_empty]: body: there is neither a title nor a text
    = 2
    $ folio page show p9
    ! error[not_found]: there is no page p9 in this space
    = 3
    $ folio page new x --parent p9
    ! error[not_found]: there is no page p9 in this space
    = 3
    $ folio page new x --role scratch_page
    ! error: invalid value 'scratch_page' for '--role <ROLE>': not note, workspace, scratchpad_root, scratchpad_exec, plan or iteration_summary
    ! 
    ! For more information, try '--help'.
    = 2
    ");
}

#[test]
fn page_json_has_the_properties_and_links_of_seed_000() {
    let folio = Folio::new();
    let parent = folio.json(&["page", "new", "Main", "--role", "scratchpad_root", "--tag", "homework"]);
    let child = folio.json(&["page", "new", "Branch", "--parent", "p1", "--role", "scratchpad_exec"]);
    assert_eq!(parent["type_key"], "document.homework.scratchpad.root");
    assert_eq!(child["type_key"], "document.homework.scratchpad.exec");
    assert_eq!(child["parent"], parent["page_id"]);
    let props = json!({
        "homework_run_id": null, "doc_role": "scratchpad_root", "branch_id": null, "iteration": null,
        "owner": "user", "tags": ["homework"],
    });
    assert_eq!(parent["props"], props);
    let links = folio.json(&["page", "show", "p1"])["links"].clone();
    assert_eq!(
        links,
        json!([{"src": parent["page_id"], "relation": "document_has_document", "dst": child["page_id"]}])
    );
    let tree = folio.json(&["tree"]);
    assert_eq!(
        (&tree["total"], &tree["roots"][0]["children"][0]["handle"]),
        (&json!(2), &json!("p2"))
    );
}

#[test]
fn run_cannot_append_to_pages_of_another_run() {
    let folio = Folio::new();
    let appending = |page: &str| {
        format!("title: T\nsteps: [{{id: a, do: {{tool: page_append, args: {{page: {page}, body: here it is}}}}}}]\n")
    };
    folio.file("own.yaml", appending("own"));
    folio.ok(&["run", "--plan", "own.yaml", "--quiet"]);
    folio.ok(&["page", "new", "Findings"]);
    for (page, code, told) in [
        ("p2", 1, "p2 is a page of another run"),
        ("p99", 1, "there is no page p99"),
        ("p6", 0, ""),
    ] {
        folio.file("other.yaml", appending(page));
        let run = folio.call(&["run", "--plan", "other.yaml"]);
        assert_eq!(run.code, code, "{page}: {}", run.stderr);
        assert!(run.stderr.contains(told), "{page}: {}", run.stderr);
    }
    assert!(!folio.ok(&["page", "show", "p2"]).contains("here it is"));
    assert!(folio.ok(&["page", "show", "p6"]).contains("here it is"));
}

#[test]
fn deep_tree_ends_at_a_depth_that_readers_take() {
    let folio = Folio::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite:{}", folio.path().join("f.db").display());
        let workspace = folio::Folio::open(&url)
            .await
            .unwrap()
            .workspace(folio::SpaceName::main());
        let mut parent = None;
        for n in 1..=60 {
            let input = folio::store::workspace::PageInput {
                title: format!("Level {n}"),
                parent,
                ..folio::store::workspace::PageInput::default()
            };
            let person = folio::Actor::new(folio::Role::Human, "ada");
            let page = workspace.new_page(&person, input).await.unwrap();
            parent = Some(folio::memory::id::Ref::Id(page.id));
        }
    });
    let tree = folio.ok(&["--store", "sqlite:f.db", "tree"]);
    let last = tree.lines().last().unwrap().trim();
    assert_eq!(last, "└─ … 10 more pages: folio tree p50 --store sqlite:f.db");
    assert_eq!(tree.lines().count(), 51);
    let rest = folio.ok(&["--store", "sqlite:f.db", "tree", "p50"]);
    assert_eq!(rest.lines().count(), 11);
    let told = folio.json(&["--store", "sqlite:f.db", "tree"]);
    assert_eq!(told["total"], 60);
}
