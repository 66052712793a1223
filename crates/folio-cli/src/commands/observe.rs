//! `folio observe`: the observations of a space.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use folio::memory::entry::{Family, Owner};
use folio::memory::id::{EntryRef, Ref};
use folio::memory::observation::TtlInput;
use folio::memory::tool_exchange::least_of;
use folio::memory::{Entry, EntryKind, Invalid, Order, Seq, Status, Tag, TextMatch};
use folio::store::workspace::Guard;
use folio::store::{WorkspaceError, Written};
use folio::{EntryQuery, ObservationInput, ObservationPatch, Workspace};
use serde_json::{Map, Value};

use super::life::{self, Answer, Life, version_for_many};
use super::several::Several;
use super::{Context, check_given_once, json_file, json_or_text, text_or_stdin, with_idempotency_key};
use crate::arguments::{entry_ref, not_blank, pair, pair_or_none, replacement_values};
use crate::error::{Exit, Failure};
use crate::report::list::{List, remark};
use crate::report::observation::{InFull, Observation};
use crate::report::written::{self, AnyEntry, OneOrMore};

/// The code for an entry of another kind than the command is for.
const OTHER_KIND: &str = "kind_invalid";

/// `folio observe`.
#[derive(Debug, Subcommand)]
pub(crate) enum Observe {
    /// Record an observation
    Add(Box<Add>),
    /// List observations, newest first, or those that match some words
    List(Box<ListObservations>),
    /// Show everything about an observation
    Get(Get),
    /// Change an observation without extending its lifetime
    Update(Box<Update>),
    /// Archive observations
    Archive(Archive),
    /// List the most important live observations
    ///
    /// Alerts come first, then observations by confidence, then by age, newest first.
    Active(Active),
    /// What becomes of observations
    #[command(flatten)]
    Life(Life),
}

/// `folio observe add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Text of the observation; - reads it from standard input
    #[arg(value_name = "TEXT", required_unless_present = "from")]
    content: Option<String>,
    /// Read the whole observation from this file, a JSON object with the fields of an observation; - reads it from
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["content", "type_name", "title", "confidence", "tags",
        "ttl_minutes", "expires_at", "owner", "status", "context", "metadata"])]
    from: Option<PathBuf>,
    /// Type: contextual_insight, risk_alert, pending_confirmation, … [default: observation]
    #[arg(long = "type", value_name = "TYPE")]
    type_name: Option<String>,
    /// Title of one line
    #[arg(long)]
    title: Option<String>,
    /// Confidence: 0 to 1, or low, medium, high [default: 0.5]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    confidence: Option<String>,
    /// Tag to find it by; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Lifetime in minutes, or never [default: that of its type; 7 days for built-in types]
    #[arg(long, value_name = "MINUTES", allow_hyphen_values = true)]
    ttl_minutes: Option<String>,
    /// Time at which it expires (RFC 3339)
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// Who should act on it: agent, user, tool:NAME, role:NAME [default: agent]
    #[arg(long)]
    owner: Option<String>,
    /// Status: active, pending_review or resolved [default: active]
    #[arg(long)]
    status: Option<String>,
    /// What it is about, such as goal_id=g1; repeatable. A dot is part of KEY, which lists write as `\.`
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    context: Vec<(String, String)>,
    /// Other data to keep with it; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Add it only once, however often you repeat the command with this key
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,
}

