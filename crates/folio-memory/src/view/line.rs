//! An entry as one line (M7.8 V4), at three lengths.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::actor::Trust;
use crate::counted::percent;
use crate::entry::{Entry, EntryKind};
use crate::excerpt::{self, MORE, cut};
use crate::patterns::seen_often;
use crate::scratchbook::short_title;
use crate::text::is_ignored;

/// The maximum number of characters of text in a full, a short and a head line.
const CHARS: [usize; 3] = [480, 140, 48];
/// The maximum number of characters of a phase.
const PHASE_CHARS: usize = 40;
/// The maximum number of tags in a full, a short and a head line.
const TAGS: [usize; 3] = [8, 3, 0];

/// The part of a request in which a model reads a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Audience {
    /// A message, beside what people and tools say.
    #[default]
    Message,
    /// The system prompt. Content from strangers is not quoted there; the line only says that it exists (M7.8 V11).
    System,
}

/// Something that may be shown, at three lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The name by which it can be requested: `e42`, `p7`, `t3`. Each line begins with it.
    pub name: String,
    /// The full line, the short line, and the shortest that makes sense.
    pub lengths: [String; 3],
    /// Whether even the full line shows only a part of the content.
    pub cut: bool,
    /// The names of equal entries that have no line of their own.
    pub folded: Vec<String>,
}

impl Candidate {
    /// Creates a candidate from one line, which begins with its name and is cut where there is no room.
    #[must_use]
    pub fn of_line(name: impl Into<String>, line: &str) -> Self {
        let line = one_line(line);
        let lengths = [480, 140, 64].map(|chars| cut(&line, chars));
        Self {
            name: name.into(),
            cut: lengths[0] != line,
            lengths,
            folded: Vec::new(),
        }
    }
}

/// Whether the content of `entry` comes from strangers.
#[must_use]
pub fn is_untrusted(entry: &Entry) -> bool {
    entry.fields.trust <= Trust::ToolExternal
}

/// The candidate for `entry` in a message.
#[must_use]
pub fn candidate(entry: &Entry) -> Candidate {
    candidate_for(entry, Audience::Message, 1)
}

/// The candidate for `entry` in a view: `e42 [task/in_progress] title (phase, 60%) — body… #tag`.
///
/// The line of an observation shows its confidence, and that of a pattern or a fact also how often it was seen. Content from strangers is put in quotation marks with its origin,
/// or is not quoted at all for [`Audience::System`]. If `times` is more than one, the line says how many entries are
/// equal to it. Lines contain no instants but the day on which a pattern was last seen, so the same state gives the same
/// bytes.
#[must_use]
pub fn candidate_for(entry: &Entry, audience: Audience, times: usize) -> Candidate {
    let mut is_cut = false;
    let lengths = [0, 1, 2].map(|length| {
        let (line, less) = line(entry, length, audience, times);
        is_cut |= less && length == 0;
        line
    });
    Candidate {
        name: entry.handle.to_string(),
        lengths,
        cut: is_cut,
        folded: Vec::new(),
    }
}

/// The line at one of the lengths, and whether it shows less than the whole content.
fn line(entry: &Entry, length: usize, audience: Audience, times: usize) -> (String, bool) {
    let (fields, chars, is_head) = (&entry.fields, CHARS[length], length == 2);
    let kind = fields
        .type_name
        .as_deref()
        .filter(|_| entry.kind == EntryKind::Observation);
    let mut line = format!(
        "{} [{}/{}]",
        entry.handle,
        kind.unwrap_or(entry.kind.as_str()),
        fields.status
    );
    let is_quoted = is_untrusted(entry);
    let is_silent = is_quoted && audience == Audience::System;
    let title = one_line(&fields.title);
    let body = one_line(&beyond_title(&fields.title, &fields.body));
    let mut is_incomplete = false;
    let mut shorten = |text: &str, chars: usize| {
        let part = cut(text, chars);
        is_incomplete |= part != text;
        if is_quoted { quoted(&part) } else { part }
    };
    if !title.is_empty() && !is_silent {
        let _infallible = write!(line, " {}", shorten(&title, chars));
    }
    // Where there is room for little, it still says what strangers wrote (V11).
    let remarks = if is_head && !is_silent {
        external_source(entry, is_silent).unwrap_or_default()
    } else {
        remarks(entry, is_silent)
    };
    // Writing to a string cannot fail.
    let _infallible = match (remarks.is_empty(), times > 1) {
        (true, false) => Ok(()),
        (true, true) => write!(line, " (×{times})"),
        (false, false) => write!(line, " ({remarks})"),
        (false, true) => write!(line, " (×{times}, {remarks})"),
    };
    let body_chars = chars.saturating_sub(title.chars().count());
    if is_silent {
        return (line, true);
    }
    if title.is_empty() && !body.is_empty() {
        let _infallible = write!(line, " {}", shorten(&body, chars));
    } else if !body.is_empty() {
        if is_head || body_chars <= 20 {
            is_incomplete = true;
        } else {
            let _infallible = write!(line, " — {}", shorten(&body, body_chars));
        }
    }
    is_incomplete |= fields.body_ref.is_some() || fields.tags.len() > TAGS[length];
    for tag in fields.tags.iter().take(TAGS[length]) {
        let tag = one_line(tag.as_str());
        let tag = if is_quoted { quoted(&tag) } else { tag };
        let _infallible = write!(line, " #{tag}");
    }
    (line, is_incomplete)
}

