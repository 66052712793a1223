//! All of memory: what goes into a prompt, search, goals, what was learned, what happened.

use std::collections::BTreeMap;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use folio::memory::calibration::Reliability;
use folio::memory::context::{DEFAULT_BUDGET, Section};
use folio::memory::id::{EntryRef, RunRef, TurnRef};
use folio::memory::query::DEFAULT_LIMIT;
use folio::memory::scratchbook;
use folio::memory::tokens::for_model;
use folio::memory::{EntryKind, EntryQuery, Seq, Status, Tag, TextMatch, TextQuery};
use folio::store::workspace::{ContextRequest, TraceQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use super::observations::Match;
use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::{Caller, thread_called, turn_named};
use crate::http::describe::about;
use crate::http::input::{MayBody, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Asked, Fields, Nothing, one_question, wrong};
use crate::wire::{AsJson, ContextShape, Found, GoalShape, List, Observation, TraceLine};

/// Lines that a trace gives when nothing is said.
const LINES_DEFAULT: u32 = 50;
/// Patterns that a list gives when nothing is said.
const PATTERNS_DEFAULT: u32 = 20;
const GROUP: &str = "memory";

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/context",
            post_with(
                context,
                about(
                    "assemble_context",
                    GROUP,
                    "Gives what of memory goes into a prompt, with its receipt",
                ),
            ),
        )
        .api_route(
            "/search",
            get_with(
                search,
                about("search", GROUP, "Finds everything by its words, best match first"),
            ),
        )
        .api_route(
            "/goals",
            get_with(
                goals,
                about(
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
                about("list_patterns", GROUP, "Lists what was noticed again and again"),
            ),
        )
        .api_route(
            "/calibration",
            get_with(
                calibration,
                about("calibration", GROUP, "Gives how often stated confidences came true"),
            ),
        )
        .api_route(
            "/trace",
            get_with(trace, about("trace", GROUP, "Lists what happened, in order")),
        )
}

/// What a context is assembled for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct For {
    /// In which thread; the main one if it is not said.
    thread: Option<String>,
    /// In which turn, if in one: `t3` or `turn_…`.
    turn: Option<String>,
    /// Tokens that it may have; 4,000 if it is not said.
    budget: Option<u32>,
    /// What it is for; the input of the turn if it is not said.
    prompt: String,
    /// Which sections, by name, or with their shares in per cent; all of them if it is not said.
    sections: Option<Sections>,
    /// Whose tokens are counted; without it, they are estimated.
    model: Option<String>,
}

/// Sections of a context: `scratch_page`, `scratchbook`, `pages`, `episodic`, `semantic`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Sections {
    Named(Vec<String>),
    Shared(BTreeMap<String, u32>),
}

