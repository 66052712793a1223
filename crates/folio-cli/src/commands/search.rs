//! `folio search`: finds entries by their words.

use clap::{Args, ValueEnum};
use folio::EntryQuery;
use folio::memory::{EntryKind, Status, Tag, TextMatch, TextQuery, scratchbook};

use super::Context;
use crate::arguments::not_blank;
use crate::error::{Exit, Failure};
use crate::report::found::Found;
use crate::report::list::{List, remark};

/// `folio search`.
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words to search for, in any form; punctuation is ignored
    ///
    /// Searches observations, scratchbooks and summaries of the space. With --thread, searches only the scratchbook of
    /// that thread.
    #[arg(value_name = "TEXT", required = true)]
    words: Vec<String>,
    /// Include entries with only some of the words even if others have all of them
    #[arg(long)]
    any: bool,
    /// Only this kind; repeatable, any may match
    #[arg(long, value_enum)]
    kind: Vec<Kind>,
    /// Only observations of this type; repeatable, any may match
    #[arg(long = "type", value_name = "TYPE", value_parser = not_blank)]
    types: Vec<String>,
    /// Only with this tag; repeatable, all must match
    #[arg(long = "tag", value_name = "TAG", value_parser = not_blank)]
    tags: Vec<String>,
    /// Include archived, expired and superseded entries
    #[arg(long)]
    all: bool,
    /// Maximum number of results
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue where an earlier search ended
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    Observation,
    Note,
    Todo,
    Task,
    Goal,
    PendingAction,
    Summary,
}

impl From<Kind> for EntryKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Observation => Self::Observation,
            Kind::Note => Self::Note,
            Kind::Todo => Self::Todo,
            Kind::Task => Self::Task,
            Kind::Goal => Self::Goal,
            Kind::PendingAction => Self::PendingAction,
            Kind::Summary => Self::Summary,
        }
    }
}

/// Carries out `folio search`. `--thread` on the command line restricts it to the scratchbook of that thread.
pub(crate) async fn run(context: &Context<'_>, search: Search) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let text = search.words.join(" ");
    if text.trim().is_empty() {
        return Err(Failure::usage("query_invalid", "the text to search for is empty"));
    }
    let match_mode = if search.any { TextMatch::Any } else { TextMatch::All };
    let text_query = TextQuery::of(&text, match_mode);
    if text_query.is_empty() {
        context.output.note(format_args!("{text:?} contains no words"));
    }
    let tags: Vec<_> = search.tags.iter().filter_map(|tag| Tag::parse(tag).ok()).collect();
    let settings = &context.settings;
    let page = (settings.names_thread).then(|| scratchbook::page_of(workspace.space(), &settings.thread).0);
    // A tag that nothing can have matches nothing (M7.2.13).
    let list = if tags.len() < search.tags.len() {
        List::whole(Vec::new(), workspace.head().await?.0)
    } else {
        let query = EntryQuery {
            page,
            kinds: search.kind.into_iter().map(EntryKind::from).collect(),
            types: search.types,
            status: if search.all { Status::ALL.to_vec() } else { Vec::new() },
            tags,
            text: Some(text),
            text_match: match_mode,
            include_expired: search.all,
            include_superseded: search.all,
            limit: search.limit,
            cursor: search.cursor,
            ..EntryQuery::default()
        };
        let now = workspace.now();
        let (mut answer, used) = workspace.search(&query).await?;
        workspace.begin_with_matches(&mut answer, &text_query).await?;
        if used != match_mode && answer.total > 0 {
            context
                .output
                .note("nothing matches all of the words; these match some of them");
        }
        List::scored(&answer, |entry, score| Found::of(entry, score, &text_query, now))
    };
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "nothing found") {
        context.output.note(remark);
        if page.is_some() && list.items.is_empty() {
            let thread = &settings.thread;
            let note = format_args!(
                "only the scratchbook of thread {thread} was searched; leave out --thread to search everything"
            );
            context.output.note(note);
        }
    }
    Ok(Exit::Done)
}