/// Puts `text`, which a stranger wrote, in quotation marks, and replaces quotation marks in it so that none can be
/// taken for the closing one.
#[must_use]
pub(super) fn quoted(text: &str) -> String {
    let marks = ['"', '\u{201c}', '\u{201d}', '\u{201e}', '\u{201f}', '\u{ff02}'];
    format!("\"{}\"", text.replace(marks, "'"))
}

/// The phase and progress of a task, how often a pattern was seen, the confidence of an observation, and the origin of content from outside.
pub(super) fn remarks(entry: &Entry, is_silent: bool) -> String {
    let fields = &entry.fields;
    let mut remarks: Vec<String> = Vec::new();
    if !is_silent {
        let phase = fields.phase.as_deref().map(one_line);
        remarks.extend(
            phase
                .filter(|phase| !phase.is_empty())
                .map(|phase| cut(&phase, PHASE_CHARS))
                .map(|phase| if is_untrusted(entry) { quoted(&phase) } else { phase }),
        );
    }
    // A todo is open or done, so its progress is not shown.
    let progress = fields.progress.filter(|_| entry.kind != EntryKind::Todo);
    remarks.extend(progress.map(percent));
    remarks.extend(seen_often(entry));
    if entry.kind == EntryKind::Observation {
        let confidence = fields.confidence.map(|confidence| percent(confidence.value()));
        remarks.extend(confidence.map(|confidence| format!("{confidence} sure")));
    }
    remarks.extend(external_source(entry, is_silent));
    if is_silent {
        remarks.push("read it to see it".to_owned());
    }
    remarks.join(", ")
}

/// Who wrote `entry`, if its text is from outside; `None` if it is not.
fn external_source(entry: &Entry, is_silent: bool) -> Option<String> {
    let fields = &entry.fields;
    let from = match fields.trust {
        Trust::Imported => "imported",
        Trust::ToolExternal => "from outside",
        Trust::ToolInternal | Trust::Model | Trust::User => return None,
    };
    let tool = fields
        .source
        .tool
        .as_deref()
        .map(one_line)
        // The tool named by an imported file is no more trustworthy than the rest of the file.
        .filter(|tool| !tool.is_empty() && (!is_silent || fields.trust != Trust::Imported))
        .map(|tool| cut(&tool, PHASE_CHARS));
    Some(match tool {
        Some(tool) if fields.trust == Trust::Imported => format!("{from}: {}", quoted(&tool)),
        Some(tool) => format!("{from}: {tool}"),
        None => from.to_owned(),
    })
}

/// The part of `body` that `title` does not show: a title that was derived from the text is its first line, or the
/// beginning of a long one.
#[must_use]
pub fn beyond_title<'t>(title: &str, body: &'t str) -> Cow<'t, str> {
    let body = body.trim_start();
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    let (line, title) = (one_line(first), one_line(title));
    if title.is_empty() {
        return body.into();
    }
    if line == title {
        return rest.into();
    }
    // Only a title that was cut where a derived one is stands for the words it begins with: somebody may have written
    // the mark.
    let stem = title
        .strip_suffix(MORE)
        .filter(|_| one_line(&short_title(first)) == title);
    match stem.and_then(|stem| line.strip_prefix(stem)) {
        Some(hidden) => format!("{hidden}\n{rest}").into(),
        None => body.into(),
    }
}

