//! `folio goals`: the goals and pending actions of a thread.

use clap::{Args, Subcommand};
use folio::Workspace;
use folio::memory::EntryKind;
use folio::memory::goals::GoalInput;
use folio::memory::id::EntryRef;
use folio::memory::query::MAX_LIMIT;
use folio::store::workspace::Guard;

use super::observe::{page_hint, wrong_kind_failure};
use super::several::Several;
use super::{Context, text_or_stdin};
use crate::arguments::entry_ref;
use crate::error::{Exit, Failure};
use crate::report::item::ScratchItem;
use crate::report::list::{List, remark};
use crate::report::turn::GoalShape;
use crate::report::written::{OneOrMore, Written};

/// `folio goals`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Goals {
    /// Include goals that are done
    #[arg(long)]
    all: bool,
    /// List those of every thread
    #[arg(long)]
    all_threads: bool,
    /// Maximum number of results
    #[arg(long, default_value_t = MAX_LIMIT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue where an earlier list ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(subcommand)]
    command: Option<GoalsCommand>,
}

/// What to do with goals.
#[derive(Debug, Subcommand)]
pub(crate) enum GoalsCommand {
    /// Add a goal
    Add(Box<Add>),
    /// Mark goals and pending actions as done
    Done(Done),
}

/// `folio goals add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Title of one line
    title: String,
    /// Key by which other entries name the goal in their context, such as book_flight_to_paris; its handle works as
    /// well
    #[arg(long)]
    key: Option<String>,
    /// More text; - reads it from standard input
    #[arg(long, default_value = "", value_name = "TEXT", hide_default_value = true)]
    body: String,
    /// Tag to find it by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Observation that the goal comes from: e42 or obs_…
    #[arg(long, value_name = "ENTRY", value_parser = entry_ref)]
    from: Option<EntryRef>,
    /// Add an action that waits for confirmation instead of a goal
    #[arg(long)]
    pending_action: bool,
}

/// `folio goals done`.
#[derive(Debug, Args)]
pub(crate) struct Done {
    /// Goals: e42 or obs_…
    #[arg(required = true, value_parser = entry_ref)]
    goals: Vec<EntryRef>,
}

/// Carries out `folio goals`.
pub(crate) async fn run(context: &Context<'_>, goals: Goals) -> Result<Exit, Failure> {
    let workspace = match goals.command {
        Some(GoalsCommand::Add(_)) => context.workspace().await?,
        _ => context.workspace_if_any().await?,
    };
    match goals.command {
        None => {
            let thread = (!goals.all_threads).then_some(&context.settings.thread);
            let found = workspace.goals_part(thread, goals.all, goals.limit, goals.cursor);
            let list = List::of(&found.await?, GoalShape::of);
            context.output.report(&list)?;
            if let Some(remark) = remark(&list, "there are no goals; add one with `folio goals add`") {
                context.output.advise(remark);
            }
        }
        Some(GoalsCommand::Add(add)) => {
            let kind = if add.pending_action {
                EntryKind::PendingAction
            } else {
                EntryKind::Goal
            };
            let input = GoalInput {
                title: add.title,
                body: text_or_stdin(add.body)?,
                tags: add.tags,
                key: add.key,
            };
            let thread = &context.settings.thread;
            let written = workspace
                .add_goal(&context.actor(), thread, kind, input, add.from)
                .await?;
            context.output.warnings(&written.warnings);
            let item = ScratchItem::of(&written.entry);
            context
                .output
                .report(&Written::of(item, &written.warnings, written.replayed))?;
        }
        Some(GoalsCommand::Done(done)) => {
            let actor = context.actor();
            check_names_goals(&workspace, &done.goals).await?;
            let results = Several::each(&workspace, done.goals, async |goal| {
                workspace.complete(&actor, goal, Guard::default()).await
            });
            return results.await?.report(|outcomes| {
                let items = outcomes
                    .iter()
                    .map(|one| Written::of(ScratchItem::of(&one.entry), &one.warnings, false));
                context.output.report(&OneOrMore::of(items.collect()))?;
                Ok(Exit::Done)
            });
        }
    }
    Ok(Exit::Done)
}

/// Checks that `names` are goals and pending actions: if one of them is not, none is marked as done. Reads the entries
/// directly, so that the trace does not record it.
async fn check_names_goals(workspace: &Workspace, names: &[EntryRef]) -> Result<(), Failure> {
    let mut entries = Vec::new();
    for name in names {
        entries.push(workspace.store().entry(workspace.space(), *name).await?);
    }
    for entry in &entries {
        let handle = entry.handle;
        let hint = match entry.kind {
            EntryKind::Goal | EntryKind::PendingAction => continue,
            EntryKind::Observation => format!("`folio observe resolve {handle}` resolves it"),
            kind if kind.is_item() => format!("`folio book complete {handle}` marks it as done"),
            _ => page_hint(workspace, entry).await?,
        };
        return Err(wrong_kind_failure(entry, "goals and pending actions").hint(hint));
    }
    Ok(())
}
