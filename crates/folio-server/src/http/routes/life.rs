//! The life of an observation: confirm, resolve, supersede and restore it.

use aide::axum::ApiRouter;
use aide::axum::routing::post_with;
use folio::memory::entry::Outcome;
use folio::memory::id::{EntryRef, Ref};
use folio::store::workspace::Guard;
use schemars::JsonSchema;
use serde::Deserialize;

use super::observations::{GROUP, KINDS, Why, shape};
use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::input::{Body, MayBody};
use crate::http::problem::Problem;
use crate::http::query::{Nothing, QueryParams};
use crate::wire::{AnyEntry, Observation, Written};

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route(
            "/observations/{observation}/confirm",
            post_with(
                confirm,
                describe_operation(
                    "confirm_observation",
                    GROUP,
                    "Confirms that an observation still holds and restarts its lifetime",
                ),
            ),
        )
        .api_route(
            "/observations/{observation}/resolve",
            post_with(
                resolve,
                describe_operation(
                    "resolve_observation",
                    GROUP,
                    "Resolves an observation, optionally as confirmed or refuted",
                ),
            ),
        )
        .api_route(
            "/observations/{observation}/supersede",
            post_with(
                supersede,
                describe_operation(
                    "supersede_observation",
                    GROUP,
                    "Supersedes an observation by another one",
                ),
            ),
        )
        .api_route(
            "/observations/{observation}/restore",
            post_with(
                restore,
                describe_operation(
                    "restore_observation",
                    GROUP,
                    "Restores an archived observation, or an item of a scratchbook, to its earlier status",
                ),
            ),
        )
}

/// Returns the observation that the path names, and the conditions of a change made for `reason`.
async fn named_observation(caller: &Caller, reason: Option<String>) -> Result<(EntryRef, Guard), Problem> {
    let entry = caller.entry_to_change("observation", &KINDS, "an observation").await?;
    Ok((entry, Why { reason }.guard(caller)))
}

fn answer(caller: &Caller, written: &folio::store::Written) -> Answer<Written<Observation>> {
    Answer::of(shape(caller, written)).version(written.entry.version)
}

async fn confirm(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<Observation>>, Problem> {
    let (entry, guard) = named_observation(&caller, input.reason).await?;
    let written = caller.workspace.confirm(&caller.actor, entry, guard).await?;
    Ok(answer(&caller, &written))
}

/// The resolution of an observation.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settled {
    /// Whether the observation was confirmed or refuted, if that is known. Calibration counts these outcomes.
    outcome: Option<CameTrue>,
    /// The reason, in words.
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CameTrue {
    /// The observation was right.
    Confirmed,
    /// The observation was wrong.
    Refuted,
}

impl From<CameTrue> for Outcome {
    fn from(outcome: CameTrue) -> Self {
        match outcome {
            CameTrue::Confirmed => Self::Confirmed,
            CameTrue::Refuted => Self::Refuted,
        }
    }
}

async fn resolve(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(settled): MayBody<Settled>,
) -> Result<Answer<Written<Observation>>, Problem> {
    let (entry, guard) = named_observation(&caller, settled.reason).await?;
    let (workspace, actor) = (&caller.workspace, &caller.actor);
    let written = match settled.outcome {
        Some(outcome) => workspace.resolve_as(actor, entry, outcome.into(), guard).await?,
        None => workspace.complete(actor, entry, guard).await?,
    };
    Ok(answer(&caller, &written))
}

/// The observation that supersedes this one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Successor {
    /// The superseding observation: `e42` or `obs_…`.
    by: String,
    /// Whether the superseded observation was confirmed or refuted, if that is known. Calibration counts these
    /// outcomes.
    #[serde(default)]
    outcome: Option<CameTrue>,
    /// The reason, in words.
    #[serde(default)]
    reason: Option<String>,
}

async fn supersede(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(successor): Body<Successor>,
) -> Result<Answer<Written<Observation>>, Problem> {
    let by = caller.entry_called(&successor.by, &KINDS, "an observation").await?;
    let (entry, guard) = named_observation(&caller, successor.reason).await?;
    let written = caller
        .workspace
        .supersede_as(
            &caller.actor,
            entry,
            Ref::Id(by.id),
            successor.outcome.map(Outcome::from),
            guard,
        )
        .await?;
    Ok(answer(&caller, &written))
}

async fn restore(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(input): MayBody<Why>,
) -> Result<Answer<Written<AnyEntry>>, Problem> {
    let entry = caller.workspace.entry(caller.path_param("observation")?).await?;
    let guard = input.guard(&caller);
    let written = caller
        .workspace
        .restore(&caller.actor, Ref::Id(entry.id), guard)
        .await?;
    let entry = AnyEntry::of(&written.entry, caller.workspace.now());
    let shape = Written::of(entry, &written.warnings, written.replayed).over(&written.conflicts);
    Ok(Answer::of(caller.with_ended_turn_warning(shape)).version(written.entry.version))
}
