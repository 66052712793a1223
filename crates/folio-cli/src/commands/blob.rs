//! `folio blob`: prints parts of a long text.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::memory::passage::Part;
use folio_server::wire::{PassageShape, ReadOn};

use super::Context;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// `folio blob`.
#[derive(Debug, Args)]
pub(crate) struct Blob {
    /// What to read: e42, an id, a hash, or /large_tool_results/e42
    #[arg(value_name = "REF", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: String,
    #[command(flatten)]
    part: PartArguments,
}

/// Which part is wanted, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct PartArguments {
    /// First byte, counted from 0; with --search, where to continue
    #[arg(long, value_name = "BYTE")]
    from: Option<u64>,
    /// Byte to stop before
    #[arg(long, value_name = "BYTE", conflicts_with_all = ["lines", "search"])]
    to: Option<u64>,
    /// Lines to print, counted from 1: 10:20, 10: or 10
    #[arg(long, value_name = "A:B", conflicts_with_all = ["from", "search"])]
    lines: Option<String>,
    /// Print only the lines that contain this text, ignoring case
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Maximum bytes of text
    #[arg(long, value_name = "BYTES", default_value_t = 32 * 1024, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_bytes: u32,
}

impl PartArguments {
    /// The text to search for, if any.
    pub(crate) fn searched(&self) -> Option<String> {
        self.search.clone()
    }

    /// The part to read, and how many bytes of it.
    pub(crate) fn part(self) -> Result<(Part, usize), Failure> {
        let from = self.from.unwrap_or(0);
        let part = match (self.lines, self.search) {
            (Some(lines), _) => Part::lines(&lines).ok_or_else(|| {
                let message = format!("--lines must be of the form 10:20, 10: or 10, not {lines:?}");
                Failure::usage("usage", message)
            })?,
            (None, Some(query)) if query.is_empty() => return Err(Failure::usage("usage", "--search is empty")),
            (None, Some(query)) => Part::Search { words: query, from },
            (None, None) if self.to.is_some_and(|to| to < from) => {
                return Err(Failure::usage(
                    "usage",
                    format!("--to is before --from, which is {from}"),
                ));
            }
            (None, None) => Part::Bytes {
                from,
                to: self.to.unwrap_or(u64::MAX),
            },
        };
        Ok((part, self.max_bytes as usize))
    }
}

/// A remark on how to read on.
pub(crate) fn remark(passage: &PassageShape) -> Option<String> {
    passage
        .next
        .as_ref()
        .map(|next| format!("there is more; continue with {next}"))
}

impl Report for PassageShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        if let Some(text) = &self.text {
            out.push_str(text);
        }
        for found in self.matches.iter().flatten() {
            writeln!(out, "{} {}", style.faint(format_args!("{}:", found.line)), found.text)?;
        }
        Ok(())
    }

    /// Parts that are read one after the other into a file reproduce the text.
    fn is_source(&self) -> bool {
        self.text.is_some()
    }
}

/// Carries out `folio blob`.
pub(crate) async fn run(context: &Context<'_>, blob: Blob) -> Result<Exit, Failure> {
    let query = blob.part.search.clone();
    let (part, max_bytes) = blob.part.part()?;
    let workspace = context.workspace_if_any().await?;
    let passage = workspace.read_body(&blob.name, &part, max_bytes).await?;
    let answer = PassageShape::of(passage, query.as_deref(), ReadOn::Options);
    context.output.report(&answer)?;
    if let Some(remark) = remark(&answer) {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
