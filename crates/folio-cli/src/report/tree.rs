//! A run as a tree, for people: as many lines as there is room for, always including the work under way.

use std::fmt::Write as _;
use std::time::Duration;

use folio::Timestamp;
use folio::memory::excerpt::one_line;

use crate::output::Style;

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It waits for what comes before it.
    Waiting,
    /// It waits for a person's answer or approval.
    Asking,
    /// Somebody paused it.
    Paused,
    /// It is running.
    Running,
    /// Its children are running.
    Inside,
    /// It failed and will be tried again.
    Retrying,
    /// It is being stopped.
    Stopping,
    /// It is done.
    Ok,
    /// A part of it is done.
    Partial,
    /// It was not begun.
    Skipped,
    /// It was stopped.
    Cancelled,
    /// It failed.
    Failed,
    /// Another version of the plan superseded it, whatever its result.
    Replaced,
}

impl Mark {
    /// Whether it has a result.
    pub(crate) fn is_finished(self) -> bool {
        matches!(
            self,
            Self::Ok | Self::Partial | Self::Skipped | Self::Cancelled | Self::Failed | Self::Replaced
        )
    }

    /// Whether it matters more than others to somebody looking at the tree.
    fn stands_out(self) -> bool {
        matches!(
            self,
            Self::Running
                | Self::Asking
                | Self::Paused
                | Self::Retrying
                | Self::Stopping
                | Self::Failed
                | Self::Partial
        )
    }

    fn shown(self, style: Style, tick: usize) -> String {
        const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        match self {
            Self::Waiting => style.faint("·"),
            Self::Asking => style.warning("?"),
            Self::Paused => style.warning("‖"),
            Self::Running => style.warning(SPINNER[tick % SPINNER.len()]),
            Self::Inside => style.faint("▾"),
            Self::Retrying => style.warning("↻"),
            Self::Stopping => style.warning("■"),
            Self::Ok => style.good("✓"),
            Self::Partial => style.warning("◐"),
            Self::Skipped => style.faint("-"),
            Self::Cancelled => style.faint("⊘"),
            Self::Failed => style.bad("✗"),
            Self::Replaced => style.faint("↷"),
        }
    }
}

/// A node of a run, as far as the tree shows it. A tree is a list of them, parents before children.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Its depth below the root.
    pub(crate) depth: usize,
    /// Its title.
    pub(crate) title: String,
    /// Its state.
    pub(crate) mark: Mark,
    /// When it began.
    pub(crate) started_at: Option<Timestamp>,
    /// When it ended.
    pub(crate) finished_at: Option<Timestamp>,
    /// What it and everything below it cost, in a few words; empty if nothing, or if that is not to be shown.
    pub(crate) cost: String,
    /// What it does, or its outcome, in a few words.
    pub(crate) note: String,
}

impl Node {
    /// The first node of a tree whose top is not part of it.
    pub(crate) fn unnamed() -> Self {
        Self {
            depth: 0,
            title: String::new(),
            mark: Mark::Inside,
            started_at: None,
            finished_at: None,
            cost: String::new(),
            note: String::new(),
        }
    }
}

/// The available room, and the moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// The present instant.
    pub(crate) now: Timestamp,
    /// The width in columns.
    pub(crate) width: usize,
    /// The height in lines; `None` for as many as needed.
    pub(crate) height: Option<usize>,
    /// The number of the picture, for the spinner.
    pub(crate) tick: usize,
    /// How text may be highlighted.
    pub(crate) style: Style,
}

