//! Large results, as a person and as a program see them.

use crate::support::{Folio, session};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn large_result_is_evicted_and_read_in_parts_m7_8_v9() {
    let folio = Folio::new();
    let log: String = (1..=3_000)
        .map(|n| format!("line {n}: {}\n", if n % 1_000 == 7 { "Error" } else { "fine" }))
        .collect();
    folio.file("build.log", log);
    folio.file("small.txt", "all is well\n");
    let seen = session(
        &folio,
        &[
            "evict build.log --limit 80 --tool shell",
            "evict build.log --limit 7",
            "evict build.log --limit 0",
            "evict small.txt --limit 80",
            "blob e1 --lines 1000:1002",
            "blob /large_tool_results/e1 --search ERROR --max-bytes 60",
            "blob e1 --search error --from 21",
            "blob e1 --from 14 --max-bytes 20",
            "blob e9",
            "blob nothing",
            "blob e1 --lines 3-1",
            "evict nowhere.txt",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio evict build.log --limit 80 --tool shell
    [e1: 46896 bytes, cut; result_read reads them]
    line 1: fine
    line 2: fine
    line 3: fine
    … 46842 bytes left out …
    line 3000: fine
    ! stored; read it with `folio blob e1`
    $ folio evict build.log --limit 7
    [e1 cut]
    ! stored; read it with `folio blob e1`
    $ folio evict build.log --limit 0
    ! stored; read it with `folio blob e1`
    $ folio evict small.txt --limit 80
    all is well
    $ folio blob e1 --lines 1000:1002
    line 1000: fine
    line 1001: fine
    line 1002: fine
    $ folio blob /large_tool_results/e1 --search ERROR --max-bytes 60
    7: line 7: Error
    ! there is more; continue with --search "ERROR" --from 14990
    $ folio blob e1 --search error --from 21
    7: line 7: Error
    1007: line 1007: Error
    2007: line 2007: Error
    $ folio blob e1 --from 14 --max-bytes 20
    ine 2: fine
    ! there is more; continue with --from 26
    $ folio blob e9
    ! error[not_found]: there is no entry e9 in this space
    = 3
    $ folio blob nothing
    ! error[not_found]: there is no result nothing in this space
    = 3
    $ folio blob e1 --lines 3-1
    ! error[usage]: --lines must be of the form 10:20, 10: or 10, not "3-1"
    = 2
    $ folio evict nowhere.txt
    ! error[file_unusable]: cannot read nowhere.txt: no such file or directory
    = 3
    "#);
}

#[test]
fn evict_json_has_the_preview_its_tokens_and_the_hash_m7_8_v9() {
    let folio = Folio::new();
    let rows: Vec<_> = (0..2_000)
        .map(|id| json!({"id": id, "name": format!("row {id}")}))
        .collect();
    folio.file("rows.json", json!({"rows": rows}).to_string());
    let evicted = folio.json(&["evict", "rows.json", "--limit", "150"]);
    assert_eq!(evicted["ref"], "e1");
    assert!(evicted["tokens"].as_u64().unwrap() <= 150, "{evicted}");
    assert!(evicted["preview"].as_str().unwrap().contains("\"… 19"), "{evicted}");
    let hash = evicted["hash"].as_str().unwrap();
    let whole = folio.json(&["blob", hash, "--max-bytes", "1000000"]);
    assert_eq!(whole["total_bytes"], evicted["bytes"]);
    assert_eq!(whole["truncated"], false);
    let again = folio.json(&["evict", "rows.json", "--limit", "150"]);
    assert_eq!(again, evicted);
    let read = folio.json(&["evict", "rows.json", "--limit", "150", "--of", "file"]);
    assert_eq!((&read["preview"], &read["ref"]), (&whole["text"], &Value::Null));
}

#[test]
fn evicted_result_is_read_back_byte_for_byte() {
    let folio = Folio::new();
    let kept: String = (0..900)
        .map(|n| format!("line {n}\u{1b}[2J\u{7} of\u{202e} many\r\n"))
        .collect::<String>()
        + "the end";
    folio.file("result.txt", &kept);
    folio.ok(&["evict", "result.txt", "--limit", "100"]);
    let mut read = String::new();
    while read.len() < kept.len() {
        let part = folio.ok(&["blob", "e1", "--from", &read.len().to_string(), "--max-bytes", "1000"]);
        assert!(!part.is_empty());
        read.push_str(&part);
    }
    assert_eq!(read, kept);
    // And so is what is small enough to stay where it is.
    folio.file("small.txt", "a\u{1b}[2Jb\r\nd");
    assert_eq!(folio.ok(&["evict", "small.txt"]), "a\u{1b}[2Jb\r\nd");
}
