//! Export and import of memory as files, as a person and as a program see it.

use crate::support::{Folio, session};
use serde_json::{Value, json};

#[test]
fn scratchbooks_survive_a_colony_export_and_import() {
    let folio = Folio::new();
    folio.file("notes", "{}");
    let seen = session(
        &folio,
        &[
            "--thread a/b book add task 'Mend the test' --tag tests",
            "--thread a_b book add note 'Kim knows'",
            "--thread 線程 book add todo 'Ask'",
            "export --format colony --out there",
            "import --from colony there --dry-run",
            "--space other import --from colony there",
            "--space other import --from colony there",
            "--space other --thread a/b book list",
            "--space third import --from colony there/scratchbook/a_b.json",
            "--space third import --from colony notes",
            "--space third import --from colony there/notes",
        ],
    );
    insta::assert_snapshot!(seen, @r"
    $ folio --thread a/b book add task 'Mend the test' --tag tests
    e1 [task/open] Mend the test #tests
    $ folio --thread a_b book add note 'Kim knows'
    e2 [note/active] Kim knows
    $ folio --thread 線程 book add todo 'Ask'
    e3 [todo/open] Ask
    $ folio export --format colony --out there
    3 entries in 3 files
      there/scratchbook/a%2Fb.json
      there/scratchbook/a_b.json
      there/scratchbook/%E7%B7%9A%E7%A8%8B.json
    $ folio import --from colony there --dry-run
    would add 0 entries, 0 pages and 0 links
    3 already there
    $ folio --space other import --from colony there
    added 3 entries, 3 pages and 0 links
    $ folio --space other import --from colony there
    added 0 entries, 0 pages and 0 links
    3 already there
    $ folio --space other --thread a/b book list
    e1 [task/open] Mend the test #tests
    $ folio --space third import --from colony there/scratchbook/a_b.json
    added 1 entry, 1 page and 0 links
    $ folio --space third import --from colony notes
    ! error[thread_invalid]: the name of notes names no thread
    !   hint: name the thread with --thread
    = 2
    $ folio --space third import --from colony there/notes
    ! error[file_unusable]: cannot read there/notes: no such file or directory
    = 3
    ");
    let one = std::fs::read_to_string(folio.path().join("there/scratchbook/a%2Fb.json")).unwrap();
    assert!(
        one.starts_with(r#"{"items":[{"body":"","createdAtNanoseconds":"#),
        "{one}"
    );
    folio.file("odd.json", r#"{"items":[{"id":"x"}],"pinnedItemIDs":[]}"#);
    let odd = folio.call(&["--thread", "t", "import", "--from", "colony", "odd.json"]);
    assert_eq!(odd.code, 1, "{odd}");
    assert!(odd.stdout.contains("1 refused"), "{odd}");
    folio.file("no.json", "[]");
    let no = folio.call(&["import", "--from", "colony", "no.json", "--json"]);
    assert!(no.code == 2 && no.stderr.contains("\"book_malformed\""), "{no}");
}

#[test]
fn exported_space_is_imported_unchanged_into_another_store() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "observe add 'The oak is old' --tag tree --type risk_alert",
            "page new Findings",
            "page append p2 'It is.'",
            "export --out memory.jsonl",
            "--store sqlite:other.db import --from folio memory.jsonl --dry-run",
            "--store sqlite:other.db import --from folio memory.jsonl",
            "--store sqlite:other.db import --from folio memory.jsonl",
            "--store sqlite:other.db observe list",
            "--store sqlite:other.db page show p2",
            "--store sqlite:other.db doctor --quiet",
            "--role client import --from folio memory.jsonl",
            "import --from folio nothing.jsonl",
        ],
    );
    insta::assert_snapshot!(seen, @r"
    $ folio observe add 'The oak is old' --tag tree --type risk_alert
    e1 [risk_alert/active 0.5] The oak is old #tree
    $ folio page new Findings
    p2 Findings note open
    $ folio page append p2 'It is.'
    e2 [log] It is.
    $ folio export --out memory.jsonl
    2 entries, 2 pages and 0 links in 1 file
      memory.jsonl
    $ folio --store sqlite:other.db import --from folio memory.jsonl --dry-run
    would add 2 entries, 2 pages and 0 links
    ! there is no file other.db yet
    $ folio --store sqlite:other.db import --from folio memory.jsonl
    added 2 entries, 2 pages and 0 links
    $ folio --store sqlite:other.db import --from folio memory.jsonl
    added 0 entries, 0 pages and 0 links
    4 already there
    $ folio --store sqlite:other.db observe list
    e1 [risk_alert/active 0.5] The oak is old #tree
    $ folio --store sqlite:other.db page show p2
    # Findings

    <!-- p2 note · user · open -->

    It is.
    $ folio --store sqlite:other.db doctor --quiet
    other.db
      looked at the pages and indexes of the file
      looked at 1 space
      looked at 1 commit, rebuilt from the log
      looked at 2 entries, rebuilt from the log
      looked at 2 pages, rebuilt from the log
      looked at 0 runs, rebuilt from the log
      looked at 0 turns, rebuilt from the log
      looked at 1 indexed word, rebuilt from the log
      looked at 1 watch, rebuilt from the log
      looked at 0 word indexes
      looked at 0 bodies, each against its hash
      looked at the journals of 0 runs, each from its first event
      no problems found
    $ folio --role client import --from folio memory.jsonl
    ! error[role_denied]: a client may not bring in a space; human may
    = 4
    $ folio import --from folio nothing.jsonl
    ! error[file_unusable]: cannot read nothing.jsonl: no such file or directory
    = 3
    ");
    let out = folio.ok(&["export"]);
    assert_eq!(out, std::fs::read_to_string(folio.path().join("memory.jsonl")).unwrap());
    folio.file("cut.jsonl", out.lines().take(3).collect::<Vec<_>>().join("\n"));
    let cut = folio.call(&[
        "--store",
        "sqlite:third.db",
        "import",
        "--from",
        "folio",
        "cut.jsonl",
        "--json",
    ]);
    assert!(cut.code == 1 && cut.stdout.contains("\"file_incomplete\""), "{cut}");
    folio.file("newer.jsonl", out.replacen("\"format\":1", "\"format\":2", 1));
    let newer = folio.call(&["import", "--from", "folio", "newer.jsonl"]);
    assert!(newer.code == 2 && newer.stderr.contains("reads up to 1"), "{newer}");
}

#[test]
fn markdown_edits_are_merged_and_conflicts_reported() {
    let folio = Folio::new();
    session(
        &folio,
        &[
            "observe add 'The oak is old'",
            "observe add 'The moss is green'",
            "page new 'What we found'",
            "export --format markdown --out there",
            "observe update e2 --content 'The moss is dry'",
        ],
    );
    let file = |name: &str| folio.path().join("there/pages").join(name);
    let mark = "\u{feff}";
    let text = std::fs::read_to_string(file("p1-scratch-page.md")).unwrap();
    let text = text
        .replace("oak is old", "oak is 300 years old")
        .replace("is green", "is wet");
    std::fs::write(file("p1-scratch-page.md"), format!("{mark}{text}")).unwrap();
    let text = std::fs::read_to_string(file("p2-what-we-found.md")).unwrap();
    std::fs::write(file("p2-what-we-found.md"), format!("My own page\n\n{text}An acorn.\n")).unwrap();

    let merged = folio.call(&["import", "--from", "markdown", "--merge", "there"]);
    assert_eq!(merged.code, 1, "{merged}");
    for told in [
        "1 changed as in the files\n",
        "e1 is now as the file says: body [merged]\n",
        "e2 stays as it is; the file differs in: body [differs]\n",
        "p2-what-we-found.md: \"An acorn.\" belongs to no entry and is not imported; put a line <!-- folio:entry --> above it to make it one [line_malformed]\n",
        "p2-what-we-found.md: the comment cannot be read: My own page [line_malformed]\n",
        "2 refused\n",
    ] {
        assert!(merged.stdout.contains(told), "{told}: {merged}");
    }
    let list = folio.ok(&["observe", "list"]);
    assert!(
        list.contains("The oak is 300 years old") && list.contains("The moss is dry"),
        "{list}"
    );
    let both = folio.call(&["import", "--from", "markdown", "--merge", "--distrust", "there"]);
    assert_eq!(both.code, 2, "{both}");
    assert!(
        both.stderr.contains("'--merge' cannot be used with '--distrust'"),
        "{both}"
    );
    let colony = folio.call(&["import", "--from", "colony", "--merge", "there"]);
    assert!(colony.code == 2 && colony.stderr.contains("--merge is for"), "{colony}");
}

#[test]
fn markdown_additions_are_imported_once() {
    let folio = Folio::new();
    session(
        &folio,
        &[
            "observe add 'The oak is old'",
            "page new 'What we found'",
            "book add todo 'Water the oak' --body 'By hand.\n\nSlowly.'",
            "export --format markdown --out there",
        ],
    );
    let add = |name: &str, more: &str| {
        let file = folio.path().join("there/pages").join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, text + more).unwrap();
    };
    add(
        "p2-what-we-found.md",
        "<!-- folio:entry -->\n## An acorn\n\nBelow the oak.\n\n<!-- folio:entry -->\nMoss.\n",
    );
    // Empty lines before it are no change of what is above.
    add(
        "p3-scratchbook-of-main.md",
        "\n\n<!-- folio:entry {\"kind\": \"task\", \"tags\": [\"wood\"]} -->\r\n\r\n## Plant it\r\n",
    );
    let import = |name: &str| {
        let words: &[&str] = &["import", "--from", "markdown", "--merge", "there", "--json"];
        let called = folio.call(&[&["--store", name], words].concat());
        (called.code, serde_json::from_str::<Value>(&called.stdout).unwrap())
    };
    // Here they are added to what is there, elsewhere with it.
    for (store, entries) in [("sqlite:other.db", 5), ("sqlite:other.db", 0)] {
        let (code, told) = import(store);
        assert_eq!(
            (code, &told["entries"], &told["refused"]),
            (0, &json!(entries), &json!(0)),
            "{told}"
        );
    }
    let here = folio.ok(&["import", "--from", "markdown", "--merge", "there"]);
    assert!(here.starts_with("added 3 entries"), "{here}");
    let above = folio.json(&["book", "get", "e2"]);
    assert_eq!(
        (&above["body"], &above["version"]),
        (&json!("By hand.\n\nSlowly."), &json!(1)),
        "{above}"
    );
    let page = folio.ok(&["page", "show", "p2"]);
    assert!(
        page.contains("An acorn") && page.contains("Below the oak.") && page.contains("Moss."),
        "{page}"
    );
    let task = folio.json(&["book", "list", "--kind", "task"])["items"][0].clone();
    assert_eq!((&task["title"], &task["tags"]), (&json!("Plant it"), &json!(["wood"])));

    add("p1-scratch-page.md", "<!-- folio:entry -->\nA finch.\n");
    add(
        "p3-scratchbook-of-main.md",
        "<!-- folio:entry {\"kind\":\"goal\"} -->\nGrow.\n",
    );
    let told = folio.call(&["import", "--from", "markdown", "--merge", "there"]);
    for why in [
        "entries cannot be added to a page of role scratch_page in a file; use `folio observe add` [line_malformed]",
        "a new entry here must be of kind note, todo, task, not goal [line_malformed]",
    ] {
        assert!(told.code == 1 && told.stdout.contains(why), "{told}");
    }
    assert!(!told.stdout.contains("incomplete"), "{told}");
}

