//! The one place that writes to the terminal.

use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};

use folio::memory::Warning;
use folio::memory::view::strip_unsafe_chars;
use serde::Serialize;

use crate::again::Again;
use crate::arguments::{Color, Global};
use crate::error::{Exit, Failure};

/// Where answers, notes and failures go, and in which format.
///
/// Data goes to standard output, everything else to standard error: notes and warnings for people, and
/// failures, which are one line of JSON if JSON was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    verbose: bool,
    color: Color,
    /// Whether the terminal, if there is one, cannot move its cursor.
    is_dumb: bool,
    /// What commands that are offered have to repeat.
    again: Again,
}

/// An answer, for people and for programs.
pub(crate) trait Report: Serialize {
    /// Writes the answer for people, ending with a newline unless it is empty.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result;

    /// Whether the text is one that people edit and hand back, or part of something stored: then every character of it
    /// is kept.
    fn is_source(&self) -> bool {
        false
    }
}

/// How text may be highlighted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    color: bool,
}

impl Style {
    /// `text` in a colour, or unchanged.
    fn wrapped(self, code: &str, text: impl fmt::Display) -> String {
        let text = text.to_string();
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text
        }
    }

    /// For secondary text.
    pub(crate) fn faint(self, text: impl fmt::Display) -> String {
        self.wrapped("2", text)
    }

    /// For names.
    pub(crate) fn strong(self, text: impl fmt::Display) -> String {
        self.wrapped("1", text)
    }

    /// For errors.
    pub(crate) fn bad(self, text: impl fmt::Display) -> String {
        self.wrapped("31", text)
    }

    /// For warnings.
    pub(crate) fn warning(self, text: impl fmt::Display) -> String {
        self.wrapped("33", text)
    }

    /// For successes.
    pub(crate) fn good(self, text: impl fmt::Display) -> String {
        self.wrapped("32", text)
    }
}

impl Output {
    /// Follows the command line, until the settings are known.
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color: global.color.unwrap_or_default(),
            is_dumb: false,
            again: Again::default(),
        }
    }

    /// Uses colour as the settings say.
    pub(crate) fn set_color(&mut self, color: Color) {
        self.color = color;
    }

    /// Takes the terminal for one that cannot move its cursor.
    pub(crate) fn set_dumb(&mut self, is_dumb: bool) {
        self.is_dumb = is_dumb;
    }

    /// Has commands that are offered repeat `again`.
    pub(crate) fn set_again(&mut self, again: Again) {
        self.again = again;
    }

    /// `advice` with everything that its commands have to repeat.
    pub(crate) fn again(&self, advice: &str) -> String {
        self.again.add_to(advice).into_owned()
    }

    /// The options that a command which is offered has to repeat; empty, or beginning with a space.
    pub(crate) fn options(&self) -> &str {
        self.again.options()
    }

    /// Prints a note that offers commands.
    pub(crate) fn advise(&self, advice: impl fmt::Display) {
        self.note(self.again(&advice.to_string()));
    }

    /// Whether lines on standard error can be drawn over: it is a terminal, and not one like a sheet of paper.
    pub(crate) fn can_redraw(&self) -> bool {
        !self.is_dumb && std::io::stderr().is_terminal()
    }

    /// Whether programs read the answer.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether progress is not to be shown.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// How text on standard output may be highlighted.
    pub(crate) fn style(&self) -> Style {
        Style {
            color: !self.json && self.allows_color(std::io::stdout().is_terminal()),
        }
    }

    fn allows_color(&self, terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal,
        }
    }

    /// Writes an answer: text, or one JSON document.
    pub(crate) fn report(&self, report: &impl Report) -> Result<(), Failure> {
        if self.json {
            return self.document(report);
        }
        let mut text = String::new();
        report
            .text(&mut text, self.style())
            .map_err(|fmt::Error| unwritable())?;
        if report.is_source() {
            self.text(&text)
        } else {
            self.styled(&text)
        }
    }

    /// Writes a part of an answer, highlighted as [`Self::style`] says.
    pub(crate) fn styled(&self, text: &str) -> Result<(), Failure> {
        self.write(&displayed(text, self.style()))
    }

    /// Writes an answer after which the program ends with `exit`, even if the reader of the output has seen enough.
    pub(crate) fn report_ending(&self, report: &impl Report, exit: Exit) -> Result<Exit, Failure> {
        match self.report(report) {
            Err(failure) if !failure.is_closed_pipe() => Err(failure),
            _ => Ok(exit),
        }
    }

    /// Writes one JSON document.
    pub(crate) fn document(&self, document: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string_pretty(document).map_err(|_| unwritable())?;
        text.push('\n');
        self.write(&text)
    }

    /// Writes one line of JSON, as part of a stream.
    pub(crate) fn line(&self, line: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string(line).map_err(|_| unwritable())?;
        text.push('\n');
        self.write(&text)
    }

    /// Says, in one line, that a program which goes on until it is stopped is ready: `text` for people, `line` for
    /// programs.
    pub(crate) fn ready(&self, text: &str, line: &impl Serialize) -> Result<(), Failure> {
        if self.json {
            return self.line(line);
        }
        self.text(&format!("{text}\n"))
    }

    /// Writes text that others wrote to standard output: unchanged to a file or a pipe; to a terminal without harmful
    /// characters and colours, and with a newline at the end.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        if std::io::stdout().is_terminal() {
            let mut text = strip_unsafe_chars(text).into_owned();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            self.write(&text)
        } else {
            self.write(text)
        }
    }

    #[expect(clippy::unused_self, reason = "only who has the output writes to it")]
    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::cannot("write to", "standard output", error))
    }

    /// Prints a note for people that is not part of the answer.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if !self.quiet && !self.json {
            self.print_note(&text.to_string());
        }
    }

    /// Prints for people what went wrong, even with `--quiet`. Programs find it in the answer.
    pub(crate) fn trouble(&self, text: impl fmt::Display) {
        if !self.json {
            self.print_note(&text.to_string());
        }
    }

    /// Prints what people have to do, even with `--quiet`: without it nothing continues.
    pub(crate) fn ask(&self, text: impl fmt::Display) {
        self.print_note(&text.to_string());
    }

    /// Prints which settings are used, if people asked for it.
    pub(crate) fn detail(&self, text: impl fmt::Display) {
        if self.verbose {
            self.print_note(&text.to_string());
        }
    }

    /// Prints what was corrected. Programs find it in the answer.
    pub(crate) fn warnings(&self, warnings: &[Warning]) {
        let style = self.error_style();
        for warning in warnings {
            let values = warning
                .values()
                .map_or_else(String::new, |(given, used)| format!(" (given {given}, used {used})"));
            let (called, Warning { code, message, .. }) = (style.warning("warning:"), warning);
            self.note(format_args!("{called} {message}{values} [{code}]"));
        }
    }

    /// Prints a failure.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            print_line(&failure.problem().to_string());
        } else {
            let (text, heading) = (failure.to_string(), failure.heading());
            self.print_note(&text.replacen(&heading, &self.error_style().bad(&heading), 1));
        }
    }

    /// How text on standard error may be highlighted.
    pub(crate) fn error_style(&self) -> Style {
        Style {
            color: !self.json && self.allows_color(std::io::stderr().is_terminal()),
        }
    }

    #[expect(clippy::unused_self, reason = "only who has the output writes to it")]
    fn print_note(&self, text: &str) {
        print_line(&safe_to_display(text));
    }
}

