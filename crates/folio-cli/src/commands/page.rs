//! `folio page`: the pages of the tree.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use folio::memory::PageRole;
use folio::memory::counted::counted;
use folio::memory::id::PageRef;
use folio::store::workspace::PageInput;

use super::context::ModelArgument;
use super::people::runner;
use super::{Context, text_or_stdin, with_idempotency_key};
use crate::arguments::page_ref;
use crate::error::{Exit, Failure};
use crate::report::page::{EntryShape, PageInFull, PageShape};
use crate::report::view::RollupShape;
use crate::report::written::Written;

/// `folio page`.
#[derive(Debug, Subcommand)]
pub(crate) enum Page {
    /// Show a page as markdown
    Show(Show),
    /// Summarise the pages below a page, within a token budget
    Rollup(Rollup),
    /// Add a page
    New(New),
    /// Append a block to a page
    Append(Append),
}

/// `folio page show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Page: p7 or page_…
    #[arg(value_parser = page_ref)]
    page: PageRef,
    /// Show only the last N entries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    tail: Option<u32>,
    /// Show long texts in full, not only their beginning
    #[arg(long)]
    whole: bool,
}

/// `folio page rollup`.
#[derive(Debug, Args)]
pub(crate) struct Rollup {
    /// Page: p7 or page_…
    #[arg(value_parser = page_ref)]
    page: PageRef,
    /// Token budget
    #[arg(long, default_value_t = 800, value_name = "TOKENS")]
    budget: u32,
    #[command(flatten)]
    model: ModelArgument,
}

/// `folio page new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Title of the page
    title: String,
    /// Parent page: p7 or page_…
    #[arg(long, value_name = "PAGE", value_parser = page_ref)]
    parent: Option<PageRef>,
    /// Role of the page: note, workspace, scratchpad_root, scratchpad_exec, plan, iteration_summary
    #[arg(long, default_value = "note", value_parser = page_role)]
    role: PageRole,
    /// Tag to find it by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

/// `folio page append`.
#[derive(Debug, Args)]
pub(crate) struct Append {
    /// Page: p7 or page_…
    #[arg(value_parser = page_ref)]
    page: PageRef,
    /// Text in markdown; - reads it from standard input
    text: String,
    /// Heading above the text
    #[arg(long, default_value = "", hide_default_value = true)]
    title: String,
    /// Tag to find it by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Add it only once, however often you repeat the command with this key
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,
}

/// Parses the role of a page that can be added. Pages of the other roles exist once per space or thread, and are
/// created automatically.
fn page_role(text: &str) -> Result<PageRole, String> {
    PageRole::parse(text)
        .filter(|role| !role.is_standing())
        .ok_or_else(|| "not note, workspace, scratchpad_root, scratchpad_exec, plan or iteration_summary".to_owned())
}

/// Carries out `folio page`.
pub(crate) async fn run(context: &Context<'_>, page: Page) -> Result<Exit, Failure> {
    let workspace = match page {
        Page::New(_) | Page::Append(_) => context.workspace().await?,
        _ => context.workspace_if_any().await?,
    };
    match page {
        Page::Show(show) => {
            let page = workspace.page(show.page).await?;
            let mut entries = match show.tail {
                Some(n) => workspace.tail(show.page, n).await?,
                None => workspace.page_entries(show.page).await?,
            };
            if show.whole {
                let mut full_entries = Vec::with_capacity(entries.len());
                for entry in entries {
                    full_entries.push(workspace.in_whole(entry).await?);
                }
                entries = full_entries;
            } else if let Some(long) = entries.iter().find(|entry| entry.fields.body_ref.is_some()) {
                context.output.note(format_args!(
                    "only the beginning of {} and other long texts is shown; --whole shows them in full",
                    long.handle
                ));
            }
            let children = workspace.children(page.id).await?;
            let mut markdown = folio::memory::markdown::render_page(&page, &entries, &children);
            if page.fields.run.is_some() {
                markdown.push_str(&runner(context).await?.waiting_section(&page).await?);
            }
            let options = context.output.options();
            context
                .output
                .report(&PageInFull::of(&page, &entries, &children, markdown, options))?;
        }
        Page::Rollup(rollup) => {
            let tokens = rollup.model.counter(context);
            let rendered = workspace.rollup(rollup.page, rollup.budget, &tokens).await?;
            let omitted = rendered.receipt.omitted();
            if omitted > 0 {
                let of = counted(rendered.receipt.tokens.into(), "token");
                context
                    .output
                    .note(format_args!("{of}; {omitted} left out; --json lists them"));
            }
            context.output.report(&RollupShape::of(rendered))?;
        }
        Page::New(new) => {
            let input = PageInput {
                title: new.title,
                parent: new.parent,
                role: Some(new.role),
                tags: new.tags,
            };
            let page = workspace.new_page(&context.actor(), input).await?;
            context.output.report(&PageShape::of(&page))?;
        }
        Page::Append(append) => {
            let (text, key) = (text_or_stdin(append.text)?, append.idempotency_key);
            let actor = context.actor();
            let request = ("append", append.page.to_string(), &append.title, &text, &append.tags);
            let (workspace, key) = with_idempotency_key(context, &workspace, "page append", key, &request);
            let written = workspace
                .append(&actor, append.page, &append.title, text, &append.tags, key)
                .await?;
            context.output.warnings(&written.warnings);
            let shape = EntryShape::of(&written.entry);
            context
                .output
                .report(&Written::of(shape, &written.warnings, written.replayed))?;
        }
    }
    Ok(Exit::Done)
}