impl Sections {
    /// The sections with their shares.
    fn shares(&self) -> Result<Vec<(Section, u32)>, Problem> {
        let known = |name: &str| {
            let found = Section::SHARES
                .into_iter()
                .find(|(section, _)| section.as_str() == name);
            found.ok_or_else(|| {
                let names: Vec<_> = Section::SHARES.iter().map(|(section, _)| section.as_str()).collect();
                body_invalid(format!("sections: {name:?} is none of {}", names.join(", ")))
            })
        };
        match self {
            Self::Named(names) => names.iter().map(|name| known(name)).collect(),
            Self::Shared(shares) => {
                let too_much: u64 = shares.values().map(|share| u64::from(*share)).sum();
                if too_much > 100 {
                    return Err(body_invalid(format!(
                        "sections: the shares are {too_much} per cent together"
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
    _: Asked<Nothing>,
    MayBody(asked): MayBody<For>,
) -> Result<Answer<ContextShape>, Problem> {
    let caller = caller.in_thread(asked.thread)?;
    let turn: Option<TurnRef> = match &asked.turn {
        Some(name) => Some(name.parse().map_err(|error| body_invalid(format!("turn: {error}")))?),
        None => caller.actor.turn.map(TurnRef::Id),
    };
    let request = ContextRequest {
        thread: caller.thread(),
        turn,
        prompt: asked.prompt,
        budget: asked.budget.unwrap_or(DEFAULT_BUDGET),
        sections: asked
            .sections
            .as_ref()
            .map(Sections::shares)
            .transpose()?
            .unwrap_or_default(),
    };
    let tokens = for_model(asked.model.as_deref().unwrap_or_default());
    let assembled = caller.workspace.assemble_context(request, &tokens).await?;
    Ok(Answer::of(ContextShape::of(assembled)))
}

/// What is looked for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Search {
    /// Words, in any form; signs mean nothing.
    text: Option<String>,
    /// The same as `text`.
    q: Option<String>,
    /// The same as `text`.
    query: Option<String>,
    /// With how many of the words; `all` falls back to `any` if nothing has all of them.
    #[serde(rename = "match")]
    text_match: Option<Match>,
    /// Of one of these kinds: `observation`, `note`, `todo`, `task`, `goal`, `pending_action`, `summary`.
    kind: Vec<String>,
    /// Observations of one of these types.
    #[serde(rename = "type")]
    types: Vec<String>,
    /// With all of these tags.
    tags: Vec<String>,
    /// Only in the scratchbook of this thread.
    thread: Option<String>,
    /// Archived and expired ones and those that another one replaced, too.
    all: bool,
    /// How many at most; 10 if it is not said.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// What `next` of an earlier answer was, to go on there.
    cursor: Option<String>,
}

impl Fields for Search {}

async fn search(caller: Caller, Asked(asked): Asked<Search>) -> Result<Answer<List<AsJson<Found>>>, Problem> {
    let workspace = &caller.workspace;
    one_question(&[
        ("text", asked.text.is_some()),
        ("q", asked.q.is_some()),
        ("query", asked.query.is_some()),
    ])?;
    let text = asked.text.or(asked.q).or(asked.query).unwrap_or_default();
    if text.trim().is_empty() {
        return Err(wrong("text", &text, "what is looked for"));
    }
    let how = asked.text_match.map(TextMatch::from).unwrap_or_default();
    let words = TextQuery::of(&text, how);
    let kinds: Vec<_> = asked.kind.iter().filter_map(|name| EntryKind::parse(name)).collect();
    let is_impossible = kinds.is_empty() && !asked.kind.is_empty();
    let (Some(tags), false) = (Tag::asked_for(&asked.tags), is_impossible) else {
        return Ok(Answer::of(List::whole(Vec::new(), workspace.head().await?.0)));
    };
    let thread = asked.thread.map(thread_called).transpose()?;
    let query = EntryQuery {
        page: thread.map(|thread| scratchbook::page_of(workspace.space(), &thread).0),
        kinds,
        types: asked.types,
        status: if asked.all { Status::ALL.to_vec() } else { Vec::new() },
        tags,
        text: Some(text),
        text_match: how,
        include_expired: asked.all,
        include_superseded: asked.all,
        limit: asked.limit.unwrap_or(DEFAULT_LIMIT),
        cursor: asked.cursor,
        ..EntryQuery::default()
    };
    let now = workspace.now();
    let (answer, _) = workspace.search(&query).await?;
    Ok(Answer::of(List::scored(&answer, |entry, score| {
        AsJson::of(&Found::of(entry, score, &words, now))
    })))
}

/// Which goals.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Goals {
    /// Of this thread; without it, of every thread.
    thread: Option<String>,
    /// Those that are done, too.
    all: bool,
}

impl Fields for Goals {}

async fn goals(caller: Caller, Asked(asked): Asked<Goals>) -> Result<Answer<List<GoalShape>>, Problem> {
    let as_of = caller.workspace.head().await?.0;
    let thread = asked.thread.map(thread_called).transpose()?;
    let found = caller.workspace.goals(thread.as_ref(), asked.all).await?;
    Ok(Answer::of(List::whole(
        found.iter().map(GoalShape::of).collect(),
        as_of,
    )))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Patterns {
    /// How many at most; 20 if it is not said.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

impl Fields for Patterns {}

async fn patterns(caller: Caller, Asked(asked): Asked<Patterns>) -> Result<Answer<List<Observation>>, Problem> {
    let now = caller.workspace.now();
    let found = caller
        .workspace
        .patterns(asked.limit.unwrap_or(PATTERNS_DEFAULT))
        .await?;
    Ok(Answer::of(List::of(&found, |entry| Observation::of(entry, now))))
}

async fn calibration(caller: Caller, _: Asked<Nothing>) -> Result<Answer<List<Reliability>>, Problem> {
    let as_of = caller.workspace.head().await?.0;
    Ok(Answer::of(List::whole(caller.workspace.calibration().await?, as_of)))
}

/// Which lines.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Lines {
    /// Only what was done in this run: `r3` or `run_…`.
    run: Option<String>,
    /// Only what was done in this turn: `t3` or `turn_…`.
    turn: Option<String>,
    /// Only what was done to this entry: `e42` or `obs_…`.
    entry: Option<String>,
    /// Only what this part of the program did: `scratch_page`, `scratchbook`, `page`, `engine`, ….
    component: Option<String>,
    /// Only what came after this commit, from there on; without it, the last lines.
    since: Option<u64>,
    /// How many at most; 50 if it is not said.
    #[schemars(range(min = 1, max = 100_000))]
    limit: Option<u32>,
    /// What `next` of an earlier answer was, to go on there: with what came before it or, with `since`, after it.
    cursor: Option<String>,
}

impl Fields for Lines {}

async fn trace(caller: Caller, Asked(asked): Asked<Lines>) -> Result<Answer<List<TraceLine>>, Problem> {
    let workspace = &caller.workspace;
    let run: Option<RunRef> = asked.run.as_deref().map(str::parse).transpose()?;
    let entry: Option<EntryRef> = asked.entry.as_deref().map(str::parse).transpose()?;
    let turn = match &asked.turn {
        Some(name) => Some(turn_named(workspace, name).await?),
        None => None,
    };
    let limit = asked.limit.unwrap_or(LINES_DEFAULT);
    let is_start = asked.cursor.is_none();
    let query = TraceQuery {
        run,
        turn,
        entry,
        component: asked.component,
        since: asked.since.map(Seq),
        limit: limit as usize,
        cursor: asked.cursor,
    };
    let as_of = workspace.head().await?.0;
    let part = workspace.trace_part(query).await?;
    Ok(Answer::of(TraceLine::listed(&part, is_start, as_of)))
}