/// `folio observe list`.
#[derive(Debug, Args)]
pub(crate) struct ListObservations {
    /// Only this type; repeatable, any may match
    #[arg(long = "type", value_name = "TYPE", value_parser = not_blank)]
    types: Vec<String>,
    /// Only this status; repeatable, any may match [default: all but archived; with --since, all]
    #[arg(long, value_parser = not_blank)]
    status: Vec<String>,
    /// Only this owner; repeatable, any may match
    #[arg(long, value_parser = not_blank)]
    owner: Vec<String>,
    /// Only with this tag; repeatable, all must match
    #[arg(long = "tag", value_name = "TAG", value_parser = not_blank)]
    tags: Vec<String>,
    /// Only with this tag; repeatable, any may match
    #[arg(long, value_name = "TAG", value_parser = not_blank)]
    tag_any: Vec<String>,
    /// Only without this tag; repeatable
    #[arg(long, value_name = "TAG", value_parser = not_blank)]
    tag_none: Vec<String>,
    /// Only with this value in the context; PATH may be a dotted path, with `\.` for a dot inside a key
    #[arg(long, value_name = "PATH=VALUE", value_parser = pair)]
    context: Vec<(String, String)>,
    /// Only with at least this confidence: 0 to 1, or low, medium, high
    #[arg(long, value_name = "NUMBER", value_parser = least_sure)]
    min_confidence: Option<f64>,
    /// Only those added, changed, archived, restored or superseded after this commit
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
    /// Show memory as it was at this commit
    #[arg(long, value_name = "SEQ")]
    as_of: Option<u64>,
    /// Only with these words in the title, text or tags
    #[arg(long, value_parser = not_blank)]
    text: Option<String>,
    /// How many of the words of --text must match
    #[arg(
        long = "match",
        value_name = "HOW",
        value_enum,
        default_value = "all",
        requires = "text"
    )]
    text_match: MatchArgument,
    /// Sort order [default: relevance with --text, else newest]
    #[arg(long, value_enum)]
    order: Option<OrderArgument>,
    /// Maximum number of results
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue where an earlier list ended
    #[arg(long)]
    cursor: Option<String>,
    /// Include expired observations
    #[arg(long)]
    include_expired: bool,
    /// Include observations that another one superseded
    #[arg(long)]
    include_superseded: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MatchArgument {
    All,
    Any,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OrderArgument {
    Relevance,
    Newest,
    Oldest,
    Priority,
}

/// Parses a minimum confidence.
fn least_sure(text: &str) -> Result<f64, String> {
    least_of(&Value::from(text)).ok_or_else(|| "is not a number from 0 to 1, low, medium or high".to_owned())
}

/// `folio observe get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Observation: e42 or obs_…
    #[arg(value_parser = entry_ref)]
    observation: EntryRef,
    /// Show long texts in full, not only their beginning
    #[arg(long)]
    whole: bool,
}

/// `folio observe update`.
#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Observation: e42 or obs_…
    #[arg(value_parser = entry_ref)]
    observation: EntryRef,
    #[command(flatten)]
    fields: Fields,
    /// Do it only if the entry still has this version
    #[arg(long, value_name = "VERSION")]
    expected_version: Option<u32>,
    /// Version that the change is based on; fields that others changed since then and that this overwrites are reported
    #[arg(long, value_name = "VERSION")]
    base_version: Option<u32>,
    /// Change it only once, however often you repeat the command with this key
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Fields {
    /// New text; - reads it from standard input
    #[arg(long, value_name = "TEXT")]
    content: Option<String>,
    /// New title
    #[arg(long)]
    title: Option<String>,
    /// New status: active, pending_review, resolved or archived
    #[arg(long)]
    status: Option<String>,
    /// New confidence: 0 to 1, or low, medium, high
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    confidence: Option<String>,
    /// Tag that replaces all tags; repeatable; an empty one removes them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// New owner, who should act on it
    #[arg(long)]
    owner: Option<String>,
    /// Context that replaces the whole context; repeatable; an empty one removes it
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair_or_none)]
    context: Option<Vec<(String, String)>>,
    /// Metadata that replaces all metadata; repeatable; an empty one removes it
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair_or_none)]
    metadata: Option<Vec<(String, String)>>,
    /// Read the change from this file instead, a JSON object with the fields to change; - reads it from standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["content", "title", "status", "confidence", "tags", "owner",
        "context", "metadata"])]
    from: Option<PathBuf>,
}

/// `folio observe archive`.
#[derive(Debug, Args)]
pub(crate) struct Archive {
    /// Observations: e42 or obs_…
    #[arg(required = true, value_parser = entry_ref)]
    observations: Vec<EntryRef>,
    /// Do it only if the observation still has this version; for one observation
    #[arg(long, value_name = "VERSION")]
    expected_version: Option<u32>,
    /// Reason to record
    #[arg(long)]
    reason: Option<String>,
}

