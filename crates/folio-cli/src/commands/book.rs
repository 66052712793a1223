//! `folio book`: the scratchbook of a thread.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use folio::memory::counted::counted;
use folio::memory::id::EntryRef;
use folio::memory::{Entry, EntryKind, Owner, Status, Tag};
use folio::store::Written;
use folio::store::workspace::{BookFilter, Guard, ViewRequest};
use folio::{ItemInput, ItemPatch, Workspace};

use super::context::ModelArgument;
use super::observe::{page_hint, wrong_kind_failure};
use super::several::Several;
use super::{Context, text_or_stdin, with_idempotency_key};
use crate::arguments::{entry_ref, not_blank, replacement_values};
use crate::error::{Exit, Failure};
use crate::report::item::{InFull, ScratchItem};
use crate::report::list::{List, remark};
use crate::report::view::ViewShape;
use crate::report::written::{self, OneOrMore};

/// `folio book`.
#[derive(Debug, Subcommand)]
pub(crate) enum Book {
    /// Show the scratchbook as a model reads it, within a token budget
    View(View),
    /// List items: pinned ones, tasks, todos, notes
    List(ListArguments),
    /// Show everything about an item
    Get(Get),
    /// Add a note, a todo or a task
    Add(Box<Add>),
    /// Change an item
    Update(Box<Update>),
    /// Mark items as done
    Complete(Items),
    /// Claim an item so that nobody else works on it, or renew a claim
    Claim(Claim),
    /// Release a claimed item, which opens it again
    Release(Release),
    /// Reopen items that are done
    Reopen(Items),
    /// Pin items to the top
    Pin(Items),
    /// Unpin items
    Unpin(Items),
}

/// `folio book get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Item: e42 or obs_…
    #[arg(value_parser = entry_ref)]
    item: EntryRef,
    /// Show long texts in full, not only their beginning
    #[arg(long)]
    whole: bool,
}

/// `folio book claim`.
#[derive(Debug, Args)]
pub(crate) struct Claim {
    /// Item: e42 or obs_…
    #[arg(value_parser = entry_ref)]
    item: EntryRef,
    /// Who claims it [default: FOLIO_USER, else user]
    #[arg(long)]
    owner: Option<String>,
    /// Minutes until the claim expires and somebody else may take it [default: it lasts until the item is done or
    /// released]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=525_600))]
    lease_minutes: Option<u32>,
}

/// `folio book release`.
#[derive(Debug, Args)]
pub(crate) struct Release {
    /// Item: e42 or obs_…
    #[arg(value_parser = entry_ref)]
    item: EntryRef,
    /// Who claimed it [default: FOLIO_USER, else user]
    #[arg(long)]
    owner: Option<String>,
}

/// `folio book view`.
#[derive(Debug, Args)]
pub(crate) struct View {
    /// Token budget [default: as the policy of the space says]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    budget: Option<u32>,
    /// Maximum lines in a section [default: as the policy of the space says]
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(1..=200))]
    max_items: Option<u32>,
    /// Context window of the model in tokens; the view takes at most a fifth of it
    #[arg(long, value_name = "TOKENS")]
    window: Option<u32>,
    #[command(flatten)]
    model: ModelArgument,
}

/// `folio book list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Only this kind; repeatable, any may match
    #[arg(long, value_enum)]
    kind: Vec<Kind>,
    /// Only this status; repeatable, any may match
    #[arg(long, value_enum, conflicts_with = "all")]
    status: Vec<StatusArgument>,
    /// Only with this tag; repeatable, all must match
    #[arg(long = "tag", value_name = "TAG", value_parser = not_blank)]
    tags: Vec<String>,
    /// Include archived items
    #[arg(long)]
    all: bool,
    /// Maximum number of results
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue where an earlier list ended
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Note,
    Todo,
    Task,
}

impl From<Kind> for EntryKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Note => Self::Note,
            Kind::Todo => Self::Todo,
            Kind::Task => Self::Task,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum StatusArgument {
    Open,
    InProgress,
    Blocked,
    Done,
    Active,
    PendingReview,
    Resolved,
    Archived,
}

impl From<StatusArgument> for Status {
    fn from(status: StatusArgument) -> Self {
        match status {
            StatusArgument::Open => Self::Open,
            StatusArgument::InProgress => Self::InProgress,
            StatusArgument::Blocked => Self::Blocked,
            StatusArgument::Done => Self::Done,
            StatusArgument::Active => Self::Active,
            StatusArgument::PendingReview => Self::PendingReview,
            StatusArgument::Resolved => Self::Resolved,
            StatusArgument::Archived => Self::Archived,
        }
    }
}

