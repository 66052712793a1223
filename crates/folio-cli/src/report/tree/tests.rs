use insta::assert_snapshot;

use super::*;

/// A tree from lines: two spaces a level, a mark, the title, and after `|` the note. Everything began a second after
/// the one before and what is finished took two and a half.
fn tree(text: &str) -> Vec<Node> {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
    let nodes = lines.map(|(position, line)| {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let (mark, rest) = line.trim().split_once(' ').unwrap();
        let (title, note) = rest.split_once(" | ").unwrap_or((rest, ""));
        let mark = match mark {
            "wait" => Mark::Waiting,
            "run" => Mark::Running,
            "in" => Mark::Inside,
            "again" => Mark::Retrying,
            "stop" => Mark::Stopping,
            "ok" => Mark::Ok,
            "part" => Mark::Partial,
            "skip" => Mark::Skipped,
            "gone" => Mark::Cancelled,
            "fail" => Mark::Failed,
            other => panic!("{other}"),
        };
        let start = Timestamp::from_millis(position as i64 * 1_000);
        Node {
            depth,
            title: title.to_owned(),
            mark,
            started_at: (mark != Mark::Waiting).then_some(start),
            finished_at: mark.is_finished().then(|| start.plus(Duration::from_millis(2_500))),
            cost: String::new(),
            note: note.to_owned(),
        }
    });
    nodes.collect()
}

fn drawn(nodes: &[Node], width: usize, height: Option<usize>) -> String {
    let now = Timestamp::from_millis(83_000);
    let lines = draw(
        nodes,
        Frame {
            now,
            width,
            height,
            tick: 0,
            style: Style::default(),
        },
    );
    if let Some(height) = height {
        assert!(lines.len() <= height, "{} lines in {height}", lines.len());
    }
    for line in &lines {
        assert!(columns(line) <= width.max(30), "{line}");
    }
    lines.join("\n")
}

const REVIEW: &str = "
in Review
  ok Survey | 10 files
    ok List files | 10 files
    ok Count lines | 1,204 lines
  in Hot files
    ok src/a.rs
    ok src/b.rs
    fail src/c.rs | grep: no such file
    run src/d.rs | read src/d.rs
    again src/e.rs | attempt 2 in 3s
    wait src/f.rs
    wait src/g.rs
  wait Report
";