#[test]
fn markdown_export_and_import_preserve_a_space() {
    let folio = Folio::new();
    session(
        &folio,
        &[
            "observe add 'The oak is old' --tag tree --type risk_alert",
            "page new 'What we found'",
            "page append p2 '<!-- folio:end --> is what it says.'",
            "book add task 'Mend the test' --tag tests",
        ],
    );
    let long = "line\r\n\n".repeat(20_000) + "end";
    let append = ["page", "append", "p2", "--title", "Long -->", "-"];
    folio.command(&append).write_stdin(long).assert().success();
    let out = folio.ok(&["export", "--format", "markdown", "--out", "there"]);
    assert!(
        out.contains("there/folio.md") && out.contains("there/pages/p2-what-we-found.md"),
        "{out}"
    );
    let page = std::fs::read_to_string(folio.path().join("there/pages/p2-what-we-found.md")).unwrap();
    assert!(
        page.contains("\n# What we found\n") && page.contains("\n\\<!-- folio:end --> is what it says.\n"),
        "{page}"
    );
    // All but the number of the last commit, which the first line tells.
    let below_the_first = |lines: String| lines.split_once('\n').map(|(_, below)| below.to_owned());
    let lines = below_the_first(folio.ok(&["export"]));
    folio.ok(&["--store", "sqlite:other.db", "import", "--from", "folio", "there"]);
    assert_eq!(
        below_the_first(folio.ok(&["--store", "sqlite:other.db", "export"])),
        lines
    );
    folio.ok(&[
        "--store",
        "sqlite:other.db",
        "export",
        "--format",
        "markdown",
        "--out",
        "back",
    ]);
    for file in std::fs::read_dir(folio.path().join("there/pages")).unwrap().flatten() {
        let back = folio.path().join("back/pages").join(file.file_name());
        assert_eq!(
            std::fs::read(file.path()).unwrap(),
            std::fs::read(&back).unwrap(),
            "{back:?}"
        );
    }
    let again = folio.call(&["export", "--format", "markdown", "--out", "there", "--json"]);
    assert!(
        again.code == 4 && again.stderr.contains("\"folder_unusable\""),
        "{again}"
    );
    let half = page.replacen("<!-- folio:entry {", "<!-- folio:entry ", 1);
    folio.file("there/pages/p2-what-we-found.md", half);
    let told = folio.call(&["--store", "sqlite:third.db", "import", "--from", "markdown", "there"]);
    assert!(
        told.code == 1 && told.stdout.contains("p2-what-we-found.md: the comment cannot be read"),
        "{told}"
    );
}

