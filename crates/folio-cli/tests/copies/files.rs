//! Memory as files, as a person sees it.

use crate::support::{Folio, session};

#[test]
fn memory_is_listed_read_and_searched_as_files() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "--thread a/b book add note 'The oak is old'",
            "page new Oaks",
            "page append p2 'One oak, two oaks.'",
            "files ls",
            "files ls /scratchbook",
            "files cat /pages/p2.md",
            "files cat /pages/p2.md --max-bytes 8",
            "files grep OAK /pages",
            "files cat ../etc/passwd",
            "files cat /pages/p9.md",
            "policy set scratchbook.path_prefix=/my/books",
            "files ls /my",
        ],
    );
    insta::assert_snapshot!(seen, @r#"
    $ folio --thread a/b book add note 'The oak is old'
    e1 [note/active] The oak is old
    $ folio page new Oaks
    p2 Oaks note open
    $ folio page append p2 'One oak, two oaks.'
    e2 [log] One oak, two oaks.
    $ folio files ls
    /conversation_history/
    /large_tool_results/
    /pages/
    /scratchbook/
    $ folio files ls /scratchbook
    /scratchbook/a%2Fb.json
    /scratchbook/a%2Fb.md
    $ folio files cat /pages/p2.md
    # Oaks

    <!-- p2 note · user · open -->

    One oak, two oaks.
    $ folio files cat /pages/p2.md --max-bytes 8
    # Oaks

    ! there is more; continue with --from 8
    $ folio files grep OAK /pages
    /pages/p1.md:5: - e1 [note/active] The oak is old
    /pages/p2.md:1: # Oaks
    /pages/p2.md:5: One oak, two oaks.
    $ folio files cat ../etc/passwd
    ! error[path_escapes]: path: "../etc/passwd" is not a valid path: use names separated by `/`, without `.` and `..`
    = 2
    $ folio files cat /pages/p9.md
    ! error[not_found]: there is no file /pages/p9.md in this space
    = 3
    $ folio policy set scratchbook.path_prefix=/my/books
    {
      "scratchbook": {
        "enabled": true,
        "profile": "cloud",
        "path_prefix": "/my/books"
      }
    }
    $ folio files ls /my
    /my/books/
    "#);
    let book = folio.json(&["files", "cat", "/my/books/a%2Fb.json"]);
    assert!(
        book["text"].as_str().unwrap().starts_with(r#"{"items":[{"body":"#),
        "{book}"
    );
}