fn print_line(line: &str) {
    // If standard error is closed, there is nobody left to tell.
    let _unwritten = writeln!(std::io::stderr().lock(), "{line}");
}

/// `text` as it is safe to display: text by strangers loses control sequences, characters that change the direction of
/// writing, and invisible ones; Folio's own colours stay.
pub(crate) fn safe_to_display(text: &str) -> Cow<'_, str> {
    const COLOURS: [&str; 6] = ["[0m", "[1m", "[2m", "[31m", "[32m", "[33m"];
    if !text.contains('\u{1b}') {
        return strip_unsafe_chars(text);
    }
    let mut parts = text.split('\u{1b}');
    let mut shown = strip_unsafe_chars(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        if COLOURS.iter().any(|colour| part.starts_with(colour)) {
            shown.push('\u{1b}');
        }
        shown.push_str(&strip_unsafe_chars(part));
    }
    shown.into()
}

/// The same for a text in `style`: without colours of Folio's own, every colour in it is somebody else's.
fn displayed(text: &str, style: Style) -> Cow<'_, str> {
    match style.color {
        true => safe_to_display(text),
        false => strip_unsafe_chars(text),
    }
}

fn unwritable() -> Failure {
    Failure::new(Exit::Damaged, "unwritable", "the answer cannot be formatted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_controls_are_stripped_except_our_own_colours() {
        let style = Style { color: true };
        let ours = style.bad("error:");
        for (text, shown) in [
            ("a\u{1b}[2Jb\u{7}\u{9b}31mc\r\n\td", "a[2Jb31mc\n\td"),
            ("a\u{202e}b\u{2066}c\u{2069}\u{200f}d\u{e0041}", "abcd"),
            ("\u{1b}]0;title\u{7}x\u{1b}", "]0;titlex"),
            ("a family: 👨\u{200d}👩\u{200d}👧", "a family: 👨\u{200d}👩\u{200d}👧"),
            (&ours, &ours),
        ] {
            assert_eq!(safe_to_display(text), shown);
        }
        assert_eq!(displayed(&ours, style), ours);
        assert_eq!(displayed(&ours, Style { color: false }), "[31merror:[0m");
    }
}
