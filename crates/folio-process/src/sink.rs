//! Receivers of a program's output.

use std::ops::ControlFlow;

/// Receives what a program prints, piece by piece.
pub trait Sink: Send {
    /// Receives the next piece; `Break` ends the program.
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()>;
}

/// Keeps an output of at most `bytes_max` bytes, and ends a program that prints more.
#[derive(Debug)]
pub struct Whole {
    bytes_max: usize,
    /// What was printed so far.
    pub bytes: Vec<u8>,
}

impl Whole {
    /// An empty sink.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: Vec::new(),
        }
    }
}

impl Sink for Whole {
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        if self.bytes.len() + piece.len() > self.bytes_max {
            return ControlFlow::Break(());
        }
        self.bytes.extend_from_slice(piece);
        ControlFlow::Continue(())
    }
}

/// Keeps the end of an output of any size.
#[derive(Debug)]
pub struct Tail {
    bytes_max: usize,
    bytes: Vec<u8>,
}

impl Tail {
    /// An empty sink that keeps the last `bytes_max` bytes of what comes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: Vec::new(),
        }
    }

    /// The end of what was printed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(self.bytes_max)..]
    }
}

impl Sink for Tail {
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        self.bytes.extend_from_slice(piece);
        // Truncating only now and then keeps the cost of a byte the same however long the output is.
        if self.bytes.len() > 2 * self.bytes_max {
            self.bytes.drain(..self.bytes.len() - self.bytes_max);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_sink_keeps_only_the_last_bytes() {
        let mut tail = Tail::new(4);
        for piece in ["ab", "cdefgh", "", "ijk"] {
            assert!(tail.take(piece.as_bytes()).is_continue());
        }
        assert_eq!(tail.bytes(), b"hijk");
    }

    #[test]
    fn whole_sink_stops_at_the_first_byte_over_its_limit() {
        let mut whole = Whole::new(4);
        assert!(whole.take(b"abcd").is_continue());
        assert!(whole.take(b"e").is_break());
        assert_eq!(whole.bytes, b"abcd");
    }
}
