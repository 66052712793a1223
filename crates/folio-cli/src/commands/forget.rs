//! `folio forget`: erases the content of entries, and whole runs, permanently and everywhere.

use std::fmt::{self, Write as _};
use std::io::{BufRead as _, IsTerminal as _};

use clap::Args;
use folio::memory::counted::counted;
use folio::memory::entry::Owner;
use folio::memory::id::{EntryRef, RunRef};
use folio::memory::{EntryKind, Tag};
use folio::runner::remove_run_folders;
use folio::store::WorkspaceError;
use folio::store::workspace::ForgetFilter;
use folio::{EntryQuery, Workspace};
use folio_server::wire::{Forgot, Named};

use super::Context;
use super::observe::context_value;
use crate::arguments::pair;
use crate::counting::{untold, while_working};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// How many entries are shown before they are erased.
const SHOWN_ENTRIES_MAX: usize = 20;

/// `folio forget`. With several options, an entry has to match all of them.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// Entries (e42 or obs_…), and runs that have ended (r3 or run_…): these are forgotten as a whole
    #[arg(value_parser = named, value_name = "ENTRY|RUN")]
    what: Vec<Forgettable>,
    /// Entries that contain this text now, or did in an earlier version; alone, also what was said in turns, and names
    /// the runs that say it
    #[arg(long)]
    text: Option<String>,
    /// Entries of this type; repeatable, any may match
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Entries of this kind: observation, note, todo, task, …; repeatable, any may match
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// Entries with this tag; repeatable, all must match
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Entries with this value in their context; PATH may be a dotted path, with `\.` for a dot inside a key
    #[arg(long, value_name = "PATH=VALUE", value_parser = pair)]
    context: Vec<(String, String)>,
    /// Entries of this owner; repeatable, any may match
    #[arg(long)]
    owner: Vec<String>,
    /// Reason to record; it is kept, so do not repeat the content in it
    #[arg(long, default_value = "")]
    reason: String,
    /// Show what would be forgotten without forgetting it
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
}

/// Something that can be named to be forgotten.
#[derive(Debug, Clone, Copy)]
enum Forgettable {
    Entry(EntryRef),
    Run(RunRef),
}

fn named(text: &str) -> Result<Forgettable, String> {
    let run = || text.parse().map(Forgettable::Run);
    let named = text.parse().map(Forgettable::Entry).or_else(|_| run());
    named.map_err(|_| "neither an entry (e42, obs_01J…) nor a run (r3, run_01J…)".to_owned())
}

impl Report for Forgot {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let verb = if self.dry_run { "would forget" } else { "forgot" };
        for Named {
            handle,
            kind,
            type_name,
            created_at,
            ..
        } in &self.forgotten
        {
            let sort = type_name.clone().unwrap_or_else(|| kind.to_string());
            writeln!(out, "{verb} {handle} [{sort}] of {created_at}")?;
        }
        for turn in &self.turns {
            writeln!(out, "{verb} what was said in {turn}")?;
        }
        for run in &self.runs {
            writeln!(out, "{verb} {run}, with its pages and what was said in its turns")?;
        }
        for folder in &self.folders {
            writeln!(out, "removed {folder}")?;
        }
        if self.waiting > 0 {
            writeln!(out, "{verb} {} that waited in the outbox", self.waiting)?;
        }
        for run in &self.runs_saying {
            let label = style.warning("left");
            writeln!(
                out,
                "{label} {run}, which says it: `folio forget {run}` forgets the whole run"
            )?;
        }
        let Some(residue) = &self.residue else { return Ok(()) };
        for location in &residue.found {
            writeln!(out, "{} {location}", style.bad("still found in"))?;
        }
        for copy in &residue.backups {
            writeln!(
                out,
                "{} {copy} is an earlier copy, which you have to delete yourself",
                style.warning("copy")
            )?;
        }
        if residue.found.is_empty()
            && !residue.searched.is_empty()
            && !(self.forgotten.is_empty() && self.turns.is_empty() && self.runs.is_empty() && self.waiting == 0)
        {
            writeln!(
                out,
                "searched {}: nothing is left of it",
                counted(residue.searched.len() as u64, "place")
            )?;
        }
        if residue.not_looked_for > 0 {
            let (count, label) = (residue.not_looked_for, style.warning("not searched for"));
            writeln!(out, "{label} {count} of its texts: too short to recognise")?;
        }
        if residue.no_longer_known > 0 {
            let (count, label) = (residue.no_longer_known, style.warning("not searched for"));
            let (entries, or_runs) = (counted(count, "entry"), if count == 1 { "run" } else { "runs" });
            writeln!(
                out,
                "{label} the texts of {entries} or {or_runs}: forgotten before, so their content is no longer known; a copy found now was written since"
            )?;
        }
        Ok(())
    }
}

