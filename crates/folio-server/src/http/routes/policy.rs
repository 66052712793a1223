//! The policy of the space: everybody who may read the space reads it, people change it.

use aide::axum::ApiRouter;
use aide::axum::routing::get_with;
use folio::memory::SpacePolicy;
use folio::memory::policy::PolicyEdit;
use folio::memory::wrong_field::wrong_field;
use folio::store::workspace::{Guard, PolicySet};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::describe_operation;
use crate::http::input::{Body, Raw, body_invalid, unreadable};
use crate::http::problem::Problem;
use crate::http::query::{Nothing, QueryParams};
use crate::wire::{PolicyShape, Written};

const GROUP: &str = "memory";

pub(super) fn routes() -> ApiRouter<App> {
    ApiRouter::new().api_route(
        "/policy",
        get_with(
            show,
            describe_operation("get_policy", GROUP, "Returns the policy of the space"),
        )
        .put_with(
            replace,
            describe_operation("set_policy", GROUP, "Replaces the policy of the space"),
        )
        .patch_with(
            change,
            describe_operation("change_policy", GROUP, "Changes single keys of the policy of the space"),
        ),
    )
}

fn shape(caller: &Caller, set: &PolicySet) -> Answer<Written<PolicyShape>> {
    let policy = PolicyShape::of(caller.workspace.space(), &set.in_force);
    let written = Written::of(policy, &set.warnings, set.replayed);
    Answer::of(caller.with_ended_turn_warning(written)).version(set.in_force.version())
}

fn guard(caller: &Caller, expected_version: Option<u32>, reason: Option<String>) -> Guard {
    Guard {
        expected_version: caller.if_match.version().or(expected_version),
        idempotency_key: caller.own_key(),
        reason,
        ..Guard::default()
    }
}

/// Returns the policy; the header `ETag` holds its version.
async fn show(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<PolicyShape>, Problem> {
    let policy = caller.workspace.policy_to_read().await?;
    let shape = PolicyShape::of(caller.workspace.space(), &policy);
    Ok(Answer::of(shape).version(policy.version()))
}

/// A policy to be set, as GET returns it. The document alone is accepted, too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WholePolicy {
    /// The document, with all that is to differ from the built-in values.
    policy: Map<String, Value>,
    /// The reason to record.
    #[serde(default)]
    reason: Option<String>,
    /// The version of the policy that this one replaces. The header `If-Match` has the same effect.
    #[serde(default)]
    version: Option<u32>,
    /// The space, if it is sent back; it must be the one that the path names.
    #[serde(default)]
    space: Option<String>,
    /// The commit that last changed it, if it is sent back; it follows from the version.
    #[serde(default)]
    #[expect(dead_code, reason = "it is accepted, because GET returns it")]
    changed_seq: Option<u64>,
    /// All values in force, if they are sent back; they must be those of the policy that this one replaces.
    #[serde(default)]
    in_force: Option<Map<String, Value>>,
}

impl WholePolicy {
    fn of(body: Value) -> Result<Self, Problem> {
        let Value::Object(fields) = body else {
            return Err(body_invalid("the body has to be an object"));
        };
        if !fields.contains_key("policy") {
            return Ok(Self {
                policy: fields,
                reason: None,
                version: None,
                space: None,
                changed_seq: None,
                in_force: None,
            });
        }
        let wrong = wrong_field::<Self>(&fields);
        serde_json::from_value(Value::Object(fields)).map_err(|error| match wrong {
            Some((name, error)) => unreadable(&format!("{name}: {error}")),
            None => unreadable(&error),
        })
    }
}

/// Replaces the policy as a whole. Only for people.
async fn replace(
    caller: Caller,
    _: QueryParams<Nothing>,
    Raw(body, _): Raw<WholePolicy>,
) -> Result<Answer<Written<PolicyShape>>, Problem> {
    caller.workspace.check_may_set_policy(&caller.actor)?;
    let input = WholePolicy::of(body)?;
    let space = caller.workspace.space();
    if let Some(other) = input.space.filter(|name| name != space.as_str()) {
        return Err(body_invalid(format!("space: the path names {space}, not {other}")));
    }
    let workspace = &caller.workspace;
    let guard = guard(&caller, input.version, input.reason);
    let now = workspace.policy().await?;
    // What follows from another version is as stale as the rest.
    let is_of_now = guard.expected_version.is_none_or(|version| version == now.version());
    // By now something else may be in force than when the same request was first made.
    let is_again = match &guard.idempotency_key {
        Some(key) => workspace.is_recorded(&caller.actor, key).await?,
        None => false,
    };
    if let Some(in_force) = input.in_force.filter(|_| is_of_now && !is_again)
        && Value::Object(in_force) != now.document().whole()
    {
        let problem = body_invalid("in_force: it is not what is in force, and cannot be set");
        return Err(problem.hint("change `policy`, or read what is in force now"));
    }
    let policy = SpacePolicy::from_document(&input.policy).map_err(folio::WorkspaceError::from)?;
    let set = workspace.set_policy_under(&caller.actor, policy, guard).await?;
    Ok(shape(&caller, &set))
}

/// Single keys to change. A key is a path with dots, such as `retention.purge_after_minutes`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PolicyChanges {
    /// Values by their keys. An object takes the place of everything below its key.
    set: Map<String, Value>,
    /// Keys to reset to their built-in values.
    unset: Vec<String>,
    /// The reason to record.
    reason: Option<String>,
}

/// Changes single keys. Only for people.
async fn change(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(input): Body<PolicyChanges>,
) -> Result<Answer<Written<PolicyShape>>, Problem> {
    caller.workspace.check_may_set_policy(&caller.actor)?;
    if input.set.is_empty() && input.unset.is_empty() {
        let problem = body_invalid("the body names no key");
        return Err(problem.hint("send {\"set\": {\"strict_types\": \"nobody\"}} or {\"unset\": [\"strict_types\"]}"));
    }
    let edit = PolicyEdit {
        set: input.set.into_iter().collect(),
        unset: input.unset,
    };
    let guard = guard(&caller, None, input.reason);
    let set = caller.workspace.change_policy(&caller.actor, &edit, guard).await?;
    Ok(shape(&caller, &set))
}
