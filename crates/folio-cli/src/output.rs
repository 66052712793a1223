//! The one place that writes to the terminal.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};

use folio::memory::Warning;
use serde::Serialize;

use crate::arguments::{Color, Global};
use crate::error::Failure;

/// Where answers, notes and failures go, and in which form.
///
/// Data goes to standard output, everything else to standard error: notes and warnings for people, and
/// failures, which are one line of JSON if JSON was asked for.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    verbose: bool,
    color: Color,
}

/// What an answer looks like to people and to programs.
pub(crate) trait Report: Serialize {
    /// Writes it for people, ending with a newline unless it is empty.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result;
}

/// How text may stand out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    color: bool,
}

impl Style {
    /// `text` in a colour, or as it is.
    fn wrapped(self, code: &str, text: impl fmt::Display) -> String {
        let text = text.to_string();
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text
        }
    }

    /// For what is in the way.
    pub(crate) fn faint(self, text: impl fmt::Display) -> String {
        self.wrapped("2", text)
    }

    /// For names.
    pub(crate) fn strong(self, text: impl fmt::Display) -> String {
        self.wrapped("1", text)
    }

    /// For what is wrong.
    pub(crate) fn bad(self, text: impl fmt::Display) -> String {
        self.wrapped("31", text)
    }

    /// For what wants attention.
    pub(crate) fn warning(self, text: impl fmt::Display) -> String {
        self.wrapped("33", text)
    }

    /// For what is well.
    pub(crate) fn good(self, text: impl fmt::Display) -> String {
        self.wrapped("32", text)
    }
}

impl Output {
    /// As the command line says, until the settings are known.
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color: global.color.unwrap_or_default(),
        }
    }

    /// Uses colour as the settings say.
    pub(crate) fn set_color(&mut self, color: Color) {
        self.color = color;
    }

    /// Whether programs read the answer.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether nobody wants to see progress.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// How text on standard output may stand out.
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
        self.text(&text)
    }

    /// Writes one JSON document.
    pub(crate) fn document(&self, document: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string_pretty(document).map_err(|_| unwritable())?;
        text.push('\n');
        self.text(&text)
    }

    /// Writes one line of JSON: one of a stream.
    pub(crate) fn line(&self, line: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string(line).map_err(|_| unwritable())?;
        text.push('\n');
        self.text(&text)
    }

    /// Writes text as it is to standard output.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::cannot("write to", "standard output", error))
    }

    /// Tells people something that is not the answer.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if !self.quiet && !self.json {
            self.tell(&text.to_string());
        }
    }

    /// Tells people what they are to do, however little they want to hear: without it nothing goes on.
    pub(crate) fn ask(&self, text: impl fmt::Display) {
        self.tell(&text.to_string());
    }

    /// Tells people what is used, if they asked for it.
    pub(crate) fn detail(&self, text: impl fmt::Display) {
        if self.verbose {
            self.tell(&text.to_string());
        }
    }

    /// Tells people what was put right. Programs find it in the answer.
    pub(crate) fn warnings(&self, warnings: &[Warning]) {
        let style = self.error_style();
        for Warning {
            code,
            message,
            given,
            used,
        } in warnings
        {
            let values = if given.is_empty() {
                String::new()
            } else {
                format!(" (given {given}, used {used})")
            };
            self.note(format_args!("{} {message}{values} [{code}]", style.warning("warning:")));
        }
    }

    /// Tells why nothing came of it.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            self.tell(&failure.problem().to_string());
        } else {
            let text = failure.to_string();
            self.tell(&text.replacen("error:", &self.error_style().bad("error:"), 1));
        }
    }

    /// How text on standard error may stand out.
    pub(crate) fn error_style(&self) -> Style {
        Style {
            color: !self.json && self.allows_color(std::io::stderr().is_terminal()),
        }
    }

    fn tell(&self, text: &str) {
        // If standard error is closed, nobody is left to tell.
        let _unwritten = writeln!(std::io::stderr().lock(), "{text}");
    }
}

fn unwritable() -> Failure {
    Failure::new(
        crate::error::Exit::Damaged,
        "unwritable",
        "the answer cannot be put into words",
    )
}