impl Archive {
    /// The arguments to archive `observations`.
    pub(crate) fn of(observations: Vec<EntryRef>, reason: Option<String>) -> Self {
        Self {
            observations,
            expected_version: None,
            reason,
        }
    }
}

/// `folio observe active`.
#[derive(Debug, Args)]
pub(crate) struct Active {
    /// Maximum number of results
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

/// Carries out `folio observe`.
pub(crate) async fn run(context: &Context<'_>, observe: Observe) -> Result<Exit, Failure> {
    let workspace = match observe {
        Observe::Add(_) => context.workspace().await?,
        _ => context.workspace_if_any().await?,
    };
    match observe {
        Observe::Add(add) => {
            let (input, key) = input(*add)?;
            let (keyed, key) = with_idempotency_key(context, &workspace, "observe add", key, &("observation", &input));
            let written = keyed.add_observation(&context.actor(), input, key).await?;
            answer(context, &workspace, &[written])
        }
        Observe::List(list) => {
            check_context_paths(&list.context)?;
            let (query, unknown) = query(*list);
            for name in &unknown {
                context
                    .output
                    .note(format_args!("no observation can have the status {name:?}"));
            }
            let list = match query {
                Some(query) => List::scored(&workspace.observations(query).await?, |entry, score| {
                    shape(&workspace, entry).with_score(score)
                }),
                None => List::whole(Vec::new(), workspace.head().await?.0),
            };
            show(context, &list)
        }
        Observe::Life(life) => match life::run(context, &workspace, life).await? {
            Answer::Written(several) => several.report(|written| answer(context, &workspace, written)),
            Answer::Reported(exit) => Ok(exit),
        },
        Observe::Get(get) => {
            let mut entry = workspace.entry(get.observation).await?;
            require_observation(&workspace, &entry).await?;
            if get.whole {
                entry = workspace.in_whole(entry).await?;
            }
            context.output.report(&InFull(shape(&workspace, &entry)))?;
            Ok(Exit::Done)
        }
        Observe::Update(update) => {
            let patch = patch(update.fields)?;
            let request = (
                "update",
                update.observation.to_string(),
                update.expected_version,
                &patch,
            );
            let key = update.idempotency_key;
            let (keyed, key) = with_idempotency_key(context, &workspace, "observe update", key, &request);
            let guard = Guard {
                expected_version: update.expected_version,
                base_version: update.base_version,
                idempotency_key: key,
                reason: None,
            };
            let written = keyed
                .update_observation_under(&context.actor(), update.observation, patch, guard)
                .await;
            if matches!(&written, Err(WorkspaceError::Invalid(invalid)) if invalid.code == OTHER_KIND) {
                check_names_observation(&workspace, update.observation).await?;
            }
            answer(context, &workspace, &[written?])
        }
        Observe::Archive(archive) => {
            // None is archived if one of them is not an observation.
            for observation in &archive.observations {
                check_names_observation(&workspace, *observation).await?;
            }
            archive_entries(context, &workspace, archive).await
        }
        Observe::Active(active) => {
            let found = workspace.active_observations(active.limit as usize).await?;
            show(context, &List::of(&found, |entry| shape(&workspace, entry)))
        }
    }
}

/// Refuses a filter that names the same place in the context twice. No entry has two values there, so it would find
/// nothing.
fn check_context_paths(filter: &[(String, String)]) -> Result<(), Failure> {
    let path = |(path, _): &'_ (String, String)| path_in_context(path).to_owned();
    let mut seen = std::collections::HashSet::new();
    match filter.iter().map(path).find(|path| !seen.insert(path.clone())) {
        None => Ok(()),
        Some(path) => {
            let message = format!("--context names {path} more than once");
            Err(Failure::usage("query_invalid", message))
        }
    }
}

/// A filter by a value of the context: where it is, and the value.
pub(super) fn context_value((path, value): (String, String)) -> (String, Value) {
    (path_in_context(&path).to_owned(), json_or_text(&value))
}

/// The place in the context that `path` names, with `context.` before it or without.
fn path_in_context(path: &str) -> &str {
    path.strip_prefix("context.").unwrap_or(path)
}

/// Checks that `name` is an observation. Reads the entry directly, so that the trace does not record it.
pub(super) async fn check_names_observation(workspace: &Workspace, name: EntryRef) -> Result<(), Failure> {
    let entry = workspace.store().entry(workspace.space(), name).await?;
    require_observation(workspace, &entry).await
}

/// Checks that `entry` is an observation. Otherwise the failure says what it is, and which command is for it.
async fn require_observation(workspace: &Workspace, entry: &Entry) -> Result<(), Failure> {
    if entry.kind == EntryKind::Observation {
        return Ok(());
    }
    let handle = entry.handle;
    let hint = match entry.kind {
        kind if kind.is_item() => format!(
            "`folio book get {handle}` shows it, `folio book update {handle}` changes it, `folio archive {handle}` archives it"
        ),
        EntryKind::Goal | EntryKind::PendingAction => "`folio goals` shows goals and pending actions".to_owned(),
        _ => page_hint(workspace, entry).await?,
    };
    Err(wrong_kind_failure(entry, "observations").hint(hint))
}

/// The failure for a command that is for `expected` but got `entry`, which is of another kind.
pub(super) fn wrong_kind_failure(entry: &Entry, expected: &str) -> Failure {
    let message = format!(
        "kind: {} is of kind {}; this is for {expected}",
        entry.handle, entry.kind
    );
    Failure::usage(OTHER_KIND, message)
}

/// A hint with the command that shows the page of `entry`.
pub(super) async fn page_hint(workspace: &Workspace, entry: &Entry) -> Result<String, Failure> {
    let page = workspace.page(Ref::Id(entry.page)).await?.handle;
    Ok(format!("`folio page show {page}` shows its page"))
}

/// Archives the named entries, of whatever kind.
pub(super) async fn archive_entries(
    context: &Context<'_>,
    workspace: &Workspace,
    archive: Archive,
) -> Result<Exit, Failure> {
    if archive.expected_version.is_some() && archive.observations.len() > 1 {
        return Err(version_for_many().hint("name the observations one by one"));
    }
    let actor = context.actor();
    let guard = Guard {
        expected_version: archive.expected_version,
        reason: archive.reason,
        ..Guard::default()
    };
    let archived = Several::each(workspace, archive.observations, async |entry| {
        workspace.archive_under(&actor, entry, guard.clone()).await
    });
    archived.await?.report(|archived| answer(context, workspace, archived))
}

fn shape(workspace: &Workspace, entry: &Entry) -> Observation {
    Observation::of(entry, workspace.now())
}

fn show(context: &Context<'_>, list: &List<Observation>) -> Result<Exit, Failure> {
    context.output.report(list)?;
    if let Some(remark) = remark(list, "no observation matches") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}

fn answer(context: &Context<'_>, workspace: &Workspace, all: &[Written]) -> Result<Exit, Failure> {
    for written in all {
        context.output.warnings(&written.warnings);
        if written.replayed {
            context
                .output
                .note("this idempotency key was used before; nothing was written again");
        }
    }
    let now = workspace.now();
    let shapes = all.iter().map(|one| {
        written::Written::of(AnyEntry::of(&one.entry, now), &one.warnings, one.replayed).over(&one.conflicts)
    });
    context.output.report(&OneOrMore::of(shapes.collect()))?;
    Ok(Exit::Done)
}

fn input(add: Add) -> Result<(ObservationInput, Option<String>), Failure> {
    if let Some(file) = add.from {
        return Ok((
            ObservationInput::from_json(&json_file(&file, "an observation")?).map_err(refused)?,
            add.idempotency_key,
        ));
    }
    let input = ObservationInput {
        type_name: add.type_name,
        content: text_or_stdin(add.content.unwrap_or_default())?,
        title: add.title,
        confidence: add.confidence.map(|text| json_or_text(&text)),
        tags: add.tags,
        ttl_minutes: match add.ttl_minutes.as_deref() {
            None => TtlInput::Absent,
            Some("never") => TtlInput::Never,
            Some(text) => TtlInput::Given(json_or_text(text)),
        },
        expires_at: add.expires_at,
        owner: add.owner,
        status: add.status,
        context: object("--context", add.context)?,
        metadata: object("--metadata", add.metadata)?,
        ..ObservationInput::default()
    };
    Ok((input, add.idempotency_key))
}

fn refused(invalid: Invalid) -> Failure {
    WorkspaceError::from(invalid).into()
}

fn patch(fields: Fields) -> Result<ObservationPatch, Failure> {
    if let Some(file) = fields.from {
        return ObservationPatch::from_json(&json_file(&file, "a change of an observation")?).map_err(refused);
    }
    let mut cleared = Vec::new();
    let mut replacement = |option: &str, pairs: Option<Vec<(String, String)>>| match pairs {
        Some(pairs) if matches!(&pairs[..], [(key, _)] if key.is_empty()) => {
            cleared.push(option.trim_start_matches('-').to_owned());
            Ok(None)
        }
        Some(pairs) if pairs.iter().any(|(key, _)| key.is_empty()) => {
            let message = format!("an empty {option} removes all values; it cannot be combined with others");
            Err(Failure::usage("usage", message))
        }
        pairs => object(option, pairs.unwrap_or_default()),
    };
    let (context, metadata) = (
        replacement("--context", fields.context)?,
        replacement("--metadata", fields.metadata)?,
    );
    Ok(ObservationPatch {
        content: fields.content.map(text_or_stdin).transpose()?,
        title: fields.title,
        confidence: fields.confidence.map(|text| json_or_text(&text)),
        tags: fields.tags.map(replacement_values),
        owner: fields.owner,
        status: fields.status,
        context,
        metadata,
        cleared,
        ..ObservationPatch::default()
    })
}

/// The query, and the names of statuses that do not exist. A value that no entry can have is not a mistake but matches
/// nothing (M7.2.13): then there is no query.
fn query(list: ListObservations) -> (Option<EntryQuery>, Vec<String>) {
    let known = |name: &String| Status::parse_in(name, Family::Knowledge);
    let unknown: Vec<_> = list
        .status
        .iter()
        .filter(|name| known(name).is_none())
        .cloned()
        .collect();
    let status: Vec<_> = list.status.iter().filter_map(known).collect();
    let owner: Vec<_> = list.owner.iter().filter_map(|name| Owner::parse(name).ok()).collect();
    let tags = |names: &[String]| {
        names
            .iter()
            .filter_map(|name| Tag::parse(name).ok())
            .collect::<Vec<_>>()
    };
    let (all, any, none) = (tags(&list.tags), tags(&list.tag_any), tags(&list.tag_none));
    let impossible = (status.is_empty() && !list.status.is_empty())
        || (owner.is_empty() && !list.owner.is_empty())
        || all.len() < list.tags.len()
        || (any.is_empty() && !list.tag_any.is_empty());
    let query = EntryQuery {
        types: list.types,
        status,
        owner,
        tags: all,
        tags_any: any,
        tags_none: none,
        context: list.context.into_iter().map(context_value).collect(),
        min_confidence: list.min_confidence,
        since: list.since.map(Seq),
        as_of: list.as_of.map(Seq),
        order: match list.order {
            None | Some(OrderArgument::Relevance) => Order::Relevance,
            Some(OrderArgument::Newest) => Order::Newest,
            Some(OrderArgument::Oldest) => Order::Oldest,
            Some(OrderArgument::Priority) => Order::Priority,
        },
        text: list.text,
        text_match: match list.text_match {
            MatchArgument::All => TextMatch::All,
            MatchArgument::Any => TextMatch::Any,
        },
        limit: list.limit,
        cursor: list.cursor,
        include_expired: list.include_expired,
        include_superseded: list.include_superseded,
        ..EntryQuery::default()
    };
    ((!impossible).then_some(query), unknown)
}

/// The values of `option` as an object; `None` if it has none.
fn object(option: &str, pairs: Vec<(String, String)>) -> Result<Option<Value>, Failure> {
    check_given_once(option, pairs.iter().map(|(key, _)| key.as_str()))?;
    let object: Map<_, _> = pairs
        .into_iter()
        .map(|(key, value)| (key, json_or_text(&value)))
        .collect();
    Ok((!object.is_empty()).then_some(Value::Object(object)))
}
