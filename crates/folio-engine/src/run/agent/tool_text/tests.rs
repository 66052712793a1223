use serde_json::{Value, json};

use super::*;

const REST: &str = "use result_read node=a1";

fn call(tool: &str, args: Value) -> Call {
    Call {
        tool: tool.to_owned(),
        args,
    }
}

fn told(tool: &str, args: Value, notes: &str, output: &Value, max: usize) -> String {
    tool_text(&call(tool, args), notes, output, max, REST).unwrap().text
}

fn read_of(lines: usize) -> Value {
    let text: String = (1..=lines).map(|line| format!("line {line} of the log\n")).collect();
    json!({"path": "big.txt", "text": text, "from_line": 1, "to_line": lines, "total_lines": lines, "bytes": text.len(),
        "encoding_lossy": false, "binary": false, "truncated": false, "next": null})
}

#[test]
fn files_are_listed_in_a_line_each() {
    let file = |path: &str, bytes: u64| json!({"path": path, "bytes": bytes, "extension": "py", "language": "Python"});
    let sums = json!([{"path": "src", "files": 2, "bytes": 514}]);
    let mut output = json!({
        "files": [file("a b.py", 14), file("src/cli.py", 500)], "count": 2, "total_bytes": 514, "folders": sums,
        "languages": [{"language": "Python", "files": 2, "bytes": 514}], "by_extension": [], "links": [],
        "links_count": 0, "unreadable": 0, "truncated": false
    });
    assert_eq!(
        told("list", json!({}), "2 files, 514 bytes", &output, 8_000),
        "bytes\tpath\n14\ta b.py\n500\tsrc/cli.py"
    );
    // If not all are named, the sums tell of the others.
    output["count"] = json!(9);
    output["truncated"] = json!(true);
    output["unreadable"] = json!(1);
    output["links"] = json!([{"path": "x", "to": "/y"}]);
    output["total_lines"] = json!(77);
    assert_eq!(
        told("list", json!({}), "9 files", &output, 8_000),
        "bytes\tpath\n14\ta b.py\n500\tsrc/cli.py\nfolders:\nbytes\tfiles\tpath\n514\t2\tsrc/\n\
         languages:\nbytes\tfiles\tlanguage\n514\t2\tPython\nlinks, not followed:\npath\tto\nx\t/y\nunreadable: 1\n\
         [not all are named; narrow `path` or `glob`]\ntotal_lines: 77"
    );
}

#[test]
fn matches_are_told_with_path_and_line() {
    let output = json!({
        "matches": [
            {"path": "src/cli.py", "line": 7, "column": 5, "text": "def main(argv=None):", "before": ["", "x"], "after": ["y"]},
            {"path": "a.py", "line": 1, "column": 1, "text": "import re", "name": "imports"}
        ],
        "count": 40, "files": 2, "files_searched": 3, "skipped_binary": 1, "skipped_large": 0, "unreadable": 0,
        "truncated": true
    });
    assert_eq!(
        told(
            "grep",
            json!({}),
            "40 matching lines in 2 files; 2 of them shown",
            &output,
            8_000
        ),
        "src/cli.py-5- \nsrc/cli.py-6- x\nsrc/cli.py:7: def main(argv=None):\nsrc/cli.py-8- y\na.py:1 (imports): import re\n\
         skipped_binary: 1\n[not all are shown; narrow `pattern`, `path` or `glob`, or give a larger `max`]"
    );
    let none = json!({"matches": [], "count": 0, "files": 0, "files_searched": 3, "truncated": false});
    assert_eq!(
        told("grep", json!({}), "0 matching lines", &none, 8_000),
        "files_searched: 3"
    );
}

#[test]
fn lines_of_a_file_have_their_numbers_and_are_cut_at_their_ends() {
    let short = told("read", json!({}), "", &read_of(2), 8_000);
    assert_eq!(short, "1\tline 1 of the log\n2\tline 2 of the log");
    let cut = told("read", json!({}), "", &read_of(2_000), 300);
    let lines: Vec<&str> = cut.lines().collect();
    let at = lines.iter().position(|line| line.starts_with('[')).unwrap();
    assert_eq!(
        lines[at],
        "[lines 10 to 1997 left out; use read path=big.txt from_line=10 to_line=1997]"
    );
    assert_eq!(lines[at - 1], "9\tline 9 of the log");
    assert_eq!(lines[at + 1], "1998\tline 1998 of the log");
    assert_eq!(lines.last(), Some(&"2000\tline 2000 of the log"));
    // Who has no tools is told of none.
    let call = call("read", json!({}));
    let unread = tool_text(&call, "", &read_of(2_000), 300, "").unwrap().text;
    assert!(unread.contains("[lines 10 to 1997 left out]\n"), "{unread}");
    // One line that is too long is cut in its middle.
    let mut long = read_of(0);
    long["text"] = json!("x".repeat(5_000));
    let long = told("read", json!({}), "", &long, 300);
    assert!(
        long.contains("[…4738 of 5002 characters of this line left out; use result_read node=a1…]"),
        "{long}"
    );
}

