//! `folio episodes`: earlier turns as they are remembered.

use clap::Args;
use folio::Timestamp;
use folio::store::workspace::EpisodeQuery;
use folio_server::wire::EpisodesShape;

use super::Context;
use crate::error::{Exit, Failure};
use crate::report::list::remark;

/// `folio episodes`.
#[derive(Debug, Args)]
pub(crate) struct Episodes {
    /// Only turns with all of these words in their input or in an entry they touched
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Only turns that began at this time or later (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    from: Option<Timestamp>,
    /// Only turns that began before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    until: Option<Timestamp>,
    /// List those of every thread
    #[arg(long)]
    all_threads: bool,
    /// Maximum number of results
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// Carries out `folio episodes`.
pub(crate) async fn run(context: &Context<'_>, episodes: Episodes) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let query = EpisodeQuery {
        thread: (!episodes.all_threads).then(|| context.settings.thread.clone()),
        from: episodes.from,
        until: episodes.until,
        text: (!episodes.words.is_empty()).then(|| episodes.words.join(" ")),
        before: None,
        limit: episodes.limit as usize + 1,
    };
    let as_of = workspace.head().await?.0;
    let now = workspace.now();
    let answer = workspace.episodes(&query).await?;
    let shape = EpisodesShape::of(&answer, episodes.limit, as_of, now);
    context.output.report(&shape)?;
    if let Some(from) = shape.searched_from {
        context.output.note(format_args!(
            "{} among the newest 1,000 turns; --until {from} searches older ones",
            shape.list.returned
        ));
        return Ok(Exit::Done);
    }
    if let Some(remark) = remark(&shape.list, "no ended turn matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
