//! `folio offload` and `folio history`: conversations that outgrow their context window.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use folio::memory::counted::counted;
use folio::runner::{COMPACTOR_TIME, ModelCompactor};
use folio::store::workspace::{Compactor, Offload as How};
use folio_server::wire::long::{FOUND_MAX, Numbered};
use folio_server::wire::{Conversation, SaidShape};
use serde_json::Value;

use super::context::ModelArgument;
use super::{Context, json_file};
use crate::error::{Exit, Failure};
use crate::models;
use crate::output::{Report, Style};

/// `folio offload`.
#[derive(Debug, Args)]
pub(crate) struct Offload {
    /// File with the messages as JSON, in the format of OpenAI, Anthropic or Google; - reads it from standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Size of the context window in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 128_000)]
    window: u32,
    /// Share of the window, from 0 to 1, above which messages are stored away
    #[arg(long, value_name = "NUMBER", default_value_t = 0.8)]
    share: f64,
    /// Number of messages at the end that stay, as far as there is room for them
    #[arg(long, value_name = "N", default_value_t = 8)]
    keep: usize,
    /// Token budget of the summary that replaces the stored messages
    #[arg(long, value_name = "TOKENS", default_value_t = 1_200)]
    summary: u32,
    /// Store away every message that need not stay, however few there are
    #[arg(long)]
    force: bool,
    /// Model that writes the summary [default: the compactor in the settings, else no model]
    #[arg(long, value_name = "MODEL")]
    compactor: Option<String>,
    #[command(flatten)]
    model: ModelArgument,
}

/// `folio history`.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// Messages to print, counted from 1: 10:20, 10: or 10
    #[arg(long, value_name = "A:B", default_value = "1:", value_parser = range)]
    range: (u64, u64),
    /// Only messages that contain all of these words
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    match folio::memory::passage::Part::lines(text) {
        Some(folio::memory::passage::Part::Lines { from, to }) => Ok((from, to)),
        _ => Err("not of the form 10:20, 10: or 10".to_owned()),
    }
}

impl Report for Conversation {
    /// The messages as JSON, one per line: the continued conversation is data, for people too.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        writeln!(out, "[")?;
        for (at, message) in self.messages.iter().enumerate() {
            let comma = if at + 1 < self.messages.len() { "," } else { "" };
            writeln!(out, "{message}{comma}")?;
        }
        writeln!(out, "]")
    }

    /// Messages stay as they were given, down to invisible characters.
    fn is_source(&self) -> bool {
        true
    }
}

impl Report for SaidShape {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        for Numbered { number, message } in &self.items {
            writeln!(out, "{number}: {message}")?;
        }
        Ok(())
    }

    /// Messages stay as they were given, down to invisible characters.
    fn is_source(&self) -> bool {
        true
    }
}

/// Carries out `folio offload`.
pub(crate) async fn offload(context: &Context<'_>, offload: Offload) -> Result<Exit, Failure> {
    let list: Value = json_file(&offload.file, "JSON")?;
    let compactor = models::compactor(offload.compactor.as_deref(), &context.settings)?;
    let options = How {
        window_tokens: offload.window,
        share: offload.share,
        keep_last: offload.keep,
        summary_tokens: offload.summary,
        force: offload.force,
        tokens: Arc::new(offload.model.counter(context)),
        has_view: true,
        compactor: compactor.map(|model| {
            (
                Arc::new(ModelCompactor::new(model)) as Arc<dyn Compactor>,
                COMPACTOR_TIME,
            )
        }),
        task: None,
    };
    let workspace = context.workspace().await?;
    let thread = &context.settings.thread;
    let offloaded = workspace.offload(&context.actor(), thread, &list, &options).await?;
    context.output.warnings(&offloaded.warnings);
    let answer = Conversation::of(offloaded);
    let receipt = &answer.receipt;
    context.output.note(format_args!(
        "{} stored; {} before, {} after",
        counted(receipt.offloaded, "message"),
        counted(receipt.tokens_before.into(), "token"),
        receipt.tokens_after
    ));
    context.output.report(&answer)?;
    Ok(Exit::Done)
}

/// Carries out `folio history`.
pub(crate) async fn history(context: &Context<'_>, history: History) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let (from, to) = history.range;
    let thread = &context.settings.thread;
    let messages = match &history.search {
        None => workspace.said(thread, from, to).await?,
        Some(words) => workspace.search_said(thread, words, (from, to), FOUND_MAX).await?,
    };
    let answer = SaidShape::of(messages, workspace.head().await?.0);
    context.output.report(&answer)?;
    if answer.items.is_empty() {
        let total = counted(answer.total, "message");
        context
            .output
            .note(format_args!("no such messages; the history has {total}"));
    }
    if let Some(next) = answer.next {
        context
            .output
            .note(format_args!("there is more; continue with --range {next}:"));
    }
    Ok(Exit::Done)
}
