//! Shows the progress of a long command: one line that is overwritten on a terminal, nothing elsewhere.

use std::io::{Read, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossterm::QueueableCommand as _;
use crossterm::cursor::MoveToColumn;
use crossterm::terminal::{Clear, ClearType};
use tokio::time::Instant;

use crate::output::Output;

/// How often the line is redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// How often somebody looks how far a work has come that does not tell.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The width of the bar in characters.
const BAR_CHARS: usize = 24;

/// The progress line.
#[derive(Debug)]
pub(crate) struct Counting {
    is_shown: bool,
    last: Option<Instant>,
}

impl Counting {
    /// A progress line that is shown if standard error can be drawn over and the user wants to see it.
    pub(crate) fn new(output: &Output) -> Self {
        Self {
            is_shown: output.can_redraw() && !output.is_quiet() && !output.is_json(),
            last: None,
        }
    }

    /// Shows that `count` of `total`, if that is known, are done, with `label` as the text.
    pub(crate) fn show(&mut self, count: u64, total: Option<u64>, label: &str) {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= REDRAW_INTERVAL);
        if !self.is_shown || !is_due {
            return;
        }
        self.last = Some(Instant::now());
        let line = match total.filter(|total| *total > 0) {
            Some(total) => format!("{} {label}", bar(count, total)),
            None => label.to_owned(),
        };
        let mut terminal = std::io::stderr().lock();
        // If the terminal is gone, the work still goes on.
        let _undrawn = terminal
            .queue(MoveToColumn(0))
            .and_then(|terminal| terminal.queue(Clear(ClearType::UntilNewLine)))
            .and_then(|terminal| write!(terminal, "{line}"))
            .and_then(|()| terminal.flush());
    }
}

/// How far a work has come: how much of how much, if that is known.
pub(crate) type Progress = (u64, Option<u64>);

/// The progress of what does not tell.
pub(crate) const fn untold() -> Progress {
    (0, None)
}

/// Waits for `work`, and meanwhile shows `label`, how long it has taken, and the progress that `look` sees.
pub(crate) async fn while_working<T>(
    output: &Output,
    label: &str,
    look: impl Fn() -> Progress,
    work: impl Future<Output = T>,
) -> T {
    let mut counting = Counting::new(output);
    let began = Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(LOOK_INTERVAL, &mut work).await {
            Ok(done) => return done,
            Err(_) => {
                let (count, total) = look();
                counting.show(count, total, &format!("{label}, {} s", began.elapsed().as_secs()));
            }
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if self.last.is_some() {
            let mut terminal = std::io::stderr().lock();
            let _undrawn = terminal
                .queue(MoveToColumn(0))
                .and_then(|terminal| terminal.queue(Clear(ClearType::UntilNewLine)))
                .and_then(std::io::Write::flush);
        }
    }
}

fn bar(count: u64, total: u64) -> String {
    let percent = count.min(total).saturating_mul(100) / total;
    let full = usize::try_from(percent).unwrap_or(100) * BAR_CHARS / 100;
    format!("[{}{}] {percent:>3} %", "=".repeat(full), " ".repeat(BAR_CHARS - full))
}

/// A reader that counts what is read.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    source: R,
    read: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    /// Counts what is read from `source` in the number that is returned with it.
    pub(crate) fn new(source: R) -> (Self, Arc<AtomicU64>) {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Self {
            source,
            read: Arc::clone(&bytes_read),
        };
        (counted, bytes_read)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let byte_count = self.source.read(into)?;
        self.read.fetch_add(byte_count as u64, Ordering::Relaxed);
        Ok(byte_count)
    }
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn progress_bar_is_filled_in_proportion_to_work_done() {
        assert_eq!(bar(0, 3), format!("[{}]   0 %", " ".repeat(24)));
        assert_eq!(bar(1, 2), format!("[{}{}]  50 %", "=".repeat(12), " ".repeat(12)));
        assert_eq!(bar(9, 3), format!("[{}] 100 %", "=".repeat(24)));
    }
}
