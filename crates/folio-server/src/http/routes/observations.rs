//! Observations: the lists, one observation with its history, and the writes.

use std::collections::BTreeMap;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use folio::memory::entry::{Family, Owner};
use folio::memory::id::Ref;
use folio::memory::observation::{ObservationInput, ObservationPatch};
use folio::memory::query::{DEFAULT_LIMIT, MAX_LIMIT};
use folio::memory::{Entry, EntryKind, EntryQuery, Order, Seq, Status, Tag, TextMatch};
use folio::store::workspace::{Guard, MAX_ACTIVE};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::http::answer::{Answer, Made};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::input::{MayBody, Raw};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, invalid_value_problem, parse_cursor};
use crate::wire::{AsJson, List, Observation, VersionShape, Written};

pub(super) const KINDS: [EntryKind; 1] = [EntryKind::Observation];
pub(super) const GROUP: &str = "observations";

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/observations",
            get_with(
                list,
                describe_operation(
                    "list_observations",
                    GROUP,
                    "Lists observations, newest first, or those that match a text",
                ),
            )
            .post_with(
                add,
                describe_operation("add_observation", GROUP, "Records an observation"),
            ),
        )
        .api_route(
            "/observations/active",
            get_with(
                active,
                describe_operation(
                    "active_observations",
                    GROUP,
                    "Lists the most important live observations",
                ),
            ),
        )
        .api_route(
            "/observations/{observation}",
            get_with(
                show,
                describe_operation("get_observation", GROUP, "Returns one observation in any state"),
            )
            .patch_with(
                update,
                describe_operation(
                    "update_observation",
                    GROUP,
                    "Updates an observation; fields that are left out stay unchanged",
                ),
            ),
        )
        .api_route(
            "/observations/{observation}/archive",
            post_with(
                archive,
                describe_operation("archive_observation", GROUP, "Archives an observation"),
            ),
        )
        .api_route(
            "/observations/{observation}/history",
            get_with(
                history,
                describe_operation(
                    "observation_history",
                    GROUP,
                    "Lists the versions of an observation, oldest first",
                ),
            ),
        )
}

/// A filter for observations. All given fields must match; of the values in one field, any may match (M7.2.12). In
/// addition, `context.<path>=VALUE` requires a value in the context; the value is read as JSON if it is valid JSON.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Filter {
    /// Only observations of one of these types.
    #[serde(rename = "type")]
    types: Vec<String>,
    /// Only observations in one of these statuses; without it, all except archived ones, which are included if `since`
    /// is given.
    status: Vec<String>,
    /// Only observations with all of these tags.
    tags: Vec<String>,
    /// Only observations with at least one of these tags.
    tags_any: Vec<String>,
    /// Only observations with none of these tags.
    tags_none: Vec<String>,
    /// Only observations of one of these owners.
    owner: Vec<String>,
    /// The minimum confidence.
    #[schemars(range(min = 0, max = 1))]
    min_confidence: Option<f64>,
    /// Only observations with these words in title, text or tags.
    text: Option<String>,
    /// How many of the words must match.
    #[serde(rename = "match")]
    text_match: Option<Match>,
    /// Only observations that were added, changed, archived, restored or superseded after this commit.
    since: Option<u64>,
    /// Answer from memory as of this commit, such as `as_of` of an earlier answer; a number after the last commit means
    /// the last commit.
    as_of: Option<u64>,
    /// The order; without it, the best match first if there is a text, otherwise the newest first.
    order: Option<Way>,
    /// The maximum number of observations; 10 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
    /// Include observations whose lifetime has ended.
    include_expired: bool,
    /// Include observations that another one superseded.
    include_superseded: bool,
    #[schemars(skip)]
    context: BTreeMap<String, String>,
}

impl Fields for Filter {
    const TAKES_CONTEXT: bool = true;
}

/// How many of the words searched for must match.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Match {
    All,
    Any,
}