/// Draws `nodes`, one line each, and a last line that counts them.
///
/// If that exceeds the height of `frame`, finished subtrees become one line each; then neighbours that are finished or
/// waiting do; then only what is running or went wrong stays, with what it is part of.
pub(crate) fn draw(nodes: &[Node], frame: Frame) -> Vec<String> {
    let max_rows = frame.height.map_or(usize::MAX, |height| height.saturating_sub(1));
    if max_rows == 0 {
        return vec![counts(nodes, frame)];
    }
    let all = || (0..nodes.len()).map(Row::Node).collect::<Vec<_>>();
    let mut rows = all();
    if rows.len() > max_rows {
        rows = without_finished_insides(nodes);
    }
    if rows.len() > max_rows {
        rows = with_merged_neighbours(nodes, &rows);
    }
    if rows.len() > max_rows {
        rows = only_what_matters(nodes);
    }
    if rows.len() > max_rows {
        let left_out = rows.len() - max_rows + 1;
        rows.truncate(max_rows - 1);
        rows.push(Row::More(left_out));
    }
    let mut lines: Vec<_> = rows.iter().map(|row| line(nodes, row, frame)).collect();
    lines.push(counts(nodes, frame));
    lines
}

/// One line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    /// A node, by its position.
    Node(usize),
    /// Similar neighbours: how many, their state and their depth.
    Alike(usize, Mark, usize),
    /// The number of lines for which there is no room.
    More(usize),
}

fn without_finished_insides(nodes: &[Node]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut hidden_below = usize::MAX;
    for (position, node) in nodes.iter().enumerate() {
        if node.depth > hidden_below {
            continue;
        }
        hidden_below = if node.mark.is_finished() {
            node.depth
        } else {
            usize::MAX
        };
        rows.push(Row::Node(position));
    }
    rows
}

fn with_merged_neighbours(nodes: &[Node], rows: &[Row]) -> Vec<Row> {
    // What is combined in one line: nodes that finished well, or have not begun.
    let alike = |row: &Row| match row {
        Row::Node(position) => match nodes[*position].mark {
            mark @ (Mark::Ok | Mark::Skipped | Mark::Cancelled | Mark::Waiting | Mark::Replaced) => {
                Some((mark, nodes[*position].depth))
            }
            _ => None,
        },
        _ => None,
    };
    let groups = rows.chunk_by(|a, b| alike(a).is_some() && alike(a) == alike(b));
    let merged = groups.flat_map(|group| match (alike(&group[0]), group.len()) {
        (Some((mark, depth)), count @ 2..) => vec![Row::Alike(count, mark, depth)],
        _ => group.to_vec(),
    });
    merged.collect()
}

fn only_what_matters(nodes: &[Node]) -> Vec<Row> {
    let mut keep = vec![false; nodes.len()];
    let mut above: Vec<usize> = Vec::new();
    for (position, node) in nodes.iter().enumerate() {
        while above.last().is_some_and(|last| nodes[*last].depth >= node.depth) {
            above.pop();
        }
        // Inside a finished node, nothing is running, and the node itself tells how it went.
        let inside_finished = above.iter().any(|ancestor| nodes[*ancestor].mark.is_finished());
        if node.mark.stands_out() && !inside_finished {
            keep[position] = true;
            above.iter().for_each(|ancestor| keep[*ancestor] = true);
        }
        above.push(position);
    }
    (0..nodes.len())
        .filter(|position| keep[*position])
        .map(Row::Node)
        .collect()
}

