//! The progress of a run: a live tree on a terminal, lines elsewhere, JSON lines for programs.

use std::io::Write as _;

use crossterm::cursor::{Hide, MoveToColumn, MoveUp, Show};
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use crossterm::{QueueableCommand as _, terminal};
use folio::Timestamp;
use folio::engine::spend::Purse;
use folio::engine::{Event, Run};

use crate::commands::budget::{use_in_words, warning_step};
use crate::error::Failure;
use crate::output::{Output, safe_to_display};
use crate::report::event::{EventLine, event_text};
use crate::report::nodes::Titles;
use crate::report::tree::{self, Frame};

/// Where the lines go when there is no terminal to draw on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// To standard output, as the answer.
    Answer,
    /// To standard error, beside the answer.
    Aside,
}

/// How a run is shown.
#[derive(Debug)]
pub(crate) enum Progress<'a> {
    /// Not at all.
    Silent,
    /// A line of JSON for each event.
    Json(&'a Output),
    /// A line of text for each event that matters to people.
    Lines(&'a Output, Lines),
    /// A tree that is redrawn.
    Tree(Box<Live<'a>>),
}

impl<'a> Progress<'a> {
    /// Chooses by the settings and the terminal.
    pub(crate) fn new(output: &'a Output, lines: Lines) -> Self {
        if output.is_json() {
            Self::Json(output)
        } else if output.is_quiet() && lines == Lines::Aside {
            Self::Silent
        } else if output.can_redraw() && !output.is_quiet() {
            Self::Tree(Box::new(Live {
                output,
                titles: Titles::default(),
                message: None,
                tick: 0,
                drawn: 0,
            }))
        } else {
            Self::Lines(output, lines)
        }
    }

    /// Shows what has happened: `events`, which were just applied to `run`.
    ///
    /// # Errors
    ///
    /// If the answer cannot be written.
    pub(crate) fn events(&mut self, run: &Run, events: &[(Timestamp, Event)]) -> Result<(), Failure> {
        for (at, event) in events {
            match self {
                Self::Silent | Self::Tree(_) => return Ok(()),
                Self::Json(output) => output.line(&EventLine::of(run, *at, event))?,
                Self::Lines(output, Lines::Answer) => {
                    if let Some(line) = event_text(run, *at, event, output.style()) {
                        output.styled(&format!("{line}\n"))?;
                    }
                }
                Self::Lines(output, Lines::Aside) => {
                    if let Some(line) = event_text(run, *at, event, output.error_style()) {
                        output.note(line);
                    }
                }
            }
        }
        Ok(())
    }

    /// Prints a note about the run while it is shown.
    pub(crate) fn show_note(&mut self, output: &Output, text: &str) {
        match self {
            Self::Tree(live) => live.message = Some(text.to_owned()),
            _ => output.note(text),
        }
    }

    /// The same for a note without which nothing would go on: it is printed even with `--quiet`.
    pub(crate) fn show_request(&mut self, output: &Output, text: &str) {
        match self {
            Self::Tree(live) => live.message = Some(text.to_owned()),
            _ => output.trouble(text),
        }
    }

    /// Removes a message from the tree; lines that were written stay.
    pub(crate) fn remove_note(&mut self, text: &str) {
        if let Self::Tree(live) = self {
            live.message.take_if(|message| message == text);
        }
    }

    /// Whether what is not an event is shown as a line of its own.
    pub(crate) fn has_notes(&self) -> bool {
        matches!(self, Self::Lines(..))
    }

    /// Whether nothing is shown.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Silent)
    }

    /// Whether it has to be redrawn regularly.
    pub(crate) fn needs_redraw(&self) -> bool {
        matches!(self, Self::Tree(_))
    }

    /// Draws the tree as it is at `now`.
    pub(crate) fn draw(&mut self, run: &Run, now: Timestamp) {
        if let Self::Tree(live) = self {
            live.draw(run, now);
        }
    }
}

/// A tree on the terminal that is redrawn in place, below everything that was written before.
#[derive(Debug)]
pub(crate) struct Live<'a> {
    output: &'a Output,
    titles: Titles,
    /// The message below the tree: a separate line would be overwritten.
    message: Option<String>,
    tick: usize,
    /// The number of lines drawn last.
    drawn: u16,
}

impl Live<'_> {
    fn draw(&mut self, run: &Run, now: Timestamp) {
        // Some terminals do not know their size.
        let size = terminal::size()
            .ok()
            .filter(|(width, height)| *width > 0 && *height > 0);
        let (width, height) = size.unwrap_or((80, 24));
        let style = self.output.error_style();
        let uses = uses_line(run).map(|line| style.warning(tree::cut(&line, usize::from(width).saturating_sub(1))));
        let below = usize::from(self.message.is_some()) + usize::from(uses.is_some());
        let frame = Frame {
            now,
            // The last column and line stay free: writing there makes some terminals scroll.
            width: usize::from(width).saturating_sub(1),
            height: Some(usize::from(height).saturating_sub(1 + below)),
            tick: self.tick,
            style,
        };
        self.tick += 1;
        let mut lines = tree::draw(&self.titles.nodes(run), frame);
        lines.extend(uses);
        lines.extend(self.message.clone());
        // If the terminal is gone, the run still goes on.
        let _undrawn = self.write_lines(&lines);
    }

    fn write_lines(&mut self, lines: &[String]) -> std::io::Result<()> {
        let mut terminal = std::io::stderr().lock();
        terminal
            .queue(BeginSynchronizedUpdate)?
            .queue(Hide)?
            .queue(MoveToColumn(0))?;
        if self.drawn > 0 {
            terminal.queue(MoveUp(self.drawn))?;
        }
        terminal.queue(Clear(ClearType::FromCursorDown))?;
        for line in lines {
            writeln!(terminal, "{}\r", safe_to_display(line))?;
        }
        terminal.queue(EndSynchronizedUpdate)?.flush()?;
        self.drawn = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        Ok(())
    }
}

/// How much of those limits of `run` and of its parts is used of which it is much; `None` if it is of none, and for a run
/// that has ended.
fn uses_line(run: &Run) -> Option<String> {
    let purse = run.purse().filter(|_| run.result().is_none())?;
    let much = |purse: &Purse| {
        let much = purse.uses().filter(|used| warning_step(*used).is_some());
        let much: Vec<String> = much.map(use_in_words).collect();
        (!much.is_empty()).then(|| much.join(", "))
    };
    let parts = run
        .limited_parts()
        .filter_map(|part| Some(format!("by {}: {}", part.path, much(part.purse?)?)));
    let all: Vec<String> = much(purse).into_iter().chain(parts).collect();
    (!all.is_empty()).then(|| format!("used: {}", all.join("; ")))
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        let mut terminal = std::io::stderr().lock();
        let _unshown = terminal.queue(Show).and_then(|terminal| terminal.flush());
    }
}
