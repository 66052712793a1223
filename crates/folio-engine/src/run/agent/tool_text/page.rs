//! The lines that a model reads of an answer, and how they are cut.

use crate::lines::ends_line;
use crate::run::agent::sizes::{Need, shares};

/// How the lines that are left out are read.
#[derive(Debug)]
pub(super) enum Rest {
    /// By their numbers, with these words before `from_line=` and `to_line=`.
    FromLine(String),
    /// By their numbers, with these words before `lines=`.
    Lines(String),
    /// As lines of a field of this result.
    OfResult(&'static str),
    /// With a narrower call, in these words.
    Narrower(&'static str),
}

/// Lines that may be cut.
#[derive(Debug)]
struct Rows {
    rows: Vec<String>,
    /// The number of the first one.
    first: u64,
    /// Whether they are the words of others, between fences.
    fence: Option<String>,
    rest: Rest,
}

/// What a model reads of an answer.
#[derive(Debug)]
pub(super) struct Page {
    notes: String,
    says_notes: bool,
    pieces: Vec<Rows>,
}

impl Page {
    pub(super) fn new(notes: &str) -> Self {
        Self {
            notes: notes.to_owned(),
            says_notes: false,
            pieces: Vec::new(),
        }
    }

    pub(super) fn notes(&self) -> &str {
        &self.notes
    }

    /// Whether the notes need not be told.
    pub(super) fn says_notes(&self) -> bool {
        self.says_notes
    }

    /// Notes that the page says what the notes say.
    pub(super) fn replace_notes(&mut self) {
        self.says_notes = true;
    }

    /// Adds a line.
    pub(super) fn line(&mut self, line: String) {
        self.rows(vec![line], 1, Rest::Narrower(""));
    }

    /// Adds `name: value` if there is a value that the notes do not have.
    pub(super) fn said(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !self.notes.contains(value)) {
            self.line(format!("{name}: {}", super::fields::cell(&value.into())));
        }
    }

    /// Adds lines of which each is told apart by how it begins. The first one has the number `first`.
    pub(super) fn rows(&mut self, rows: Vec<String>, first: u64, rest: Rest) {
        self.add(&rows, first, None, rest);
    }

    fn add(&mut self, rows: &[String], first: u64, fence: Option<String>, rest: Rest) {
        let rows = rows.iter().map(|row| on_one_line(row)).collect();
        self.pieces.push(Rows {
            rows,
            first,
            fence,
            rest,
        });
    }

    /// Adds `text`, which others wrote, below `label`; nothing if it is empty.
    pub(super) fn quote(&mut self, label: &str, text: &str, rest: Rest) {
        if text.is_empty() {
            return;
        }
        if !label.is_empty() {
            self.line(format!("{label}:"));
        }
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
        let fence = "`".repeat((longest + 1).max(3));
        self.add(&lines_of(text), 1, Some(fence), rest);
    }

    /// All of it in about `max` characters. What there is no room for is left out at ends of lines, with words that say
    /// how it is read: `rest`, or those of the piece.
    pub(super) fn cut_to(self, max: usize, rest: &str) -> String {
        let needs: Vec<Need> = self
            .pieces
            .iter()
            .map(|piece| Need {
                chars: piece.chars(),
                weight: 1,
            })
            .collect();
        let all: usize = needs.iter().map(|need| need.chars).sum();
        let rooms = match all <= max {
            true => vec![usize::MAX; needs.len()],
            false => shares(&needs, max),
        };
        let texts = self
            .pieces
            .iter()
            .zip(rooms)
            .map(|(piece, room)| piece.cut_to(room, rest));
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The lines of a text, without their ends; what follows the last end is a line if it is not empty.
pub(super) fn lines_of(text: &str) -> Vec<String> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n').map(str::to_owned).collect()
}

/// `line`, in which other characters that end a line are written out: nothing in it stands on a line of its own.
fn on_one_line(line: &str) -> String {
    // The ends of lines of some files.
    let (line, end) = line.strip_suffix('\r').map_or((line, ""), |line| (line, "\r"));
    if !line.contains(ends_line) {
        return format!("{line}{end}");
    }
    let written = line.chars().map(|c| match ends_line(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    written.chain([end.to_owned()]).collect()
}

impl Rows {
    fn chars(&self) -> usize {
        self.rows.iter().map(|row| row.chars().count() + 1).sum()
    }

    fn cut_to(&self, room: usize, rest: &str) -> String {
        if self.chars() <= room {
            return self.fenced(&self.rows);
        }
        // A line that takes most of the room is cut, so that others have some.
        let row_max = if self.rows.len() == 1 { room } else { room / 2 };
        let rows: Vec<String> = self.rows.iter().map(|row| within(row, row_max, rest)).collect();
        let fitting = |rows: &mut dyn Iterator<Item = &String>, room: usize| {
            let mut left = room;
            rows.take_while(|row| {
                let chars = row.chars().count() + 1;
                let fits = chars <= left;
                left = left.saturating_sub(chars);
                fits
            })
            .count()
        };
        let head = fitting(&mut rows.iter(), room * 2 / 3).max(1);
        let tail = fitting(&mut rows[head..].iter().rev(), room / 3);
        let end = rows.len() - tail;
        if head == end {
            return self.fenced(&rows);
        }
        let (from, to) = (self.first + head as u64, self.first + end as u64 - 1);
        let hint = self.hint(from, to, rest);
        let semicolon = if hint.is_empty() { "" } else { "; " };
        let last = self.first + rows.len() as u64 - 1;
        let of = match self.rest {
            // Their numbers are those of a file or result that may have more lines.
            Rest::FromLine(_) | Rest::Lines(_) => String::new(),
            Rest::OfResult(_) | Rest::Narrower(_) => format!(" of {last}"),
        };
        let notice = format!("[lines {from} to {to}{of} left out{semicolon}{hint}]");
        let mut parts = vec![self.fenced(&rows[..head]), notice];
        parts.extend((tail > 0).then(|| self.fenced(&rows[end..])));
        parts.join("\n")
    }

    fn fenced(&self, rows: &[String]) -> String {
        let text = rows.join("\n");
        match &self.fence {
            Some(fence) => format!("{fence}\n{text}\n{fence}"),
            None => text,
        }
    }

    /// How the lines `from` to `to` are read; empty if the reader cannot read them.
    fn hint(&self, from: u64, to: u64, rest: &str) -> String {
        if rest.is_empty() {
            return String::new();
        }
        match &self.rest {
            Rest::FromLine(call) => format!("use {call} from_line={from} to_line={to}"),
            Rest::Lines(call) => format!("use {call} lines={from}-{to}"),
            Rest::OfResult(field) => format!("{rest} field={field} lines={from}-{to}"),
            Rest::Narrower("") => rest.to_owned(),
            Rest::Narrower(how) => format!("{how}, or {rest}"),
        }
    }
}

/// `row` in about `max` characters, and how many are left out of its middle.
fn within(row: &str, max: usize, rest: &str) -> String {
    let all = row.chars().count();
    if all <= max {
        return row.to_owned();
    }
    let (head, tail) = (max * 2 / 3, max / 3);
    let begin: String = row.chars().take(head).collect();
    let end: String = row.chars().skip(all - tail).collect();
    let semicolon = if rest.is_empty() { "" } else { "; " };
    let left_out = all - head - tail;
    format!("{begin} […{left_out} of {all} characters of this line left out{semicolon}{rest}…] {end}")
}
