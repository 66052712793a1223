//! Work that several share: claim a todo or a task, and release it.

use std::time::Duration;

use aide::axum::ApiRouter;
use aide::axum::routing::post_with;
use folio::memory::Owner;
use folio::memory::scratchbook::ScratchItem;
use folio::store::workspace::Guard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::observations::Why;
use super::threads::{item_to_change, shape};
use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::input::{Body, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Nothing, QueryParams};
use crate::wire::Written;

/// The longest lease in minutes: a year.
const MAX_LEASE_MINUTES: u32 = 525_600;
const GROUP: &str = "scratchbook";

pub(super) fn routes() -> ApiRouter<App> {
    let book = "/threads/{thread}/scratchbook";
    ApiRouter::new()
        .api_route(
            &format!("{book}/items/{{item}}/claim"),
            post_with(
                claim,
                describe_operation(
                    "claim_item",
                    GROUP,
                    "Claims a todo or a task, so that nobody else works on it, or renews a claim",
                ),
            ),
        )
        .api_route(
            &format!("{book}/items/{{item}}/release"),
            post_with(
                release,
                describe_operation("release_item", GROUP, "Releases a claimed item, which opens it again"),
            ),
        )
        .api_route(
            &format!("{book}/claim"),
            post_with(
                claim_next,
                describe_operation(
                    "claim_next_item",
                    GROUP,
                    "Claims the next todo or task that is ready; one that the owner has begun comes first",
                ),
            ),
        )
}

/// Who claims an item, and for how long.
// The connection does not say which worker asks: those of one token, or of nobody's, would share their claims.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimInput {
    /// Who claims it: a name that each worker has for itself, without white space.
    owner: String,
    /// The minutes until the claim ends and anybody may claim the item; without it, the claim lasts until the item is
    /// done or released.
    #[serde(default)]
    #[schemars(range(min = 1, max = 525_600))]
    lease_minutes: Option<u32>,
    /// The reason, in words.
    #[serde(default)]
    reason: Option<String>,
}

/// Who claims the next item, and for how long.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimNextInput {
    /// Who claims it: a name that each worker has for itself, without white space.
    owner: String,
    /// The minutes until the claim ends and anybody may claim the item; without it, the claim lasts until the item is
    /// done or released.
    #[serde(default)]
    #[schemars(range(min = 1, max = 525_600))]
    lease_minutes: Option<u32>,
}

/// Who releases an item.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReleaseInput {
    /// Who has claimed it.
    owner: String,
    /// The reason, in words.
    #[serde(default)]
    reason: Option<String>,
}

/// The item that was claimed.
#[derive(Debug, Serialize, JsonSchema)]
struct Claimed {
    /// The item; null if none is ready.
    claimed: Option<ScratchItem>,
}

/// Returns how long a claim of `minutes` lasts.
fn lease_of(minutes: Option<u32>) -> Result<Option<Duration>, Problem> {
    match minutes {
        Some(minutes) if !(1..=MAX_LEASE_MINUTES).contains(&minutes) => Err(body_invalid(format!(
            "lease_minutes: {minutes} is not between 1 and {MAX_LEASE_MINUTES}"
        ))),
        minutes => Ok(minutes.map(|minutes| Duration::from_secs(u64::from(minutes) * 60))),
    }
}

fn guard(caller: &Caller, reason: Option<String>) -> Guard {
    Why { reason }.guard(caller)
}

async fn claim(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(input): Body<ClaimInput>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let (owner, lease) = (Owner::parse(&input.owner)?, lease_of(input.lease_minutes)?);
    let item = item_to_change(&caller, &[]).await?;
    let guard = guard(&caller, input.reason);
    let claim = caller.workspace.claim(&caller.actor, item, &owner, lease, guard);
    let written = claim.await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

async fn release(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(input): Body<ReleaseInput>,
) -> Result<Answer<Written<ScratchItem>>, Problem> {
    let owner = Owner::parse(&input.owner)?;
    let item = item_to_change(&caller, &[]).await?;
    let guard = guard(&caller, input.reason);
    let written = caller.workspace.give_up(&caller.actor, item, &owner, guard).await?;
    Ok(Answer::of(shape(&caller, &written)).version(written.entry.version))
}

/// Claims what `owner` has begun already if there is such an item, so a repeated request claims no second one.
async fn claim_next(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(input): Body<ClaimNextInput>,
) -> Result<Answer<Claimed>, Problem> {
    let (owner, lease) = (Owner::parse(&input.owner)?, lease_of(input.lease_minutes)?);
    let thread = caller.thread();
    let claim = caller.workspace.claim_work(&caller.actor, &thread, None, &owner, lease);
    let Some(written) = claim.await? else {
        return Ok(Answer::of(Claimed { claimed: None }));
    };
    let claimed = Some(ScratchItem::of(&written.entry));
    Ok(Answer::of(Claimed { claimed }).version(written.entry.version))
}
