//! `read`: lines of a text file.

use std::io::Read as _;

use async_trait::async_trait;
use bstr::ByteSlice as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{BINARY_LOOK_BYTES, looks_binary, newlines, whole_characters};
use crate::arguments::parse;
use crate::blocking::blocking;
use crate::context::ToolContext;
use crate::response::{EvidenceRef, ToolError, ToolResponse, Truncated};
use crate::roots::Located;
use crate::sha256::ContentHash;
use crate::tool::{ArgKind, Effect, Need, Tool, ToolRequest, ToolSpec};

/// Reads lines of a text file.
#[derive(Debug)]
pub(super) struct Read {
    spec: ToolSpec,
}

impl Default for Read {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "read",
                Effect::Read,
                "Reads lines of a text file. Where the answer is truncated, its `next` reads on.",
            )
            .returns(
                "Returns `text`, `from_line`, `to_line`, `total_lines`, the `bytes` of the file, `encoding_lossy` (bytes \
                 that are no UTF-8 were replaced) and `truncated`; then `next` holds the arguments that read on. Of a \
                 binary file only `bytes` and `binary` are told.",
            )
            .needed(Need::Always)
            .gives(&[
                ("text", "string"),
                ("from_line", "integer"),
                ("to_line", "integer"),
                ("total_lines", "integer"),
                ("bytes", "integer"),
            ])
            .required("path", ArgKind::Text, "The file.")
            .optional("from_line", ArgKind::From(1), "Counted from 1.")
            .optional("to_line", ArgKind::From(1), "Included.")
            .optional(
                "from_byte",
                ArgKind::Count,
                "Instead of `from_line`, counted from 0: within a very long line.",
            )
            .optional("max_bytes", ArgKind::Count, "The most text."),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    path: String,
    from_line: Option<u64>,
    to_line: Option<u64>,
    from_byte: Option<u64>,
    max_bytes: Option<usize>,
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match read(request, context).await {
            Ok(text) => text.response(request),
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

async fn read(request: &ToolRequest, context: &ToolContext) -> Result<TextOfFile, ToolError> {
    let args: Args = parse(request)?;
    let range = Range::new(&args)?;
    let file = context.roots.find(&args.path, &context.run_folder)?;
    let limits = context.limits.clone();
    let run_folder = context.run_folder.clone();
    let roots = context.roots.clone();
    blocking(&context.cancel, move |cancel| {
        // Without room for the longest character, reading would never advance.
        let max_bytes = args
            .max_bytes
            .unwrap_or(limits.read_bytes)
            .min(limits.read_bytes_max)
            .max(4);
        let scan = Scan {
            range,
            max_bytes,
            scan_bytes: limits.scan_bytes,
        };
        scan.file(&file, cancel)
            .map_err(|error| roots.with_run_folder_hint(error, &args.path, &run_folder))
    })
    .await
}

/// Which part of a file is wanted.
#[derive(Debug, Clone, Copy)]
enum Range {
    Lines {
        from: u64,
        to: u64,
    },
    /// The rest of a line that was too long, and the lines after it.
    Bytes {
        from: u64,
        to: u64,
    },
}

impl Range {
    fn new(args: &Args) -> Result<Self, ToolError> {
        match (args.from_line, args.to_line, args.from_byte) {
            (None, to, Some(from)) => Ok(Self::Bytes {
                from,
                to: to.unwrap_or(u64::MAX),
            }),
            (Some(_), _, Some(_)) => Err(ToolError::invalid("read: give `from_byte` or `from_line`, not both")),
            (Some(0), _, _) | (_, Some(0), _) => Err(ToolError::invalid("read: lines are counted from 1")),
            (from, to, None) => {
                let (from, to) = (from.unwrap_or(1), to.unwrap_or(u64::MAX));
                if to < from {
                    return Err(ToolError::invalid(format!(
                        "read: `to_line` ({to}) comes before `from_line` ({from})"
                    )));
                }
                Ok(Self::Lines { from, to })
            }
        }
    }

    /// The last line that is wanted.
    fn last_line(self) -> u64 {
        match self {
            Self::Lines { to, .. } | Self::Bytes { to, .. } => to,
        }
    }
}

struct Scan {
    range: Range,
    max_bytes: usize,
    scan_bytes: u64,
}

/// What a scan has seen so far.
#[derive(Default)]
struct Seen {
    offset: u64,
    /// The number of line ends before `offset`.
    line_end_count: u64,
    last: u8,
    kept: Vec<u8>,
    /// The number of line ends before the first kept byte, and the offset of that byte.
    start: Option<(u64, u64)>,
    /// Whether the range holds more than was kept.
    more: bool,
}

impl Scan {
    fn file(&self, located: &Located, cancel: &CancellationToken) -> Result<TextOfFile, ToolError> {
        let (mut file, metadata) = located.open_file()?;
        let mut seen = Seen::default();
        let mut hash = ContentHash::default();
        let mut buffer = vec![0; 64 * 1024];
        let mut is_binary = false;
        let mut is_whole = false;
        while seen.offset < self.scan_bytes || (!seen.more && !self.past_range(&seen)) {
            if cancel.is_cancelled() {
                return Err(ToolError::cancelled());
            }
            let read = file
                .read(&mut buffer)
                .map_err(|error| located.failure("read", &error))?;
            if read == 0 {
                is_whole = true;
                break;
            }
            let piece = &buffer[..read];
            if seen.offset < BINARY_LOOK_BYTES as u64 {
                is_binary |= looks_binary(piece);
            }
            hash.update(piece);
            self.take(piece, &mut seen);
            if is_binary {
                break;
            }
        }
        let path = located.display_path();
        if is_binary {
            return Ok(TextOfFile::binary(path, metadata.len()));
        }
        Ok(TextOfFile::new(
            path,
            metadata.len(),
            seen,
            self.range,
            is_whole.then(|| hash.finish()),
        ))
    }

    fn past_range(&self, seen: &Seen) -> bool {
        seen.line_end_count >= self.range.last_line()
    }

    /// Keeps the part of the next piece of the file that is in the range.
    fn take(&self, piece: &[u8], seen: &mut Seen) {
        let mut rest = piece;
        while !rest.is_empty() {
            let line = seen.line_end_count + 1;
            let (length, is_kept) = match self.range {
                Range::Bytes { from, .. } if seen.offset < from => {
                    let skip_len = usize::try_from(from - seen.offset).unwrap_or(usize::MAX);
                    (skip_len.min(rest.len()), false)
                }
                Range::Lines { from, .. } if line < from => (line_length(rest), false),
                range if line > range.last_line() => (rest.len(), false),
                range if range.last_line() == u64::MAX => (rest.len(), true),
                _ => (line_length(rest), true),
            };
            let (part, after) = rest.split_at(length);
            if is_kept {
                seen.start.get_or_insert((seen.line_end_count, seen.offset));
                let bytes_left = self.max_bytes - seen.kept.len();
                seen.more |= part.len() > bytes_left;
                seen.kept.extend_from_slice(&part[..part.len().min(bytes_left)]);
            }
            seen.line_end_count += newlines(part);
            seen.offset += part.len() as u64;
            seen.last = part[part.len() - 1];
            rest = after;
        }
    }
}

/// The number of bytes up to and including the end of the line.
fn line_length(text: &[u8]) -> usize {
    text.find_byte(b'\n').map_or(text.len(), |at| at + 1)
}

struct TextOfFile {
    path: String,
    bytes: u64,
    binary: bool,
    text: String,
    lossy: bool,
    from_line: u64,
    to_line: u64,
    total_lines: Option<u64>,
    next: Option<Value>,
    kept_bytes: u64,
    hash: Option<String>,
}

impl TextOfFile {
    fn binary(path: String, bytes: u64) -> Self {
        Self {
            path,
            bytes,
            binary: true,
            text: String::new(),
            lossy: false,
            from_line: 0,
            to_line: 0,
            total_lines: None,
            next: None,
            kept_bytes: 0,
            hash: None,
        }
    }

    fn new(path: String, bytes: u64, seen: Seen, range: Range, hash: Option<String>) -> Self {
        let (ends_before, start) = seen.start.unwrap_or((seen.line_end_count, seen.offset));
        let mut kept = seen.kept;
        let mut next = None;
        if seen.more {
            let line_end = kept.rfind_byte(b'\n').map(|at| at + 1);
            kept.truncate(line_end.unwrap_or_else(|| whole_characters(&kept)));
            let mut next_part = if line_end.is_some() {
                json!({"path": path, "from_line": ends_before + newlines(&kept) + 1})
            } else {
                json!({"path": path, "from_byte": start + kept.len() as u64})
            };
            if range.last_line() < u64::MAX {
                next_part["to_line"] = json!(range.last_line());
            }
            next = Some(next_part);
        }
        let lines_kept = newlines(&kept) + u64::from(kept.last().is_some_and(|last| *last != b'\n'));
        let kept_bytes = kept.len() as u64;
        let (text, lossy) = match String::from_utf8(kept) {
            Ok(text) => (text, false),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
        };
        let unfinished = u64::from(seen.offset > 0 && seen.last != b'\n');
        Self {
            path,
            bytes,
            binary: false,
            text,
            lossy,
            from_line: ends_before + 1,
            to_line: ends_before + lines_kept,
            total_lines: hash.is_some().then_some(seen.line_end_count + unfinished),
            next,
            kept_bytes,
            hash,
        }
    }

    fn response(self, request: &ToolRequest) -> ToolResponse {
        let notes = if self.binary {
            format!("{} is a binary file of {} bytes", self.path, self.bytes)
        } else if self.kept_bytes == 0 {
            match self.total_lines {
                Some(0) => format!("{} is empty", self.path),
                Some(total) => format!("{} has only {total} lines", self.path),
                None => format!("nothing of {} is in the range", self.path),
            }
        } else {
            let total = match self.total_lines {
                Some(total) => format!(" of {total}"),
                None => String::new(),
            };
            format!("{}: lines {} to {}{total}", self.path, self.from_line, self.to_line)
        };
        let outputs = json!({
            "path": self.path,
            "text": self.text,
            "from_line": self.from_line,
            "to_line": self.to_line,
            "total_lines": self.total_lines,
            "bytes": self.bytes,
            "encoding_lossy": self.lossy,
            "binary": self.binary,
            "truncated": self.next.is_some(),
            "next": self.next,
        });
        let truncated = self.next.is_some().then_some(Truncated {
            kept_bytes: self.kept_bytes,
            total_bytes: self.bytes,
        });
        let is_whole = self.kept_bytes == self.bytes;
        let span = (!is_whole && self.kept_bytes > 0).then(|| format!("L{}-L{}", self.from_line, self.to_line));
        ToolResponse {
            evidence: vec![EvidenceRef {
                kind: "file".to_owned(),
                id: self.path,
                hash: self.hash,
                span,
            }],
            truncated,
            ..ToolResponse::ok(request, outputs, notes)
        }
    }
}