impl From<Match> for TextMatch {
    fn from(value: Match) -> Self {
        match value {
            Match::All => Self::All,
            Match::Any => Self::Any,
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Way {
    Newest,
    Oldest,
    Priority,
    Relevance,
}

impl From<Way> for Order {
    fn from(order: Way) -> Self {
        match order {
            Way::Newest => Self::Newest,
            Way::Oldest => Self::Oldest,
            Way::Priority => Self::Priority,
            Way::Relevance => Self::Relevance,
        }
    }
}

/// Returns the value of `text` if it is valid JSON, otherwise `text` itself.
pub(super) fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

impl Filter {
    /// Returns the query; `None` if no observation can match.
    fn query(self) -> Option<EntryQuery> {
        let status: Vec<_> = self
            .status
            .iter()
            .filter_map(|name| Status::parse_in(name, Family::Knowledge))
            .collect();
        let owner: Vec<_> = self.owner.iter().filter_map(|name| Owner::parse(name).ok()).collect();
        let any_tags: Vec<_> = self.tags_any.iter().filter_map(|name| Tag::parse(name).ok()).collect();
        let is_impossible = (status.is_empty() && !self.status.is_empty())
            || (owner.is_empty() && !self.owner.is_empty())
            || (any_tags.is_empty() && !self.tags_any.is_empty());
        if is_impossible {
            return None;
        }
        Some(EntryQuery {
            types: self.types,
            status,
            owner,
            tags: Tag::parse_query_tags(&self.tags)?,
            tags_any: any_tags,
            tags_none: self.tags_none.iter().filter_map(|name| Tag::parse(name).ok()).collect(),
            context: self
                .context
                .into_iter()
                .map(|(path, value)| (path, json_or_text(&value)))
                .collect(),
            min_confidence: self.min_confidence,
            since: self.since.map(Seq),
            as_of: self.as_of.map(Seq),
            text: self.text,
            text_match: self.text_match.map(TextMatch::from).unwrap_or_default(),
            order: self.order.map(Order::from).unwrap_or_default(),
            limit: self.limit.unwrap_or(DEFAULT_LIMIT),
            cursor: self.cursor,
            include_expired: self.include_expired,
            include_superseded: self.include_superseded,
            ..EntryQuery::default()
        })
    }
}

async fn list(
    caller: Caller,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Answer<List<AsJson<Observation>>>, Problem> {
    let workspace = &caller.workspace;
    if let Some(text) = filter.text.as_ref().filter(|text| text.trim().is_empty()) {
        return Err(invalid_value_problem("text", text, "a text to search for"));
    }
    let Some(query) = filter.query() else {
        return Ok(Answer::of(List::whole(Vec::new(), workspace.head().await?.0)));
    };
    let found = workspace.observations(query).await?;
    let now = workspace.now();
    Ok(Answer::of(List::scored(&found, |entry, score| {
        AsJson::of(&Observation::of(entry, now).with_score(score))
    })))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Most {
    /// The maximum number of observations; 100 if not given.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
}

impl Fields for Most {}

async fn active(
    caller: Caller,
    QueryParams(params): QueryParams<Most>,
) -> Result<Answer<List<AsJson<Observation>>>, Problem> {
    let workspace = &caller.workspace;
    let limit = params
        .limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(MAX_ACTIVE);
    let found = workspace.active_observations(limit).await?;
    let now = workspace.now();
    Ok(Answer::of(List::of(&found, |entry| {
        AsJson::of(&Observation::of(entry, now))
    })))
}

async fn add(
    caller: Caller,
    _: QueryParams<Nothing>,
    Raw(body, _): Raw<ObservationInput>,
) -> Result<Made<Written<Observation>>, Problem> {
    let input = ObservationInput::from_json(&body)?;
    let written = caller
        .workspace
        .add_observation(&caller.actor, input, caller.own_key())
        .await?;
    Ok(Made::of(shape(&caller, &written))
        .version(written.entry.version)
        .with_location(place(&caller, &written.entry)))
}

fn place(caller: &Caller, entry: &Entry) -> String {
    format!("/v1/spaces/{}/observations/{}", caller.workspace.space(), entry.id)
}

pub(super) fn shape(caller: &Caller, written: &folio::store::Written) -> Written<Observation> {
    let observation = Observation::of(&written.entry, caller.workspace.now());
    caller
        .with_ended_turn_warning(Written::of(observation, &written.warnings, written.replayed).over(&written.conflicts))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Whole {
    /// Return a long text in whole; without it, only its beginning.
    pub(super) whole: bool,
}

impl Fields for Whole {}

async fn show(caller: Caller, QueryParams(params): QueryParams<Whole>) -> Result<Answer<Observation>, Problem> {
    let mut entry = caller.entry("observation", &KINDS, "an observation").await?;
    if params.whole {
        entry = caller.workspace.in_whole(entry).await?;
    }
    Ok(Answer::of(Observation::of(&entry, caller.workspace.now())).version(entry.version))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Base {
    /// The version on which the change is based. The answer lists the fields of this change that others have changed
    /// since then.
    base_version: Option<u32>,
}

impl Fields for Base {}

impl Why {
    /// Returns the conditions under which `caller` acts.
    pub(super) fn guard(self, caller: &Caller) -> Guard {
        Guard {
            expected_version: caller.if_match.version(),
            idempotency_key: caller.own_key(),
            reason: self.reason,
            ..Guard::default()
        }
    }
}

impl Base {
    /// Returns the conditions under which `caller` makes the change.
    pub(super) fn guard(self, caller: &Caller) -> Guard {
        Guard {
            expected_version: caller.if_match.version(),
            base_version: self.base_version,
            idempotency_key: caller.own_key(),
            reason: None,
        }
    }
}

async fn update(
    caller: Caller,
    QueryParams(base): QueryParams<Base>,
    Raw(body, _): Raw<ObservationPatch>,
) -> Result<Answer<Written<Observation>>, Problem> {
    let patch = ObservationPatch::from_json(&body)?;
    let observation = caller.path_param("observation")?;
    let guard = base.guard(&caller);
    let written = caller
        .workspace
        .update_observation_under(&caller.actor, observation, patch, guard);
    let written = written.await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

/// The reason for an action.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Why {
    /// The reason, in words.
    pub(super) reason: Option<String>,
}

async fn archive(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<Observation>>, Problem> {
    let entry = caller.entry_to_change("observation", &KINDS, "an observation").await?;
    let guard = input.guard(&caller);
    let written = caller.workspace.archive_under(&caller.actor, entry, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

/// The part of an observation's history.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct HistoryPart {
    /// The maximum number of versions; 1000 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for HistoryPart {}

async fn history(
    caller: Caller,
    QueryParams(params): QueryParams<HistoryPart>,
) -> Result<Answer<List<VersionShape>>, Problem> {
    let entry = caller.entry("observation", &KINDS, "an observation").await?;
    let limit = params.limit.unwrap_or(MAX_LIMIT);
    let after: u32 = parse_cursor(params.cursor.as_deref())?.unwrap_or(0);
    let as_of = caller.workspace.head().await?.0;
    let versions = caller.workspace.versions(Ref::Id(entry.id)).await?;
    let total = versions.len() as u64;
    let rest = versions.iter().filter(|version| version.entry.version > after);
    let next: Vec<_> = rest.take(limit as usize + 1).collect();
    let items = next.into_iter().map(VersionShape::of).collect();
    let mut list = List::part(items, limit, as_of, |version: &VersionShape| {
        version.version.to_string()
    });
    list.total = Some(total);
    Ok(Answer::of(list))
}