/// `folio book add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Kind of item
    kind: Kind,
    /// Title of one line
    title: String,
    /// More text; - reads it from standard input
    #[arg(long, default_value = "", value_name = "TEXT", hide_default_value = true)]
    body: String,
    /// Tag to find it by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Phase that the task is in
    #[arg(long)]
    phase: Option<String>,
    /// Progress of the task, from 0 to 1
    #[arg(long, value_name = "NUMBER")]
    progress: Option<f64>,
    /// Add it only once, however often you repeat the command with this key
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,
}

/// `folio book update`.
#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Item: e42 or obs_…
    #[arg(value_parser = entry_ref)]
    item: EntryRef,
    #[command(flatten)]
    fields: Fields,
    /// Do it only if the entry still has this version
    #[arg(long, value_name = "VERSION")]
    expected_version: Option<u32>,
    /// Version that the change is based on; fields that others changed since then and that this overwrites are reported
    #[arg(long, value_name = "VERSION")]
    base_version: Option<u32>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Fields {
    /// New title
    #[arg(long)]
    title: Option<String>,
    /// New text; - reads it from standard input
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// New status: open, in_progress, blocked, done or archived; for a note active, resolved or archived
    #[arg(long)]
    status: Option<String>,
    /// Tag that replaces all tags; repeatable; an empty one removes them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// New phase; an empty one removes it
    #[arg(long)]
    phase: Option<String>,
    /// New progress, from 0 to 1
    #[arg(long, value_name = "NUMBER")]
    progress: Option<f64>,
}

/// Which items.
#[derive(Debug, Args)]
pub(crate) struct Items {
    /// Items: e42 or obs_…
    #[arg(required = true, value_parser = entry_ref)]
    items: Vec<EntryRef>,
}

/// Carries out `folio book`.
pub(crate) async fn run(context: &Context<'_>, book: Book) -> Result<Exit, Failure> {
    let workspace = match book {
        Book::Add(_) => context.workspace().await?,
        _ => context.workspace_if_any().await?,
    };
    let workspace = &workspace;
    let actor = &context.actor();
    let written = match book {
        Book::View(view) => return self::view(context, workspace, view).await,
        Book::List(wanted) => return list(context, workspace, wanted).await,
        Book::Get(get) => return self::get(context, workspace, get).await,
        Book::Add(new) => return add(context, workspace, *new).await,
        Book::Update(update) => return self::update(context, workspace, *update).await,
        Book::Claim(claim) => return self::claim(context, workspace, claim).await,
        Book::Release(release) => return self::release(context, workspace, release).await,
        Book::Complete(Items { items }) => {
            Several::each(workspace, items, async |item| {
                workspace.complete(actor, item, Guard::default()).await
            })
            .await
        }
        Book::Reopen(Items { items }) => {
            let reopen = async |item| workspace.reopen(actor, item, Guard::default()).await;
            Several::each(workspace, items, reopen).await
        }
        Book::Pin(Items { items }) => {
            Several::each(workspace, items, async |item| workspace.pin_item(actor, item).await).await
        }
        Book::Unpin(Items { items }) => {
            Several::each(workspace, items, async |item| workspace.unpin_item(actor, item).await).await
        }
    };
    written?.report(|written| answer(context, written))
}

