//! All of memory: assembled contexts, search, goals, patterns, calibration and the trace.

use std::collections::BTreeMap;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use folio::memory::calibration::Reliability;
use folio::memory::context::{DEFAULT_BUDGET, Section};
use folio::memory::id::{EntryRef, RunRef, TurnRef};
use folio::memory::query::{DEFAULT_LIMIT, MAX_LIMIT};
use folio::memory::scratchbook;
use folio::memory::tokens::for_model;
use folio::memory::{EntryKind, EntryQuery, Seq, Status, Tag, TextMatch, TextQuery};
use folio::store::workspace::{ContextRequest, TraceQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::observations::Match;
use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::{Caller, thread_called, turn_named};
use crate::http::describe::describe_operation;
use crate::http::input::{MayBody, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, check_exclusive, invalid_value_problem};
use crate::wire::{AsJson, ContextShape, Found, GoalShape, List, Observation, TraceLine, WhyShape};

/// The default number of lines of a trace.
const LINES_DEFAULT: u32 = 50;
/// The default number of patterns in a list.
const PATTERNS_DEFAULT: u32 = 20;
const GROUP: &str = "memory";

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/context",
            post_with(
                context,
                describe_operation(
                    "assemble_context",
                    GROUP,
                    "Assembles the context for a prompt from memory, with its receipt",
                ),
            ),
        )
        .api_route(
            "/search",
            get_with(
                search,
                describe_operation("search", GROUP, "Searches all entries for words, best match first"),
            ),
        )
        .api_route(
            "/goals",
            get_with(
                goals,
                describe_operation(
                    "list_goals",
                    GROUP,
                    "Lists goals and pending actions with their progress",
                ),
            ),
        )
        .api_route(
            "/patterns",
            get_with(
                patterns,
                describe_operation("list_patterns", GROUP, "Lists patterns, which were noticed repeatedly"),
            ),
        )
        .api_route(
            "/calibration",
            get_with(
                calibration,
                describe_operation(
                    "calibration",
                    GROUP,
                    "Returns how often stated confidences proved right",
                ),
            ),
        )
        .api_route(
            "/why",
            get_with(
                why,
                describe_operation(
                    "why",
                    GROUP,
                    "Returns the decisions that rest on an entry, and what models were shown of it in a turn",
                ),
            ),
        )
        .api_route(
            "/trace",
            get_with(
                trace,
                describe_operation("trace", GROUP, "Lists the lines of the trace, in order"),
            ),
        )
}

/// A request for an assembled context.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct For {
    /// The thread; the main thread if not given.
    thread: Option<String>,
    /// The turn, if any: `t3` or `turn_…`.
    turn: Option<String>,
    /// The budget in tokens; 4,000 if not given.
    budget: Option<u32>,
    /// The prompt that the context is for; the input of the turn if not given.
    prompt: String,
    /// The sections, as a list of names, or with their shares in percent; all sections if not given.
    sections: Option<Sections>,
    /// The model whose tokens are counted; without it, tokens are estimated.
    model: Option<String>,
}

/// Sections of a context: `scratch_page`, `scratchbook`, `pages`, `episodic`, `semantic`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a list of names of sections, or an object with the share of each in percent"
)]
enum Sections {
    Named(Vec<String>),
    Shared(BTreeMap<String, u32>),
}

impl Sections {
    /// Returns the sections with their shares.
    fn shares(&self) -> Result<Vec<(Section, u32)>, Problem> {
        let known = |name: &str| {
            let found = Section::SHARES
                .into_iter()
                .find(|(section, _)| section.as_str() == name);
            found.ok_or_else(|| {
                let names: Vec<_> = Section::SHARES.iter().map(|(section, _)| section.as_str()).collect();
                body_invalid(format!("sections: {name:?} is not one of {}", names.join(", ")))
            })
        };
        match self {
            Self::Named(names) => names.iter().map(|name| known(name)).collect(),
            Self::Shared(shares) => {
                let total: u64 = shares.values().map(|share| u64::from(*share)).sum();
                if total > 100 {
                    return Err(body_invalid(format!(
                        "sections: the shares add up to {total} percent, which is more than 100"
                    )));
                }
                let share = |(name, share): (&String, &u32)| Ok((known(name)?.0, *share));
                shares.iter().map(share).collect()
            }
        }
    }
}