fn line(nodes: &[Node], row: &Row, frame: Frame) -> String {
    let style = frame.style;
    match row {
        Row::Node(position) => {
            let node = &nodes[*position];
            let time = match (node.started_at, node.finished_at) {
                (Some(start), Some(end)) => Some(end.since(start)).filter(|time| time.as_millis() >= 100),
                (Some(start), None) => Some(frame.now.since(start)),
                (None, _) => None,
            };
            let mut time = time.map_or_else(String::new, |time| format!(" {}", seconds(time)));
            if !node.cost.is_empty() {
                time.push_str(&format!(" · {}", node.cost));
            }
            let indent = node.depth * 2;
            // The mark and a space take two columns; the title gets what it needs, the note the rest.
            let available = frame.width.saturating_sub(indent + 2 + time.len());
            let title = cut(&node.title, available);
            let note = node.note.trim();
            let available = available.saturating_sub(columns(&title) + 2);
            let note = if note.is_empty() || available < 8 {
                String::new()
            } else {
                format!("  {}", cut(note, available))
            };
            let mark = node.mark.shown(style, frame.tick);
            let title = match node.mark {
                Mark::Failed => style.bad(title),
                Mark::Running | Mark::Retrying | Mark::Stopping => style.strong(title),
                Mark::Waiting | Mark::Skipped | Mark::Cancelled | Mark::Replaced => style.faint(title),
                _ => title,
            };
            format!("{:indent$}{mark} {title}{}{}", "", style.faint(time), style.faint(note))
        }
        Row::Alike(count, mark, depth) => {
            let indent = depth * 2;
            let label = match mark {
                Mark::Ok => "done",
                Mark::Skipped => "skipped",
                Mark::Cancelled => "cancelled",
                Mark::Replaced => "replaced",
                _ => "waiting",
            };
            let text = style.faint(format_args!("{count} {label}"));
            format!("{:indent$}{} {text}", "", mark.shown(style, frame.tick))
        }
        Row::More(count) => style.faint(format_args!("… {count} more")),
    }
}

/// `12.3s · 12 of 40 done · 3 running · 1 failed`: each node counts once, as done only if it is ok. The root of the run
/// is not counted.
fn counts(nodes: &[Node], frame: Frame) -> String {
    let count = |is_counted: &dyn Fn(Mark) -> bool| nodes.iter().skip(1).filter(|node| is_counted(node.mark)).count();
    let total = nodes.len().saturating_sub(1);
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(root) = nodes.first()
        && let Some(start) = root.started_at
    {
        let _ = write!(
            text,
            "{} · ",
            seconds(root.finished_at.unwrap_or(frame.now).since(start))
        );
    }
    if total > 0 {
        let _ = write!(text, "{} of {total} done", count(&|mark| mark == Mark::Ok));
    } else {
        // A goal that a model works on has no parts yet, or never gets any.
        text.truncate(text.trim_end_matches(" · ").len());
    }
    let parts: [(&str, &dyn Fn(Mark) -> bool); 7] = [
        ("running", &|mark| mark == Mark::Running || mark == Mark::Stopping),
        ("to be retried", &|mark| mark == Mark::Retrying),
        ("partial", &|mark| mark == Mark::Partial),
        ("failed", &|mark| mark == Mark::Failed),
        ("skipped", &|mark| mark == Mark::Skipped),
        ("cancelled", &|mark| mark == Mark::Cancelled),
        ("replaced", &|mark| mark == Mark::Replaced),
    ];
    for (name, is_counted) in parts {
        match count(is_counted) {
            0 => {}
            count => {
                let _ = write!(text, " · {count} {name}");
            }
        }
    }
    frame.style.faint(cut(&text, frame.width))
}

/// A duration for people: `0.3s`, `12.3s`, `2m03s`, `1h02m`.
pub(crate) fn seconds(time: Duration) -> String {
    let total_seconds = time.as_secs();
    match total_seconds {
        0..60 => format!("{total_seconds}.{}s", time.subsec_millis() / 100),
        60..3600 => format!("{}m{:02}s", total_seconds / 60, total_seconds % 60),
        _ => format!("{}h{:02}m", total_seconds / 3600, total_seconds / 60 % 60),
    }
}

/// `text` in one line of at most `width` columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = one_line(&super::printable(text));
    if columns(&text) <= width {
        return text;
    }
    let mut used = 1;
    let kept = text.chars().take_while(|c| {
        used += column_count(*c);
        used <= width
    });
    let mut kept: String = kept.collect();
    if width > 0 {
        kept.push('…');
    }
    kept
}

fn columns(text: &str) -> usize {
    text.chars().map(column_count).sum()
}

/// An upper bound of the columns that a character takes: a line that turns out longer than the terminal is wide spoils
/// the picture, a shorter one does not.
fn column_count(c: char) -> usize {
    match c {
        '\0'..='\u{10ff}' | '\u{2010}'..='\u{28ff}' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests;
