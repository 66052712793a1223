//! Tells people when the store of a server goes away and when it comes back, and when runs wait for it: one line each,
//! not one for each request.

use std::path::Path;
use std::time::Duration;

use folio::memory::counted::counted;
use folio::runner::Runner;
use tokio::time::Instant;

use crate::output::Output;

/// How often to look.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How long the store may take to answer; a shared store takes up to ten seconds to say that it is away.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Looks at the store of `runner` at intervals, until it is dropped.
pub(crate) async fn watch_store(runner: &Runner, output: &Output) {
    let workspace = runner.workspace();
    let mut again = tokio::time::interval(LOOK_INTERVAL);
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut seen = Seen::default();
    loop {
        again.tick().await;
        let asked = Instant::now();
        let answer = match tokio::time::timeout(ANSWER_WITHIN, workspace.store().head(workspace.space())).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
        };
        let mut lines = seen.lines(answer, workspace.store().shortage(), workspace.outbox(), asked);
        lines.extend(seen.line_of_runs(runner.waiting_for_store(), runner.outage_patience()));
        for line in lines {
            output.note(format_args!("{line}"));
        }
    }
}

/// What was seen of the store, and told.
#[derive(Debug, Default)]
struct Seen {
    away_since: Option<Instant>,
    told_shortage: bool,
    /// Whether runs wait for the store, as far as was told.
    runs_wait: bool,
}

impl Seen {
    /// The line about runs that wait for the store since, how many and why, or do so no more.
    fn line_of_runs(&mut self, waiting: Option<(usize, String)>, patience: Duration) -> Option<String> {
        let before = std::mem::replace(&mut self.runs_wait, waiting.is_some());
        match (waiting, before) {
            (Some((count, reason)), false) => {
                let runs = counted(u64::try_from(count).unwrap_or(u64::MAX), "run");
                let minutes = patience.as_secs().div_ceil(60);
                Some(format!(
                    "{runs} waiting for the store, given up after {minutes} minutes: {reason}"
                ))
            }
            (None, true) => Some("no run waits for the store any more".to_owned()),
            _ => None,
        }
    }

    /// The lines about what has changed by the `answer` of the store.
    fn lines(
        &mut self,
        answer: Result<(), String>,
        shortage: Option<&str>,
        outbox: Option<&Path>,
        now: Instant,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        match (answer, self.away_since) {
            (Err(error), None) => {
                self.away_since = Some(now);
                let kept = outbox.map(|file| format!("; answers of tools wait in {}", file.display()));
                lines.push(format!("the store is away: {error}{}", kept.unwrap_or_default()));
            }
            (Ok(()), Some(since)) => {
                self.away_since = None;
                let seconds = now.saturating_duration_since(since).as_secs();
                lines.push(format!("the store is there again, after {seconds} s"));
            }
            (Ok(()), None) | (Err(_), Some(_)) => {}
        }
        if let Some(shortage) = shortage.filter(|_| !self.told_shortage) {
            self.told_shortage = true;
            lines.push(format!("the store works slowly: {shortage}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_wait_for_the_store_are_told_once() {
        let mut seen = Seen::default();
        let mut line = |waiting: Option<usize>| {
            let waiting = waiting.map(|count| (count, "its disk is full".to_owned()));
            seen.line_of_runs(waiting, Duration::from_secs(600))
        };
        assert_eq!(line(None), None);
        let told = "2 runs waiting for the store, given up after 10 minutes: its disk is full";
        assert_eq!(line(Some(2)).as_deref(), Some(told));
        assert_eq!(line(Some(1)), None);
        assert_eq!(line(None).as_deref(), Some("no run waits for the store any more"));
    }

    #[test]
    fn every_change_of_the_store_is_told_once() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let mut lines = |is_there: bool, shortage, seconds| {
            let answer = if is_there { Ok(()) } else { Err("gone".to_owned()) };
            let now = start + Duration::from_secs(seconds);
            seen.lines(answer, shortage, Some(Path::new("/x/outbox")), now)
        };
        assert_eq!(lines(true, None, 0), [""; 0]);
        assert_eq!(
            lines(false, None, 2),
            ["the store is away: gone; answers of tools wait in /x/outbox"]
        );
        assert_eq!(lines(false, None, 4), [""; 0]);
        assert_eq!(lines(true, None, 9), ["the store is there again, after 7 s"]);
        assert_eq!(lines(true, Some("few"), 11), ["the store works slowly: few"]);
        assert_eq!(lines(true, Some("few"), 13), [""; 0]);
    }
}