#[test]
fn export_to_a_device_link_writes_through_it() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "a note"]);
    let out = folio.path().join("out");
    std::os::unix::fs::symlink("/dev/stdout", &out).unwrap();
    let told = folio.ok(&["export", "--out", "out"]);
    assert!(told.contains("a note") && told.contains("1 entry, 1 page"), "{told}");
    assert!(out.is_symlink());
}

#[test]
fn export_writes_to_pipes_and_follows_links() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "a note"]);
    let at = |name: &str| folio.path().join(name);
    for form in ["folio", "colony"] {
        folio.ok(&["book", "add", "todo", "a note", "--thread", "main"]);
        let whole = folio.json(&[
            "export",
            "--format",
            form,
            "--thread",
            "main",
            "--out",
            &format!("{form}.whole"),
        ]);
        let whole = whole["files"][0].as_str().unwrap();
        let name = whole.replace(".whole", ".pipe");
        std::fs::create_dir_all(at(&name).parent().unwrap()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at(&name)).status();
        assert!(made.unwrap().success());
        let pipe = at(&name);
        let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
        folio.ok(&[
            "export",
            "--format",
            form,
            "--thread",
            "main",
            "--out",
            &format!("{form}.pipe"),
        ]);
        assert_eq!(reader.join().unwrap(), std::fs::read_to_string(at(whole)).unwrap());
        assert!(!at(&name).is_file());
    }
    folio.file("kept/old.jsonl", "old");
    for target in ["kept/old.jsonl", "kept/new.jsonl"] {
        let link = target.replace('/', "-");
        std::os::unix::fs::symlink(target, at(&link)).unwrap();
        let before = std::fs::read_to_string(at(target)).ok();
        let refused = folio.call(&["export", "--out", &link]);
        assert!(
            refused.code == 4 && refused.stderr.contains("file_unusable"),
            "{refused}"
        );
        assert_eq!(std::fs::read_to_string(at(target)).ok(), before, "{target}");
        folio.ok(&["export", "--out", &link, "--force"]);
        assert!(at(&link).is_symlink());
        assert!(
            std::fs::read_to_string(at(target)).unwrap().contains("a note"),
            "{target}"
        );
    }
}