/// Carries out `folio forget`.
pub(crate) async fn run(context: &Context<'_>, forget: Forget) -> Result<Exit, Failure> {
    let (dry_run, yes, reason) = (forget.dry_run, forget.yes, forget.reason.clone());
    let filter = filter(forget)?;
    let workspace = context.workspace_if_any().await?;
    let dry = Forgot::dry_run(&workspace, &filter).await?;
    let is_nothing = dry.forgotten.is_empty() && dry.turns.is_empty() && dry.runs.is_empty() && dry.waiting == 0;
    if is_nothing {
        context.output.note("nothing matches");
    }
    // Queries and notes may contain a text that no entry contains, and an earlier `forget` of these entries may have
    // been interrupted.
    let may_be_left = filter.text.is_some() || is_nothing && workspace.forgotten_before(&filter).await? > 0;
    if dry_run || is_nothing && !may_be_left {
        context.output.report(&Forgot { dry_run, ..dry })?;
        return Ok(Exit::Done);
    }
    if !yes && !is_nothing {
        confirm(context, &workspace, &filter, &dry).await?;
    }
    let actor = context.actor();
    let forgetting = workspace.forget(&actor, &filter, &reason);
    let forgotten = while_working(context.output, "forgetting", untold, forgetting).await?;
    let folders = match &context.settings.run_folders {
        Some(folders) => remove_run_folders(folders.clone(), &forgotten.of_runs).await,
        None => Vec::new(),
    };
    context
        .output
        .report(&Forgot::done(forgotten, folders, dry.runs_saying))?;
    Ok(Exit::Done)
}

fn filter(forget: Forget) -> Result<ForgetFilter, Failure> {
    let kinds = forget.kind.iter().map(|kind| {
        let known = EntryKind::parse(kind);
        known.ok_or_else(|| Failure::usage("kind_invalid", format!("{kind:?} is not a kind of entry")))
    });
    let query = EntryQuery {
        kinds: kinds.collect::<Result<_, _>>()?,
        types: forget.types,
        tags: Tag::parse_all(forget.tags.iter().map(String::as_str)).map_err(WorkspaceError::from)?,
        owner: forget
            .owner
            .iter()
            .map(|owner| Owner::parse(owner))
            .collect::<Result<_, _>>()
            .map_err(WorkspaceError::from)?,
        context: forget.context.into_iter().map(context_value).collect(),
        ..EntryQuery::default()
    };
    let (mut entries, mut runs) = (Vec::new(), Vec::new());
    for named in forget.what {
        match named {
            Forgettable::Entry(entry) => entries.push(entry),
            Forgettable::Run(run) => runs.push(run),
        }
    }
    Ok(ForgetFilter {
        entries,
        runs,
        query,
        text: forget.text,
        ..ForgetFilter::default()
    })
}

/// Asks the person at the terminal for confirmation.
async fn confirm(
    context: &Context<'_>,
    workspace: &Workspace,
    filter: &ForgetFilter,
    dry: &Forgot,
) -> Result<(), Failure> {
    let refused = |message: &str| Failure::new(Exit::Refused, "not_confirmed", message.to_owned());
    if !std::io::stdin().is_terminal() || context.output.is_json() {
        return Err(refused(
            "forgetting cannot be undone, and there is no terminal to confirm it; pass --yes",
        ));
    }
    for entry in workspace.to_forget(filter).await?.iter().take(SHOWN_ENTRIES_MAX) {
        let text = if entry.fields.title.is_empty() {
            &entry.fields.body
        } else {
            &entry.fields.title
        };
        let line = text.lines().next().unwrap_or_default();
        context.output.ask(format_args!("{} {line}", entry.handle));
    }
    for run in workspace.runs_to_forget(filter).await?.iter().take(SHOWN_ENTRIES_MAX) {
        context.output.ask(format_args!("{} {}", run.handle, run.title));
    }
    for turn in dry.turns.iter().take(SHOWN_ENTRIES_MAX) {
        context.output.ask(format_args!("what was said in {turn}"));
    }
    let more = match dry.waiting {
        0 => String::new(),
        waiting => format!(" and {waiting} that wait in the outbox"),
    };
    context.output.ask(format_args!(
        "Forget these {}{more} permanently? This cannot be undone. [y/N]",
        dry.forgotten.len() + dry.runs.len() + dry.turns.len()
    ));
    let mut answer = String::new();
    let read_result = std::io::stdin().lock().read_line(&mut answer);
    read_result.map_err(|error| Failure::cannot("read from", "standard input", error))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(refused("nothing was forgotten"))
    }
}