async fn context(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<For>,
) -> Result<Answer<ContextShape>, Problem> {
    let caller = caller.in_thread(input.thread)?;
    let turn: Option<TurnRef> = match &input.turn {
        Some(name) => Some(name.parse().map_err(|error| body_invalid(format!("turn: {error}")))?),
        None => caller.actor.turn.map(TurnRef::Id),
    };
    let request = ContextRequest {
        thread: caller.thread(),
        turn,
        prompt: input.prompt,
        budget: input.budget.unwrap_or(DEFAULT_BUDGET),
        sections: input
            .sections
            .as_ref()
            .map(Sections::shares)
            .transpose()?
            .unwrap_or_default(),
    };
    let tokens = for_model(input.model.as_deref().unwrap_or_default());
    let assembled = caller.workspace.assemble_context(request, &tokens).await?;
    Ok(Answer::of(ContextShape::of(assembled)))
}

/// A search.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Search {
    /// The words to search for, in any form; punctuation is ignored.
    text: Option<String>,
    /// An alias of `text`.
    q: Option<String>,
    /// An alias of `text`.
    query: Option<String>,
    /// How many of the words must match; `all` falls back to `any` if no entry has all of them.
    #[serde(rename = "match")]
    text_match: Option<Match>,
    /// Only entries of one of these kinds: `observation`, `note`, `todo`, `task`, `goal`, `pending_action`, `summary`.
    kind: Vec<String>,
    /// Only observations of one of these types.
    #[serde(rename = "type")]
    types: Vec<String>,
    /// Only entries with all of these tags.
    tags: Vec<String>,
    /// Only items in the scratchbook of this thread.
    thread: Option<String>,
    /// Include archived, expired and superseded entries.
    all: bool,
    /// The maximum number of entries; 10 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for Search {}

/// What a search found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ListOfFound")]
struct FoundList {
    #[serde(flatten)]
    list: List<AsJson<Found>>,
    /// Whether nothing has all of the words, and the items have some of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    some_words: bool,
}

async fn search(caller: Caller, QueryParams(params): QueryParams<Search>) -> Result<Answer<FoundList>, Problem> {
    let workspace = &caller.workspace;
    check_exclusive(&[
        ("text", params.text.is_some()),
        ("q", params.q.is_some()),
        ("query", params.query.is_some()),
    ])?;
    let text = params.text.or(params.q).or(params.query).unwrap_or_default();
    if text.trim().is_empty() {
        return Err(invalid_value_problem("text", &text, "a text to search for"));
    }
    let match_mode = params.text_match.map(TextMatch::from).unwrap_or_default();
    let text_query = TextQuery::of(&text, match_mode);
    let kinds: Vec<_> = params.kind.iter().filter_map(|name| EntryKind::parse(name)).collect();
    let is_impossible = kinds.is_empty() && !params.kind.is_empty();
    let (Some(tags), false) = (Tag::parse_query_tags(&params.tags), is_impossible) else {
        let list = List::whole(Vec::new(), workspace.head().await?.0);
        return Ok(Answer::of(FoundList {
            list,
            some_words: false,
        }));
    };
    let thread = params.thread.map(thread_called).transpose()?;
    let query = EntryQuery {
        page: thread.map(|thread| scratchbook::page_of(workspace.space(), &thread).0),
        kinds,
        types: params.types,
        status: if params.all { Status::ALL.to_vec() } else { Vec::new() },
        tags,
        text: Some(text),
        text_match: match_mode,
        include_expired: params.all,
        include_superseded: params.all,
        limit: params.limit.unwrap_or(DEFAULT_LIMIT),
        cursor: params.cursor,
        ..EntryQuery::default()
    };
    let now = workspace.now();
    let (mut answer, used) = workspace.search(&query).await?;
    workspace.begin_with_matches(&mut answer, &text_query).await?;
    let some_words = used != match_mode && answer.total > 0;
    let list = List::scored(&answer, |entry, score| {
        AsJson::of(&Found::of(entry, score, &text_query, now))
    });
    Ok(Answer::of(FoundList { list, some_words }))
}

