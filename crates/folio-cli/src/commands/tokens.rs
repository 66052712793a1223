//! `folio tokens`: what memory costs a model in tokens, by section and by entry.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::memory::EntryQuery;
use folio::memory::counted::counted;
use folio::memory::query::MAX_LIMIT;
use folio::memory::tokens::Tokens;
use folio::memory::view::{SectionReceipt, candidate};
use folio::store::workspace::{BookFilter, ViewRequest};
use folio::{Entry, ThreadKey, Workspace};
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

impl EntryCost {
    fn of(entry: Entry, tokens: &dyn Tokens) -> Self {
        let fields = &entry.fields;
        let title = match fields.title.is_empty() {
            true => &fields.body,
            false => &fields.title,
        };
        Self {
            handle: entry.handle.to_string(),
            kind: entry.kind.as_str(),
            title: first_line(title, LINE_CHARS),
            tokens: tokens.count(&format!("{}\n{}", fields.title, fields.body)),
            line_tokens: tokens.count(&candidate(&entry).lengths[0]),
        }
    }
}

/// What memory costs.
#[derive(Debug, Serialize)]
struct Cost {
    counted: String,
    /// The view of the scratchbook.
    view_tokens: u32,
    view_token_limit: u32,
    sections: Vec<SectionReceipt>,
    /// All live entries.
    entries_tokens: u64,
    /// How many they are; `entries` has the most expensive of them.
    entries_total: usize,
    entries: Vec<EntryCost>,
}

impl Cost {
    /// That entries are not listed, if some are not.
    fn left_out(&self) -> String {
        match (self.entries.len(), self.entries_total) {
            (listed, total) if listed < total => format!(", {listed} of {total} listed; --limit shows more"),
            _ => String::new(),
        }
    }
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
            "{} {} in full{}",
            style.strong("entries"),
            counted(self.entries_tokens, "token"),
            self.left_out()
        )?;
        for entry in &self.entries {
            let title = printable(&entry.title);
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
    let mut entries = costs_of_book(&workspace, &thread, &tokens).await?;
    entries.extend(costs_of_observations(&workspace, &tokens).await?);
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.tokens));
    let entries_tokens = entries.iter().map(|entry| u64::from(entry.tokens)).sum();
    let entries_total = entries.len();
    entries.truncate(arguments.limit as usize);
    let receipt = &view.rendered.receipt;
    context.output.report(&Cost {
        counted: receipt.counted.clone(),
        view_tokens: receipt.tokens,
        view_token_limit: receipt.budget,
        sections: receipt.sections.clone(),
        entries_tokens,
        entries_total,
        entries,
    })?;
    Ok(Exit::Done)
}

/// What all items of the scratchbook of `thread` cost.
async fn costs_of_book(
    workspace: &Workspace,
    thread: &ThreadKey,
    tokens: &dyn Tokens,
) -> Result<Vec<EntryCost>, Failure> {
    let mut costs = Vec::new();
    let mut filter = BookFilter::default();
    loop {
        let part = workspace.book_items(thread, filter.clone()).await?;
        for entry in part.items {
            costs.push(EntryCost::of(workspace.in_whole(entry).await?, tokens));
        }
        match part.next {
            Some(next) => filter.cursor = Some(next),
            None => return Ok(costs),
        }
    }
}

/// What all observations of the space cost.
async fn costs_of_observations(workspace: &Workspace, tokens: &dyn Tokens) -> Result<Vec<EntryCost>, Failure> {
    let mut costs = Vec::new();
    let mut query = EntryQuery {
        limit: MAX_LIMIT,
        ..EntryQuery::default()
    };
    loop {
        let part = workspace.observations(query.clone()).await?;
        for entry in part.items {
            costs.push(EntryCost::of(workspace.in_whole(entry).await?, tokens));
        }
        match part.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(costs),
        }
    }
}