#[test]
fn exported_files_are_private_and_existing_permissions_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let folio = Folio::new();
    folio.ok(&["book", "add", "todo", "a note"]);
    for (form, out) in [("folio", "a.jsonl"), ("colony", "books"), ("markdown", "pages")] {
        folio.ok(&["export", "--format", form, "--out", out]);
    }
    let rights = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let mut left: Vec<_> = ["a.jsonl", "books", "pages"].map(|name| folio.path().join(name)).into();
    while let Some(path) = left.pop() {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(rights(&path), wanted, "{}", path.display());
        left.extend(
            std::fs::read_dir(&path)
                .into_iter()
                .flatten()
                .map(|inside| inside.unwrap().path()),
        );
    }
    let file = folio.path().join("a.jsonl");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    folio.ok(&["export", "--out", "a.jsonl", "--force"]);
    assert_eq!(rights(&file), 0o644);
}

#[test]
fn export_overwrites_an_existing_file_only_with_force() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "one"]);
    folio.ok(&["book", "add", "todo", "two", "--thread", "main"]);
    for form in ["folio", "colony"] {
        let out = format!("{form}.out");
        let export = ["export", "--format", form, "--thread", "main", "--out", &out];
        let written = folio.json(&export);
        let file = written["files"][0].as_str().unwrap();
        let read = || std::fs::read_to_string(folio.path().join(file)).unwrap();
        let first = read();
        folio.file(file, "mine");
        let told = folio.call(&export);
        assert_eq!(told.code, 4, "{told}");
        let said = format!("{file} already exists and was not changed");
        assert!(
            told.stderr.contains(&said) && told.stderr.contains("overwrite it with --force"),
            "{told}"
        );
        assert_eq!(read(), "mine");
        folio.ok(&[&export[..], &["--force"]].concat());
        assert_eq!(read(), first);
    }
    for force in [&["--force"] as &[&str], &[]] {
        let told = folio.call(&[&["export", "--out", "colony.out"], force].concat());
        assert!(told.code == 2 && told.stderr.contains("name a file in it"), "{told}");
    }
}