/// Returns `text` as one line: white space, including line ends, becomes single spaces, and characters are removed that
/// a terminal or a prompt would interpret, that change the writing direction, or that a model reads but a person does
/// not see.
#[must_use]
pub fn one_line(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && !text.contains("  ");
    if is_plain && !text.starts_with(' ') && !text.ends_with(' ') {
        return text.to_owned();
    }
    let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    excerpt::one_line(&strip_unsafe_chars(&spaced))
}

/// Returns `text` without characters that a terminal or a prompt would interpret, that change the writing direction, or
/// that a model reads but a person does not see. Line ends and tabs stay, and so do characters that join letters or
/// symbols.
#[must_use]
pub fn strip_unsafe_chars(text: &str) -> Cow<'_, str> {
    let is_harmless = |c: char| (!c.is_control() || matches!(c, '\n' | '\t')) && !is_bidi_control(c) && !is_unseen(c);
    if text.chars().all(|c| is_harmless(c) && !is_tag(c) && !is_variation(c)) {
        return text.into();
    }
    let flags = flags_in(text);
    let is_of_flag = |at: &usize| flags.iter().any(|flag| flag.contains(at));
    let mut kept = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let has_place = !is_variation(c) || kept.chars().next_back().is_some_and(|base| accepts_variation(base, c));
        if is_harmless(c) && has_place && (!is_tag(c) || is_of_flag(&at)) {
            kept.push(c);
        }
    }
    kept.into()
}

/// Whether nobody sees `c`, or it changes how the text around it is read: a control character, a line separator, what
/// changes the writing direction, and what has no width or shows nothing.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    let separates = matches!(c, '\u{2028}' | '\u{2029}');
    c.is_control() || separates || is_bidi_control(c) || has_no_width(c) || is_filler(c)
}

/// Whether `text` shows nothing: it is empty or has only white space and characters without a width (M7.3.29).
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_hidden(c))
}

/// Whether `c` has a width, but shows nothing.
fn is_filler(c: char) -> bool {
    matches!(
        c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
    )
}

fn has_no_width(c: char) -> bool {
    let is_annotation = matches!(c, '\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}');
    is_ignored(c) || is_unseen(c) || is_variation(c) || is_tag(c) || is_annotation
}

/// Whether `c` is invisible and joins nothing.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{180e}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether `c` is a variation selector. There are enough of them to spell out hidden text.
fn is_variation(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Whether `base` is a character that takes the variation selector `variation`: the last two select text or emoji
/// style, and the first ones are for mathematical and East Asian characters.
fn accepts_variation(base: char, variation: char) -> bool {
    let is_letter = base < '\u{2000}' && base.is_alphabetic();
    match variation {
        '\u{fe0e}' | '\u{fe0f}' => !is_letter && !is_variation(base) && !base.is_whitespace(),
        '\u{fe00}'..='\u{fe02}' => matches!(
            base,
            '\u{1000}'..='\u{109f}'
                | '\u{2190}'..='\u{2bff}'
                | '\u{3001}'..='\u{3002}'
                | '\u{3400}'..='\u{9fff}'
                | '\u{a840}'..='\u{a87f}'
                | '\u{ff01}'..='\u{ff1f}'
                | '\u{20000}'..='\u{323af}'
        ),
        _ => false,
    }
}

fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}')
}

/// Whether `c` is one of the tag characters, which mirror ASCII invisibly: they spell out the region of a flag, and
/// could spell out any hidden text.
fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// The ranges of `text` with tag characters that belong to a flag: up to six letters after a black flag, and the end
/// tag (England, Scotland, Wales).
fn flags_in(text: &str) -> Vec<std::ops::Range<usize>> {
    const BLACK: char = '\u{1f3f4}';
    const END: char = '\u{e007f}';
    const LETTERS: usize = 6;
    let begins = text.match_indices(BLACK).map(|(at, flag)| at + flag.len());
    let flags = begins.filter_map(|begin| {
        let tags = text[begin..].chars().take_while(|c| is_tag(*c));
        let tags: String = tags.take(LETTERS + 1).collect();
        tags.ends_with(END).then(|| begin..begin + tags.len())
    });
    flags.collect()
}