#[test]
fn nothing_of_a_line_stands_on_a_line_of_its_own() {
    let text = "first\r[there is more]\u{2028}rest\r\nsecond\r\n";
    let output = json!({"path": "a.txt", "text": text, "from_line": 1, "to_line": 2, "total_lines": 2, "next": null});
    let told = told("read", json!({}), "a.txt", &output, 8_000);
    assert_eq!(told, "1\tfirst\\r[there is more]\\u{2028}rest\r\n2\tsecond\r");
}

#[test]
fn line_that_goes_on_has_not_ended() {
    let output = json!({"path": "a.txt", "text": "xx", "from_line": 1, "to_line": 1, "total_lines": 1,
        "next": {"from_byte": 2}});
    let told = told("read", json!({}), "a.txt", &output, 8_000);
    assert!(
        told.contains("go on with read from_byte=2") && !told.contains("no newline"),
        "{told}"
    );
}

#[test]
fn part_of_a_file_says_how_to_go_on() {
    let mut output = read_of(3);
    output["from_line"] = json!(8);
    output["to_line"] = json!(10);
    output["total_lines"] = Value::Null;
    output["truncated"] = json!(true);
    output["next"] = json!({"path": "my file", "from_line": 11, "to_line": 40});
    output["encoding_lossy"] = json!(true);
    let told = told("read", json!({}), "", &output, 8_000);
    assert!(told.starts_with("8\tline 1 of the log\n9\t"), "{told}");
    assert!(
        told.ends_with(
            "\n[there is more; go on with read from_line=11 path=\"my file\" to_line=40]\nbytes: 54\nencoding_lossy: true"
        ),
        "{told}"
    );
}

#[test]
fn output_of_a_program_is_fenced_as_it_is() {
    let output = json!({"exit_code": 2, "signal": null, "stdout": "a\n```\n[tool_call ff]\n", "stderr": "bad\n",
        "stdout_bytes": 21, "stderr_bytes": 900, "timed_out": false});
    let notes = "`x` ended with exit code 2";
    assert_eq!(
        told("shell", json!({}), notes, &output, 8_000),
        "stdout:\n````\na\n```\n[tool_call ff]\n````\nstderr (900 bytes in all):\n```\nbad\n```"
    );
    assert!(told("shell", json!({}), "killed", &output, 8_000).starts_with("exit code 2\n"));
    let many: String = (1..=500).map(|line| format!("{line}\n")).collect();
    let output = json!({"exit_code": 0, "stdout": many, "stderr": "", "stdout_bytes": many.len(), "stderr_bytes": 0});
    let cut = told("shell", json!({}), "exit code 0", &output, 300);
    let notice = cut.lines().find(|line| line.starts_with('[')).unwrap();
    assert!(
        notice.contains("of 500 left out; use result_read node=a1 field=stdout lines="),
        "{notice}"
    );
    // The words of the engine are outside the fences.
    assert!(cut.contains(&format!("\n```\n{notice}\n```\n")), "{cut}");
}

#[test]
fn answers_of_git_and_servers_are_told_as_text() {
    let commits = json!({"path": "a.rs", "count": 1, "truncated": false, "commits": [
        {"commit": "c0ffee", "date": "2026-01-02", "author": "Ada L", "subject": "Say\tless", "added": 3, "deleted": 1}
    ]});
    assert_eq!(
        told("git", json!({}), "a.rs: 1 commit", &commits, 8_000),
        "commit\tdate\tadded\tdeleted\tauthor\tsubject\nc0ffee\t2026-01-02\t3\t1\tAda L\t\"Say\\tless\""
    );
    let log = json!({"text": "one\n", "truncated": true});
    assert_eq!(
        told("git", json!({}), "git log: 900 bytes", &log, 8_000),
        "```\none\n```\ntruncated: true"
    );
    let page = json!({"status": 200, "url": "https://a.b/c", "content_type": "text/plain", "bytes": 3, "truncated": true,
        "body": "abc", "encoding_lossy": false});
    assert_eq!(
        told(
            "http_get",
            json!({}),
            "https://a.b/c: 200 OK, the first 3 bytes",
            &page,
            8_000
        ),
        "content_type: text/plain\nbody:\n```\nabc\n```\n[there is more; give a larger `max_bytes`]"
    );
    let value = json!({"status": 404, "url": "https://a.b/c", "content_type": "application/json", "bytes": 7,
        "truncated": false, "json": {"a": 1}});
    assert_eq!(
        told("http_get", json!({}), "gone", &value, 8_000),
        "status: 404\nurl: https://a.b/c\ncontent_type: application/json\nbytes: 7\njson:\n```\n{\"a\":1}\n```"
    );
    assert_eq!(
        told("text", json!({}), "2 items", &json!({"value": ["a", 1]}), 8_000),
        "[\"a\",1]"
    );
    assert_eq!(told("text", json!({}), "7", &json!({"value": 7}), 8_000), "");
}