async fn list(context: &Context<'_>, workspace: &Workspace, wanted: ListArguments) -> Result<Exit, Failure> {
    let tags: Result<Vec<_>, _> = wanted.tags.iter().map(|tag| Tag::parse(tag)).collect();
    let filter = BookFilter {
        kinds: wanted.kind.into_iter().map(EntryKind::from).collect(),
        status: if wanted.all {
            Status::ALL.into()
        } else {
            wanted.status.into_iter().map(Status::from).collect()
        },
        tags: tags.map_err(|invalid| Failure::usage(&invalid.code, invalid.message))?,
        limit: wanted.limit as usize,
        cursor: wanted.cursor,
    };
    let items = workspace.book_items(&context.settings.thread, filter).await?;
    let list = List::of(&items, ScratchItem::of);
    context.output.report(&list)?;
    if let Some(remark) = remark(&list, "no item in this scratchbook matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}

async fn get(context: &Context<'_>, workspace: &Workspace, get: Get) -> Result<Exit, Failure> {
    let mut entry = item(workspace, get.item).await?;
    if get.whole {
        entry = workspace.in_whole(entry).await?;
    }
    context
        .output
        .report(&InFull::at(ScratchItem::of(&entry), workspace.now()))?;
    Ok(Exit::Done)
}

async fn add(context: &Context<'_>, workspace: &Workspace, new: Add) -> Result<Exit, Failure> {
    let input = ItemInput {
        kind: new.kind.into(),
        title: Some(new.title),
        body: text_or_stdin(new.body)?,
        tags: new.tags,
        phase: new.phase,
        progress: new.progress,
    };
    let thread = &context.settings.thread;
    let request = ("item", &thread.0, &input);
    let (keyed, key) = with_idempotency_key(context, workspace, "book add", new.idempotency_key, &request);
    answer(context, &[keyed.add_item(&context.actor(), thread, input, key).await?])
}

async fn update(context: &Context<'_>, workspace: &Workspace, update: Update) -> Result<Exit, Failure> {
    let guard = Guard {
        expected_version: update.expected_version,
        base_version: update.base_version,
        ..Guard::default()
    };
    let fields = update.fields;
    let patch = ItemPatch {
        title: fields.title,
        body: fields.body.map(text_or_stdin).transpose()?,
        status: fields.status,
        tags: fields.tags.map(replacement_values),
        phase: fields.phase,
        progress: fields.progress,
        ..ItemPatch::default()
    };
    let actor = context.actor();
    let updated = workspace.update_item_under(&actor, update.item, patch, guard);
    answer(context, &[updated.await?])
}

async fn claim(context: &Context<'_>, workspace: &Workspace, claim: Claim) -> Result<Exit, Failure> {
    let owner = claimant(context, claim.owner.as_deref())?;
    let lease = claim
        .lease_minutes
        .map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
    let (actor, guard) = (context.actor(), Guard::default());
    let claimed = workspace.claim(&actor, claim.item, &owner, lease, guard).await?;
    let until = claim.lease_minutes.map_or_else(
        || "until it is done or released".to_owned(),
        |minutes| format!("for {}", counted(u64::from(minutes), "minute")),
    );
    context.output.note(format_args!("claimed by {owner} {until}"));
    answer(context, &[claimed])
}

async fn release(context: &Context<'_>, workspace: &Workspace, release: Release) -> Result<Exit, Failure> {
    let owner = claimant(context, release.owner.as_deref())?;
    let (actor, guard) = (context.actor(), Guard::default());
    let released = workspace.give_up(&actor, release.item, &owner, guard).await?;
    answer(context, &[released])
}

/// Returns the item called `name`. For an entry that is not an item, the failure says what it is, and which command
/// shows it.
async fn item(workspace: &Workspace, name: EntryRef) -> Result<Entry, Failure> {
    let entry = workspace.entry(name).await?;
    if entry.kind.is_item() {
        return Ok(entry);
    }
    let hint = if entry.kind == EntryKind::Observation {
        format!("`folio observe get {}` shows it", entry.handle)
    } else {
        page_hint(workspace, &entry).await?
    };
    Err(wrong_kind_failure(&entry, "notes, todos and tasks").hint(hint))
}

async fn view(context: &Context<'_>, workspace: &Workspace, view: View) -> Result<Exit, Failure> {
    let request = ViewRequest {
        turn: context.settings.turn,
        view_token_limit: view.budget,
        max_rendered_items: view.max_items,
        window: view.window,
        ..ViewRequest::of(context.settings.thread.clone())
    };
    let found = workspace.view(request, &view.model.counter(context)).await?;
    let items = workspace
        .book_items(&context.settings.thread, BookFilter::beside_a_view())
        .await?
        .items;
    let shape = ViewShape::of(&found, &items);
    context.output.report(&shape)?;
    let (tokens, omitted) = (shape.receipt.tokens, shape.receipt.omitted());
    if let Some(why) = found.instead() {
        context.output.note(why);
    } else if omitted > 0 {
        let tokens = counted(tokens.into(), "token");
        context
            .output
            .note(format_args!("{tokens}; {omitted} left out; --json lists them"));
    }
    Ok(Exit::Done)
}

fn owner(name: &str) -> Result<Owner, Failure> {
    Owner::parse(name).map_err(|invalid| Failure::usage(&invalid.code, invalid.message))
}

/// Who claims: `given`, or else the name that the caller was given, so that agents of one account do not share claims.
fn claimant(context: &Context<'_>, given: Option<&str>) -> Result<Owner, Failure> {
    let named = context.settings.named_user.as_deref();
    given.or(named).map_or_else(|| Ok(Owner::user()), owner)
}

fn answer(context: &Context<'_>, all: &[Written]) -> Result<Exit, Failure> {
    for written in all {
        context.output.warnings(&written.warnings);
        if written.replayed {
            context
                .output
                .note("this idempotency key was used before; nothing was written again");
        }
    }
    let shapes = all
        .iter()
        .map(|one| written::Written::of(ScratchItem::of(&one.entry), &one.warnings, one.replayed).over(&one.conflicts));
    context.output.report(&OneOrMore::of(shapes.collect()))?;
    Ok(Exit::Done)
}
