//! `folio tokens`: what memory costs a model in tokens, by section and by entry.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::Entry;
use folio::memory::EntryQuery;
use folio::memory::counted::counted;
use folio::memory::tokens::Tokens as _;
use folio::memory::view::{SectionReceipt, candidate};
use folio::store::workspace::{BookFilter, ViewRequest};
use serde::Serialize;

use super::Context;
use super::context::ModelArgument;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::{first_line, printable};

/// How many characters of a title a line shows.
const LINE_CHARS: usize = 80;

/// `folio tokens`.
#[derive(Debug, Args)]
pub(crate) struct TokensArguments {
    /// Maximum number of entries, most expensive first
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    limit: u32,
    #[command(flatten)]
    model: ModelArgument,
}

/// What one entry costs.
#[derive(Debug, Serialize)]
struct EntryCost {
    handle: String,
    kind: &'static str,
    title: String,
    /// Its full title and text.
    tokens: u32,
    /// The longest line that a view uses for it.
    line_tokens: u32,
}

/// What memory costs.
#[derive(Debug, Serialize)]
struct Cost {
    counted: String,
    /// The view of the scratchbook.
    view_tokens: u32,
    view_token_limit: u32,
    sections: Vec<SectionReceipt>,
    /// All live entries that were counted.
    entries_tokens: u64,
    entries: Vec<EntryCost>,
}

impl Report for Cost {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let (tokens, limit) = (self.view_tokens, self.view_token_limit);
        writeln!(
            out,
            "{} {tokens} of {} ({})",
            style.strong("view"),
            counted(limit.into(), "token"),
            self.counted
        )?;
        for section in self
            .sections
            .iter()
            .filter(|section| section.tokens > 0 || !section.omitted.is_empty())
        {
            let shown = section.shown.len() + section.shortened.len();
            let left = section.omitted.len() as u64 + section.beyond;
            writeln!(
                out,
                "  {:<13} {:>6} of {:>4}  {shown} shown, {left} left out",
                section.section, section.tokens, section.reserved
            )?;
        }
        writeln!(
            out,
            "{} {} in full",
            style.strong("entries"),
            counted(self.entries_tokens, "token")
        )?;
        for entry in &self.entries {
            let title = printable(&first_line(&entry.title, LINE_CHARS));
            writeln!(
                out,
                "  {:<6} {:>6}, {:>4} as a line  [{}] {title}",
                entry.handle, entry.tokens, entry.line_tokens, entry.kind
            )?;
        }
        Ok(())
    }
}

/// Carries out `folio tokens`.
pub(crate) async fn run(context: &Context<'_>, arguments: TokensArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let tokens = arguments.model.counter(context);
    let thread = context.settings.thread.clone();
    let view = workspace.view(ViewRequest::of(thread.clone()), &tokens).await?;
    let mut all = workspace.book_items(&thread, BookFilter::default()).await?.items;
    let observations = EntryQuery {
        limit: folio::memory::query::MAX_LIMIT,
        ..EntryQuery::default()
    };
    all.extend(workspace.observations(observations).await?.items);
    let mut entries = Vec::with_capacity(all.len());
    for entry in all {
        let entry: Entry = workspace.in_whole(entry).await?;
        let fields = &entry.fields;
        entries.push(EntryCost {
            handle: entry.handle.to_string(),
            kind: entry.kind.as_str(),
            title: if fields.title.is_empty() {
                fields.body.clone()
            } else {
                fields.title.clone()
            },
            tokens: tokens.count(&format!("{}\n{}", fields.title, fields.body)),
            line_tokens: tokens.count(&candidate(&entry).lengths[0]),
        });
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.tokens));
    let entries_tokens = entries.iter().map(|entry| u64::from(entry.tokens)).sum();
    entries.truncate(arguments.limit as usize);
    for entry in &mut entries {
        entry.title = first_line(&entry.title, LINE_CHARS);
    }
    let receipt = &view.rendered.receipt;
    context.output.report(&Cost {
        counted: receipt.counted.clone(),
        view_tokens: receipt.tokens,
        view_token_limit: receipt.budget,
        sections: receipt.sections.clone(),
        entries_tokens,
        entries,
    })?;
    Ok(Exit::Done)
}