/// A filter for goals.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Goals {
    /// Only goals of this thread; without it, of every thread.
    thread: Option<String>,
    /// Include goals that are done.
    all: bool,
    /// The maximum number of goals; 1000 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for Goals {}

async fn goals(caller: Caller, QueryParams(params): QueryParams<Goals>) -> Result<Answer<List<GoalShape>>, Problem> {
    let thread = params.thread.map(thread_called).transpose()?;
    let limit = params.limit.unwrap_or(MAX_LIMIT);
    let goals = caller
        .workspace
        .goals_part(thread.as_ref(), params.all, limit, params.cursor);
    Ok(Answer::of(List::of(&goals.await?, GoalShape::of)))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Patterns {
    /// The maximum number of patterns; 20 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

impl Fields for Patterns {}

async fn patterns(
    caller: Caller,
    QueryParams(params): QueryParams<Patterns>,
) -> Result<Answer<List<Observation>>, Problem> {
    let now = caller.workspace.now();
    let found = caller
        .workspace
        .patterns(params.limit.unwrap_or(PATTERNS_DEFAULT))
        .await?;
    Ok(Answer::of(List::of(&found, |entry| Observation::of(entry, now))))
}

async fn calibration(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<List<Reliability>>, Problem> {
    let as_of = caller.workspace.head().await?.0;
    Ok(Answer::of(List::whole(caller.workspace.calibration().await?, as_of)))
}

/// An entry, and a turn.
#[derive(Debug, Deserialize, JsonSchema)]
struct EntryInTurn {
    /// The entry: `e42` or `obs_…`.
    entry: String,
    /// Only decisions of this turn, and what models were shown in it: `t3` or `turn_…`; without it, decisions of all
    /// turns.
    #[serde(default)]
    turn: Option<String>,
}

impl Fields for EntryInTurn {}

async fn why(caller: Caller, QueryParams(params): QueryParams<EntryInTurn>) -> Result<Answer<WhyShape>, Problem> {
    let workspace = &caller.workspace;
    let entry: EntryRef = params.entry.parse()?;
    let turn: Option<TurnRef> = params.turn.as_deref().map(str::parse).transpose()?;
    let as_of = workspace.head().await?.0;
    let found = workspace.why(entry, turn).await?;
    let shown = match turn {
        Some(turn) => Some(workspace.shown(entry, turn).await?),
        None => None,
    };
    Ok(Answer::of(WhyShape::of(found, shown, as_of)))
}

/// A filter for lines of the trace.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Lines {
    /// Only lines of this run: `r3` or `run_…`.
    run: Option<String>,
    /// Only lines of this turn: `t3` or `turn_…`.
    turn: Option<String>,
    /// Only lines about this entry: `e42` or `obs_…`.
    entry: Option<String>,
    /// Only lines of this component: `scratch_page`, `scratchbook`, `page`, `engine`, ….
    component: Option<String>,
    /// Only lines after this commit, beginning there; without it, the latest lines.
    since: Option<u64>,
    /// The maximum number of lines; 50 if not given.
    #[schemars(range(min = 1, max = 100_000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there: with the lines before it or, if `since` is given,
    /// after it.
    cursor: Option<String>,
}

impl Fields for Lines {}

async fn trace(caller: Caller, QueryParams(params): QueryParams<Lines>) -> Result<Answer<List<TraceLine>>, Problem> {
    let workspace = &caller.workspace;
    let run: Option<RunRef> = params.run.as_deref().map(str::parse).transpose()?;
    let entry: Option<EntryRef> = params.entry.as_deref().map(str::parse).transpose()?;
    let turn = match &params.turn {
        Some(name) => Some(turn_named(workspace, name).await?.0),
        None => None,
    };
    let limit = params.limit.unwrap_or(LINES_DEFAULT);
    let is_start = params.cursor.is_none();
    let query = TraceQuery {
        run,
        turn,
        entry,
        component: params.component,
        since: params.since.map(Seq),
        limit: limit as usize,
        cursor: params.cursor,
    };
    let part = workspace.trace_part(query).await?;
    Ok(Answer::of(TraceLine::listed(&part, is_start)))
}
