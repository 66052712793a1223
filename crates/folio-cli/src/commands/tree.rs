//! `folio tree`: the pages of a space.

use clap::Args;
use folio::memory::PageQuery;
use folio::memory::id::{PageRef, Ref, RunRef};

use super::Context;
use crate::arguments::{page_ref, run_ref};
use crate::error::{Exit, Failure};
use crate::report::page::PageTree;

/// `folio tree`.
#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// Page to start from: p7 or page_… [default: all pages]
    #[arg(value_parser = page_ref, conflicts_with = "run")]
    page: Option<PageRef>,
    /// Show the pages of this run: r3 or run_…
    #[arg(long, value_parser = run_ref)]
    run: Option<RunRef>,
    /// Maximum depth [default, and most: 50 levels of pages]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Maximum pages to show. Pages nearer to the top come first; a page says how many below it are left out [default:
    /// 1000; with --json, all pages]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: Option<u32>,
}

/// How many pages people are shown unless they ask for more or less.
const PAGES: u32 = 1_000;

/// Carries out `folio tree`.
pub(crate) async fn run(context: &Context<'_>, tree: Tree) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let root = match (tree.page, tree.run) {
        (Some(page), _) => Some(page),
        (None, Some(run)) => {
            let run = workspace.run(run).await?;
            // A run's first page is its workspace, which contains all the others.
            let query = PageQuery {
                run: Some(run.id),
                limit: 1,
                ..PageQuery::default()
            };
            let pages = workspace.pages(&query).await?;
            let first = pages
                .first()
                .ok_or_else(|| Failure::new(Exit::NotFound, "not_found", format!("run {} has no pages", run.handle)))?;
            Some(Ref::Id(first.id))
        }
        (None, None) => None,
    };
    let mut places = workspace.tree_places(root).await?;
    if let Some(depth) = tree.depth {
        places.retain(|place| place.depth <= depth);
    }
    let limit = tree.limit.or_else(|| (!context.output.is_json()).then_some(PAGES));
    let pages = workspace.pages_called(PageTree::shown(&places, limit)).await?;
    context
        .output
        .report(&PageTree::of(&places, pages, context.settings.repeated()))?;
    if places.is_empty() {
        context.output.note("there are no pages yet");
    }
    Ok(Exit::Done)
}
