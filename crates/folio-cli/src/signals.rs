//! The signals that ask the program to end, and the one that it survives.

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Failure;

/// Listens for the signals that ask the program to end: SIGTERM, and SIGHUP, which comes when the terminal is closed
/// or its connection breaks. SIGHUP is left out if the program was started with it ignored (`nohup`).
#[derive(Debug)]
pub(crate) struct EndSignals {
    terminations: Signal,
    hangups: Option<Signal>,
}

impl EndSignals {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// If the system does not allow it.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let hangups = match is_ignored(Number::HUP) {
            true => None,
            false => Some(listen_for(SignalKind::hangup())?),
        };
        Ok(Self {
            terminations: listen_for(SignalKind::terminate())?,
            hangups,
        })
    }

    /// Waits for such a signal.
    pub(crate) async fn recv(&mut self) {
        let hangups = async {
            match &mut self.hangups {
                Some(hangups) => hangups.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminations.recv() => {}
            _ = hangups => {}
        }
    }
}

/// Listens for Ctrl-C, or another signal.
///
/// # Errors
///
/// If the system does not allow it.
pub(crate) fn listen_for(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::cannot("listen for", "Ctrl-C", error))
}

/// From now on, a write to a file that has reached the size limit (`ulimit -f`) fails like one to a full disk, and
/// does not end the program without a word. Programs that are started get the usual behaviour.
pub(crate) fn outlive_large_files() {
    // If listening fails, the signal still ends the program, as before.
    drop(signal(SignalKind::from_raw(Number::XFSZ.as_raw())));
}

/// Whether the program was started with `signal` ignored, as `/proc` says. Without `/proc` it counts as ignored, and
/// the signal keeps its default effect.
fn is_ignored(signal: Number) -> bool {
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| is_among_ignored(&status, signal.as_raw()))
}

/// Whether a process with this `status` ignores the signal with this `number`.
fn is_among_ignored(status: &str, number: i32) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first signal is 1, and corresponds to the lowest bit.
    let bit = u32::try_from(number - 1).ok().and_then(|bit| 1_u64.checked_shl(bit));
    ignored.zip(bit).is_none_or(|(ignored, bit)| ignored & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_is_ignored_when_its_mask_bit_is_set() {
        let status = |mask: &str| format!("Name:\tfolio\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(is_among_ignored(&status("0000000000001001"), 1));
        assert!(!is_among_ignored(&status("0000000000001000"), 1));
        assert!(is_among_ignored(&status("0000000000001000"), 13));
        assert!(is_among_ignored("Name:\tfolio\n", 1));
    }
}
