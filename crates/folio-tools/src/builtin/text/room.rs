//! The room that one operation has for what it makes, taken before it is made.

use serde_json::Value;

use crate::registry::json_bytes;
use crate::response::{FailureKind, ToolError};

/// The bytes that an item of a list takes in addition to its content.
const ITEM_BYTES: usize = 1;

pub(super) struct Room<'a> {
    op: &'a str,
    what: &'static str,
    bytes_max: usize,
    bytes_left: usize,
}

impl<'a> Room<'a> {
    pub(super) fn new(op: &'a str, what: &'static str, bytes_max: usize) -> Self {
        Self {
            op,
            what,
            bytes_max,
            bytes_left: bytes_max,
        }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes_left
    }

    /// Takes the room for `bytes` more.
    ///
    /// # Errors
    ///
    /// `output_too_large` if there is not that much left.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), ToolError> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(|| self.full())?;
        Ok(())
    }

    /// Takes the room for an item of a list.
    pub(super) fn take_item(&mut self, item: &Value) -> Result<(), ToolError> {
        let bytes = usize::try_from(json_bytes(item)).unwrap_or(usize::MAX);
        self.take(bytes.saturating_add(ITEM_BYTES))
    }

    /// The error of an operation that makes more than it may.
    pub(super) fn full(&self) -> ToolError {
        let message = format!(
            "text {}: the {} is more than {} bytes",
            self.op, self.what, self.bytes_max
        );
        ToolError::new(FailureKind::TooLarge, "output_too_large", message)
    }
}
