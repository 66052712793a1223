//! By what signals the program is asked to end, and the one that it goes on after.

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Failure;

/// Who asks the program to end: SIGTERM, and SIGHUP, which comes when the terminal is closed or the connection to it breaks. Not the second
/// where whoever started the program had it ignored (`nohup`).
#[derive(Debug)]
pub(crate) struct Endings {
    terminations: Signal,
    hangups: Option<Signal>,
}

impl Endings {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// If the system does not let it.
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

    /// Is ready when somebody asks.
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
/// If the system does not let it.
pub(crate) fn listen_for(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::cannot("listen for", "Ctrl-C", error))
}

/// From now on a file that may not become larger (`ulimit -f`) is told like a full disk, by whoever writes to it, and does not end the program
/// without a word. Programs that are started have what is usual.
pub(crate) fn outlive_large_files() {
    // Whoever may not listen is ended by it, as before.
    drop(signal(SignalKind::from_raw(Number::XFSZ.as_raw())));
}

/// Whether the program was started with `signal` ignored. Known from `/proc`; where that is not there, it counts as ignored, and does what it
/// did before anybody listened.
fn is_ignored(signal: Number) -> bool {
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| is_among_ignored(&status, signal.as_raw()))
}

/// Whether a process with this `status` ignores the signal with this `number`.
fn is_among_ignored(status: &str, number: i32) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first signal is 1, and the first bit stands for it.
    let bit = u32::try_from(number - 1).ok().and_then(|bit| 1_u64.checked_shl(bit));
    ignored.zip(bit).is_none_or(|(ignored, bit)| ignored & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_ignored_whose_bit_is_set() {
        let status = |mask: &str| format!("Name:\tfolio\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(is_among_ignored(&status("0000000000001001"), 1));
        assert!(!is_among_ignored(&status("0000000000001000"), 1));
        assert!(is_among_ignored(&status("0000000000001000"), 13));
        assert!(is_among_ignored("Name:\tfolio\n", 1));
    }
}