#[test]
fn folder_without_the_scratchbook_of_the_thread_is_refused() {
    let folio = Folio::new();
    folio.ok(&["--thread", "a", "book", "add", "note", "Kim knows"]);
    folio.ok(&["export", "--format", "colony", "--out", "there"]);
    let refused = folio.call(&[
        "--thread", "b", "--space", "other", "import", "--from", "colony", "there",
    ]);
    assert!(
        refused.code == 2 && refused.stderr.contains("foreign_missing"),
        "{refused}"
    );
    assert!(refused.stderr.contains("of the thread b"), "{refused}");
}

#[test]
fn import_that_stops_at_a_file_says_what_it_has_imported() {
    let folio = Folio::new();
    folio.ok(&["--thread", "a", "book", "add", "note", "Kim knows"]);
    folio.ok(&["export", "--format", "colony", "--out", "there"]);
    folio.file("there/scratchbook/b.json", "[]");
    let import = ["--space", "other", "import", "--from", "colony", "there"];
    let refused = folio.call(&import);
    assert!(refused.code == 2 && refused.stderr.contains("b.json"), "{refused}");
    let before = "1 file was imported before it, with 1 new entry";
    assert!(refused.stderr.contains(before), "{refused}");
    let dry = folio.call(&[&import[..], &["--dry-run"]].concat());
    assert!(!dry.stderr.contains("was imported"), "{dry}");
}

#[test]
fn force_is_refused_for_a_folder_that_is_never_overwritten() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "one"]);
    let told = folio.call(&["export", "--format", "markdown", "--out", "pages", "--force"]);
    assert!(told.code == 2 && told.stderr.contains("--force"), "{told}");
    assert!(!folio.path().join("pages").exists());
}

/// Such a folder may have been unpacked from an archive of somebody else.
#[cfg(unix)]
#[test]
fn pipe_in_an_imported_folder_does_not_keep_the_import_waiting() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "a note"]);
    folio.ok(&["export", "--format", "markdown", "--out", "pages"]);
    let fifo = |name: &str| {
        let path = folio.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(path)
                .status()
                .unwrap()
                .success()
        );
    };
    fifo("pages/pages/p9.md");
    let refused = folio.call(&["--space", "b", "import", "--from", "folio", "pages"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("p9.md") && refused.stderr.contains("it is not a file"),
        "{refused}"
    );
    fifo("books/scratchbook/a.json");
    // There is nothing else in the folder.
    let refused = folio.call(&["--space", "b", "import", "--from", "colony", "books"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("foreign_missing"),
        "{refused}"
    );
}