#[test]
fn tree_that_fits_is_shown_whole() {
    assert_snapshot!(drawn(&tree(REVIEW), 60, Some(20)), @"
    ▾ Review 1m23s
      ✓ Survey 2.5s  10 files
        ✓ List files 2.5s  10 files
        ✓ Count lines 2.5s  1,204 lines
      ▾ Hot files 1m19s
        ✓ src/a.rs 2.5s
        ✓ src/b.rs 2.5s
        ✗ src/c.rs 2.5s  grep: no such file
        ⠋ src/d.rs 1m15s  read src/d.rs
        ↻ src/e.rs 1m14s  attempt 2 in 3s
        · src/f.rs
        · src/g.rs
      · Report
    1m23s · 5 of 12 done · 1 running · 1 to be retried · 1 fail…
    ");
}

#[test]
fn finished_subtrees_collapse_when_the_tree_does_not_fit() {
    assert_snapshot!(drawn(&tree(REVIEW), 60, Some(12)), @"
    ▾ Review 1m23s
      ✓ Survey 2.5s  10 files
      ▾ Hot files 1m19s
        ✓ src/a.rs 2.5s
        ✓ src/b.rs 2.5s
        ✗ src/c.rs 2.5s  grep: no such file
        ⠋ src/d.rs 1m15s  read src/d.rs
        ↻ src/e.rs 1m14s  attempt 2 in 3s
        · src/f.rs
        · src/g.rs
      · Report
    1m23s · 5 of 12 done · 1 running · 1 to be retried · 1 fail…
    ");
}

#[test]
fn similar_siblings_merge_when_collapsing_subtrees_is_not_enough() {
    assert_snapshot!(drawn(&tree(REVIEW), 60, Some(10)), @"
    ▾ Review 1m23s
      ✓ Survey 2.5s  10 files
      ▾ Hot files 1m19s
        ✓ 2 done
        ✗ src/c.rs 2.5s  grep: no such file
        ⠋ src/d.rs 1m15s  read src/d.rs
        ↻ src/e.rs 1m14s  attempt 2 in 3s
        · 2 waiting
      · Report
    1m23s · 5 of 12 done · 1 running · 1 to be retried · 1 fail…
    ");
}

#[test]
fn only_running_and_failed_nodes_stay_in_a_short_tree() {
    assert_snapshot!(drawn(&tree(REVIEW), 60, Some(7)), @"
    ▾ Review 1m23s
      ▾ Hot files 1m19s
        ✗ src/c.rs 2.5s  grep: no such file
        ⠋ src/d.rs 1m15s  read src/d.rs
        ↻ src/e.rs 1m14s  attempt 2 in 3s
    1m23s · 5 of 12 done · 1 running · 1 to be retried · 1 fail…
    ");
}

#[test]
fn minimal_tree_counts_omitted_nodes() {
    assert_snapshot!(drawn(&tree(REVIEW), 40, Some(4)), @"
    ▾ Review 1m23s
      ▾ Hot files 1m19s
    … 3 more
    1m23s · 5 of 12 done · 1 running · 1 to…
    ");
    assert_snapshot!(drawn(&tree(REVIEW), 40, Some(1)), @"1m23s · 5 of 12 done · 1 running · 1 to…");
}

#[test]
fn long_tree_line_is_cut_at_the_terminal_width() {
    let long = "run A title that goes on for longer than anybody reads | and a note as well";
    assert_snapshot!(drawn(&tree(long), 30, Some(5)), @"
    ⠋ A title that goes on … 1m23s
    1m23s
    ");
    let wide = "run 線程線程線程線程線程線程線程線程線程線程 | x";
    assert_snapshot!(drawn(&tree(wide), 30, Some(5)), @"
    ⠋ 線程線程線程線程線程… 1m23s
    1m23s
    ");
}

#[test]
fn every_outcome_has_its_own_mark_in_the_tree() {
    let all = "
part Everything
  ok Done
  part Half
  skip Not begun
  gone Stopped
  fail Broken
";
    assert_snapshot!(drawn(&tree(all), 80, None), @"
    ◐ Everything 2.5s
      ✓ Done 2.5s
      ◐ Half 2.5s
      - Not begun 2.5s
      ⊘ Stopped 2.5s
      ✗ Broken 2.5s
    2.5s · 1 of 5 done · 1 partial · 1 failed · 1 skipped · 1 cancelled
    ");
}

#[test]
fn drawn_tree_never_exceeds_the_terminal_height() {
    // Every shape of depth and mark in turn, by counting.
    let marks = ["wait", "run", "in", "ok", "fail", "again"];
    for seed in 0..500_usize {
        let mut text = "in Root\n".to_owned();
        let mut depth = 0;
        for step in 0..(seed % 40) {
            let draw = (seed * 31 + step * 17) % 97;
            depth = (1 + draw % 3).min(depth + 1);
            text.push_str(&format!(
                "{:indent$}{} n{step}\n",
                "",
                marks[draw % marks.len()],
                indent = depth * 2
            ));
        }
        let nodes = tree(&text);
        for height in [1, 2, 3, 5, 8, 13, 24] {
            let shown = drawn(&nodes, 40, Some(height));
            assert!(!shown.is_empty(), "{text}");
        }
    }
}

#[test]
fn tree_durations_are_short_and_readable() {
    let cases = [
        (0, "0.0s"),
        (349, "0.3s"),
        (12_345, "12.3s"),
        (123_000, "2m03s"),
        (3_725_000, "1h02m"),
    ];
    for (millis, wanted) in cases {
        assert_eq!(seconds(Duration::from_millis(millis)), wanted);
    }
}

#[test]
fn cost_of_a_part_stands_between_its_time_and_its_note() {
    let mut nodes = tree("in All\n  ok Count | three files");
    nodes[1].cost = "1200 tokens".to_owned();
    let text = drawn(&nodes, 80, None);
    assert!(text.contains("Count 2.5s · 1200 tokens  three files"), "{text}");
}