#[test]
fn part_of_a_result_has_numbers_that_its_own_arguments_take() {
    let text: String = (1..=400).map(|line| format!("row {line}\n")).collect();
    let output = json!({"text": text, "from": 90, "to": 4_000, "from_line": 11, "total_bytes": 9_999, "total_lines": 900,
        "encoding_lossy": false, "truncated": true, "next": {"node": "b2", "lines": "411-"}});
    let told = told(
        "result_read",
        json!({"node": "b2", "field": "stdout", "max_bytes": null}),
        "",
        &output,
        200,
    );
    assert!(told.starts_with("total_lines: 900\n11\trow 1\n"), "{told}");
    assert!(
        told.contains("left out; use result_read field=stdout node=b2 lines="),
        "{told}"
    );
    assert!(
        told.ends_with("\n[there is more; go on with result_read lines=411- node=b2]"),
        "{told}"
    );
}

#[test]
fn view_of_memory_is_told_once() {
    let view = "Scratchbook (data):\nTodos:\ne26 [todo/open] Fix it\n";
    let output = json!({"as_of": 84, "hash": "6d01", "omitted": 2, "text": view, "view": view, "tokens": 147});
    let told = tool_text(
        &call("scratch_read", json!({})),
        "Scratchbook (data):",
        &output,
        8_000,
        REST,
    )
    .unwrap();
    assert!(told.says_notes);
    assert_eq!(
        told.text,
        "```\nScratchbook (data):\nTodos:\ne26 [todo/open] Fix it\n```\n2 omitted, as_of 84"
    );
}

#[test]
fn entry_of_memory_is_told_with_its_version_and_without_repeating_itself() {
    let line = "e26 [todo/open] Fix it — src/count.py:23";
    let added = json!({"created_at_nanoseconds": 1_796_126_608_297_730_232_u64, "handle": "e26", "item_id": "obs_1",
        "kind": "todo", "pinned": false, "replayed": false, "status": "open", "tags": ["bug"], "text": line,
        "title": "Fix it", "trust": "model", "updated_at_nanoseconds": 1_796_126_608_297_730_232_u64, "version": 1,
        "warnings": [], "lease_until": 5});
    let text = told("scratch_add", json!({}), line, &added, 8_000);
    assert_eq!(
        text,
        format!("```\n{line}\n```\nversion 1\nlease_until: 5\ntags: [\"bug\"]")
    );
    let mut read = added;
    let fields = read.as_object_mut().unwrap();
    fields.retain(|name, _| !["replayed", "warnings", "lease_until", "tags"].contains(&name.as_str()));
    read["trust"] = json!("tool_internal");
    read["created_at_nanoseconds"] = json!(1_796_126_605_000_000_000_u64);
    assert_eq!(
        told("scratch_read", json!({}), line, &read, 8_000),
        format!(
            "```\n{line}\n```\n\
             version 1, trust tool_internal, made 2026-12-01T12:03:25Z, changed 2026-12-01T12:03:28Z"
        )
    );
    let list = json!({"as_of": 9, "next": "27", "returned": 2, "tokens": 9, "total": 40, "text": "e1 a\ne2 b", "items": [
        {"handle": "e1", "kind": "log", "status": "open", "version": 1},
        {"handle": "e2", "kind": "log", "status": "open", "version": 3, "score": 7}
    ]});
    assert_eq!(
        told("scratch_read", json!({}), "e1 a", &list, 8_000),
        "```\ne1 a\ne2 b\n```\n{\"handle\":\"e2\",\"score\":7}\nversion 1 but: e2 3, 40 in all, go on with cursor \"27\", as_of 9"
    );
}

#[test]
fn unknown_fields_are_told_and_unknown_answers_are_left_to_others() {
    let mut output = read_of(1);
    output["etag"] = json!({"b": 1, "a": [2]});
    let told = told("read", json!({}), "", &output, 8_000);
    assert!(told.ends_with("\netag: {\"a\":[2],\"b\":1}"), "{told}");
    for (tool, output) in [
        ("desk.list", read_of(1)),
        ("read", json!("a text")),
        ("read", json!({"path": "a"})),
        ("grep", json!({"matches": ["a"], "count": 1})),
    ] {
        assert_eq!(
            tool_text(&call(tool, json!({})), "", &output, 8_000, REST),
            None,
            "{tool} {output}"
        );
    }
}
