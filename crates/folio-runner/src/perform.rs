//! One call of a tool: from its permissions to its outcome.

use std::sync::Arc;
use std::time::Duration;

use folio_engine::run::{CheckCall, CheckFinding};
use folio_engine::{CallAction, CallAnswer, CallOutcome, Evidence, Failure, Finding, NodeId, StopReason};
use folio_memory::tool_exchange::ToolRequest as Question;
use folio_memory::{Actor, EntryId, Role, RunId};
use folio_store::Workspace;
use folio_tools::{
    Effect, EvidenceRef, FailureKind, Reconciled, Registry, Tool, ToolContext, ToolRequest, ToolResponse,
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::grants;

/// The time limit of a call that sets none.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30 * 60);
/// How long a call that was told to stop may take before it is dropped (E9.11).
pub(crate) const GRACE: Duration = Duration::from_secs(12);

/// How long a call with this effect may take to stop. What changes nothing has nothing to bring to an end, and is
/// dropped as soon as it does not stop by itself.
pub(crate) fn grace_of(effect: Effect) -> Duration {
    if effect.changes_nothing() {
        Duration::ZERO
    } else {
        GRACE
    }
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Performed {
    pub(crate) node: NodeId,
    pub(crate) outcome: CallOutcome,
    /// Whether it may simply be made again if its outcome is lost, by the effect of its tool.
    pub(crate) is_repeatable: bool,
    /// What it wants written to memory in addition to its outcome.
    pub(crate) writes: Writes,
    pub(crate) duration: Duration,
}

/// What a tool wants written to memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writes {
    pub(crate) observations: Vec<Value>,
    /// The ids that these get, as the outcome names them; empty if it names none.
    pub(crate) observation_ids: Vec<EntryId>,
    pub(crate) scratch_page_writes: Vec<Value>,
    pub(crate) memory_writes: Vec<Value>,
    /// Whether the call failed: its explicit writes are then not made (seed 002).
    pub(crate) has_failed: bool,
    pub(crate) page_appends: Vec<folio_tools::PageAppend>,
    pub(crate) tool: String,
}

/// Makes the call of `action` and waits for its end, its time limit, or a cancellation.
///
/// If the tool declares a query on the scratch page, its result is looked up in `memory` first; a failure of that never
/// prevents the call.
pub(crate) async fn call(
    registry: Registry,
    context: ToolContext,
    memory: Workspace,
    caller: Actor,
    action: CallAction,
) -> Performed {
    let began = Instant::now();
    let query = registry
        .get(&action.tool)
        .and_then(|tool| tool.spec().scratch_page_query.clone());
    let scratch_page_context = match query {
        Some(query) => find_on_scratch_page(&memory, &caller, &action.tool, query).await,
        None => Vec::new(),
    };
    let is_repeatable = is_repeatable(&action.tool, &registry);
    let is_guarded = |tool: &Arc<dyn Tool>| tool.spec().effect == Effect::Guarded;
    // For such a tool, only the tool itself knows what became of the first attempt.
    let retried_action =
        (action.again && registry.get(&action.tool).is_some_and(is_guarded)).then(|| Box::new(action.clone()));
    let run = caller.run.map(|run| run.to_string()).unwrap_or_default();
    let request = ToolRequest {
        // The same after a crash: the node identifies the logical call (E9.12).
        request_id: format!("{run}/{}", action.node),
        tool: action.tool,
        args: action.args,
        run_id: run,
        node_id: action.node.to_string(),
        attempt: action.attempt,
        scratch_page_context,
    };
    let timeout = action.timeout.unwrap_or(TIMEOUT_DEFAULT);
    let earlier_outcome = match retried_action {
        None => None,
        Some(retried_action) => {
            // A tool that ignores the request to stop does not block anybody.
            let cancelled = async {
                context.cancel.cancelled().await;
                tokio::time::sleep(GRACE).await;
            };
            let reconciled = tokio::select! {
                biased;
                reconciled = tokio::time::timeout(timeout, registry.reconcile(&request, &context)) => reconciled.ok(),
                () = cancelled => None,
            };
            match reconciled.unwrap_or(Reconciled::Unknown) {
                Reconciled::NotExecuted => None,
                Reconciled::Completed(response) => Some(outcome_of(*response, &request.tool, &registry)),
                Reconciled::Unknown => Some((CallOutcome::Lost(retried_action), Writes::default())),
            }
        }
    };
    let (outcome, writes) = match earlier_outcome {
        Some(ended) => ended,
        None => make_call(&registry, &context, &request, timeout).await,
    };
    Performed {
        node: action.node,
        outcome,
        is_repeatable,
        writes,
        duration: began.elapsed(),
    }
}

/// The effect of a second call of `tool`; pure if there is no such tool.
fn effect_of(tool: &str, registry: &Registry) -> Effect {
    registry.get(tool).map_or(Effect::Pure, |tool| tool.spec().effect)
}

/// Whether a call of `tool` may simply be made again if its outcome is lost.
pub(crate) fn is_repeatable(tool: &str, registry: &Registry) -> bool {
    matches!(
        effect_of(tool, registry),
        Effect::Pure | Effect::Read | Effect::Idempotent
    )
}

/// Makes the call and returns its outcome.
async fn make_call(
    registry: &Registry,
    context: &ToolContext,
    request: &ToolRequest,
    timeout: Duration,
) -> (CallOutcome, Writes) {
    let failed = |failure| (CallOutcome::from(failure), Writes::default());
    let grace = grace_of(effect_of(&request.tool, registry));
    match run_with_timeout((timeout, grace), &context.cancel, registry.call(request, context)).await {
        Ended::Answered(response) => outcome_of(*response, &request.tool, registry),
        Ended::Stopped => (stopped_outcome(&request.tool, registry), Writes::default()),
        // It was still working; its effect says whether a second call is harmless (E9.12).
        ended @ (Ended::TimedOut | Ended::Dropped) => match effect_of(&request.tool, registry) {
            Effect::Pure | Effect::Read | Effect::Idempotent => failed(timed_out(&request.tool, timeout)),
            Effect::Guarded => {
                // The reconciliation must not use the token that was cancelled.
                let reconcile_context = ToolContext {
                    cancel: CancellationToken::new(),
                    ..context.clone()
                };
                let reconciled = tokio::time::timeout(GRACE, registry.reconcile(request, &reconcile_context)).await;
                match reconciled.unwrap_or(Reconciled::Unknown) {
                    Reconciled::Completed(response) => outcome_of(*response, &request.tool, registry),
                    Reconciled::NotExecuted => failed(timed_out(&request.tool, timeout)),
                    Reconciled::Unknown => failed(unknown(&request.tool, timeout, &ended)),
                }
            }
            Effect::Opaque | Effect::Destructive => failed(unknown(&request.tool, timeout, &ended)),
        },
    }
}

/// What `query` finds on the scratch page that `tool` may see (seed 004).
async fn find_on_scratch_page(memory: &Workspace, caller: &Actor, tool: &str, query: Value) -> Vec<Value> {
    let actor = Actor {
        role: Role::Tool,
        name: tool.to_owned(),
        ..caller.clone()
    };
    let request = Question {
        tool_id: tool.to_owned(),
        scratch_page_query: Some(query),
        ..Question::default()
    };
    let found = memory.tool_context(&actor, &request).await;
    let found = found.into_iter().map(serde_json::to_value);
    found.filter_map(Result::ok).collect()
}

pub(crate) enum Ended {
    Answered(Box<ToolResponse>),
    /// It took too long, and stopped when told to.
    TimedOut,
    /// It took too long, and did not stop when told to.
    Dropped,
    /// It was cancelled.
    Stopped,
}

/// Waits for `call`. When the time is up or `cancel` fires, the call is told to stop, has the grace period to do so,
/// and is then dropped, which kills what it started.
pub(crate) async fn run_with_timeout(
    (timeout, grace): (Duration, Duration),
    cancel: &CancellationToken,
    call: impl Future<Output = ToolResponse>,
) -> Ended {
    tokio::pin!(call);
    // A tool that computes at once is done before a timer is created.
    let timed_out = tokio::select! {
        biased;
        response = &mut call => return Ended::Answered(Box::new(response)),
        () = cancel.cancelled() => false,
        () = tokio::time::sleep(timeout) => true,
    };
    cancel.cancel();
    match tokio::time::timeout(grace, &mut call).await {
        // It finished before it was stopped: what it did counts.
        Ok(response) if response.is_ok() => Ended::Answered(Box::new(response)),
        // It knows more about the outcome than that it took too long.
        Ok(response) if timed_out && is_unknown(&response) => Ended::Answered(Box::new(response)),
        Ok(_) if timed_out => Ended::TimedOut,
        Err(_) if timed_out => Ended::Dropped,
        _ => Ended::Stopped,
    }
}

fn is_unknown(response: &ToolResponse) -> bool {
    let error = response.error.as_ref();
    error.is_some_and(|error| error.kind == FailureKind::Unknown)
}

fn timed_out(tool: &str, timeout: Duration) -> Failure {
    Failure {
        code: "timed_out".to_owned(),
        message: format!("{tool} took longer than its limit of {timeout:?} and was stopped"),
        reason: StopReason::RetriesExhausted,
        may_retry: true,
    }
}

/// The failure of a call that timed out with an unknown outcome. A call that stopped is retried only if the plan sets
/// attempts; one that may still be working is never retried.
fn unknown(tool: &str, timeout: Duration, ended: &Ended) -> Failure {
    if matches!(ended, Ended::TimedOut) {
        let stopped = timed_out(tool, timeout);
        return Failure {
            message: format!("{}; it may have taken effect", stopped.message),
            reason: StopReason::OutcomeUnknown,
            ..stopped
        };
    }
    Failure {
        code: "outcome_unknown".to_owned(),
        message: format!(
            "{tool} took longer than its limit of {timeout:?} and did not stop when it was told to; nobody knows what it did, and it is not called again"
        ),
        reason: StopReason::OutcomeUnknown,
        may_retry: false,
    }
}

/// The outcome of a call of `tool` that was stopped. A tool that only reads has changed nothing (E9.11).
fn stopped_outcome(tool: &str, registry: &Registry) -> CallOutcome {
    CallOutcome::Stopped {
        may_have_changed: !grants::is_read_only(registry, tool),
    }
}

fn outcome_of(response: ToolResponse, tool: &str, registry: &Registry) -> (CallOutcome, Writes) {
    let is_ok = response.is_ok();
    let ToolResponse {
        outputs,
        notes,
        error,
        observations,
        scratch_page_writes,
        memory_writes,
        page_appends,
        evidence,
        truncated,
        ..
    } = response;
    // What a failed call noticed is worth keeping; its explicit writes are not made.
    let writes = Writes {
        observations,
        observation_ids: Vec::new(),
        scratch_page_writes,
        memory_writes,
        has_failed: !is_ok,
        page_appends: if is_ok { page_appends } else { Vec::new() },
        tool: tool.to_owned(),
    };
    if let Some(error) = error.filter(|_| !is_ok) {
        if error.kind == FailureKind::Cancelled {
            return (stopped_outcome(tool, registry), writes);
        }
        let hints = if error.hints.is_empty() {
            String::new()
        } else {
            format!(" ({})", error.hints.join("; "))
        };
        let (reason, may_retry) = stop_reason_and_retry(error.kind, effect_of(tool, registry));
        let message = format!("{}{hints}", error.message);
        return (
            CallOutcome::Failed {
                failure: Failure {
                    code: error.code,
                    message,
                    reason,
                    may_retry,
                },
                output: Arc::new(outputs),
            },
            writes,
        );
    }
    if !is_ok {
        let message = format!("{tool} failed without saying why");
        let failure = Failure {
            code: "failed".to_owned(),
            message,
            reason: StopReason::RetriesExhausted,
            may_retry: true,
        };
        let output = Arc::new(outputs);
        return (CallOutcome::Failed { failure, output }, writes);
    }
    let notes = match truncated {
        Some(cut) => format!("{notes} (kept {} of {} bytes)", cut.kept_bytes, cut.total_bytes),
        None => notes,
    };
    let evidence = evidence.into_iter().map(evidence_of).collect();
    (
        CallOutcome::Answered(CallAnswer {
            output: Arc::new(outputs),
            notes,
            evidence,
        }),
        writes,
    )
}

/// The stop reason for a kind of failure, and whether another attempt may help.
fn stop_reason_and_retry(kind: FailureKind, effect: Effect) -> (StopReason, bool) {
    match kind {
        // It was ended in the middle, and how far it came is unknown (E9.4).
        FailureKind::TimedOut if matches!(effect, Effect::Opaque | Effect::Destructive) => {
            (StopReason::OutcomeUnknown, true)
        }
        FailureKind::InvalidArgs => (StopReason::InvalidInput, false),
        FailureKind::NotFound => (StopReason::InvalidInput, true),
        FailureKind::Denied => (StopReason::PolicyDenied, false),
        FailureKind::TooLarge => (StopReason::BudgetBytes, false),
        FailureKind::Unavailable | FailureKind::TimedOut | FailureKind::Failed => (StopReason::RetriesExhausted, true),
        FailureKind::Unknown => (StopReason::OutcomeUnknown, false),
        FailureKind::Cancelled => (StopReason::CancelledByUser, false),
    }
}

fn evidence_of(evidence: EvidenceRef) -> Evidence {
    Evidence {
        kind: evidence.kind,
        id: evidence.id,
        hash: evidence.hash,
        span: evidence.span,
    }
}

/// Makes the checks that the engine asked for, one after the other.
pub(crate) async fn perform_checks(
    registry: Registry,
    context: ToolContext,
    run: RunId,
    node: NodeId,
    calls: Vec<CheckCall>,
) -> Vec<CheckFinding> {
    let mut found = Vec::with_capacity(calls.len());
    for check in calls {
        let request = ToolRequest {
            request_id: format!("{run}/{node}/check/{}", check.criterion),
            tool: check.tool.to_owned(),
            args: check.args,
            run_id: run.to_string(),
            node_id: node.to_string(),
            attempt: 1,
            scratch_page_context: Vec::new(),
        };
        let mut context = context.clone();
        if check.allowed {
            context.allow();
        }
        let response = registry.call(&request, &context).await;
        found.push(CheckFinding {
            criterion: check.criterion,
            finding: finding_of(check.tool, check.exit, &response),
        });
    }
    found
}

fn finding_of(tool: &str, exit: i32, response: &ToolResponse) -> Finding {
    if tool == "shell" {
        return match response.outputs.get("exit_code").and_then(Value::as_i64) {
            Some(code) if code == i64::from(exit) => Finding::Met,
            Some(code) => Finding::Unmet(format!("the command ended with {code}, not {exit}")),
            None => Finding::Unverifiable(response.notes.clone()),
        };
    }
    match &response.error {
        None if response.outputs.get("count").and_then(Value::as_u64).unwrap_or(0) > 0 => Finding::Met,
        None => Finding::Unmet("there is no such file".to_owned()),
        Some(error) if error.kind == FailureKind::NotFound => {
            // What a step wrote is in the run folder, which is usually what was meant.
            let hints = error.hints.iter().filter(|hint| hint.contains("run:"));
            let hints: String = hints.map(|hint| format!("; {hint}")).collect();
            Finding::Unmet(error.message.clone() + &hints)
        }
        Some(error) => Finding::Unverifiable(error.message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use folio_tools::{Roots, RunFolder, ToolError, ToolSpec};
    use serde_json::json;

    use super::*;

    /// Works on whatever it is told, and says afterwards what became of it.
    #[derive(Debug)]
    struct Deaf {
        spec: ToolSpec,
        says: Reconciled,
        asked: AtomicU32,
    }

    #[async_trait::async_trait]
    impl Tool for Deaf {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }

        async fn call(&self, _: &ToolRequest, _: &ToolContext) -> ToolResponse {
            std::future::pending().await
        }

        async fn reconcile(&self, _: &ToolRequest, context: &ToolContext) -> Reconciled {
            assert!(!context.cancel.is_cancelled(), "it may still answer");
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.says.clone()
        }
    }

    fn request() -> ToolRequest {
        ToolRequest {
            request_id: "run/node".to_owned(),
            tool: "deaf".to_owned(),
            args: json!({}),
            run_id: "run".to_owned(),
            node_id: "node".to_owned(),
            attempt: 1,
            scratch_page_context: Vec::new(),
        }
    }

    fn nothing_granted() -> ToolContext {
        ToolContext::new(Roots::none(), RunFolder::none())
    }

    /// The error code or the output of a call that runs beyond its time limit, and how often the tool was asked to
    /// reconcile it.
    async fn outcome_after_timeout(effect: Effect, says: Reconciled) -> (String, u32) {
        let tool = Arc::new(Deaf {
            spec: ToolSpec::new("deaf", effect, "Works on."),
            says,
            asked: AtomicU32::new(0),
        });
        let mut registry = Registry::empty();
        registry.register(Arc::clone(&tool) as Arc<dyn Tool>);
        let (outcome, _) = make_call(&registry, &nothing_granted(), &request(), Duration::from_secs(5)).await;
        let ended = match outcome {
            CallOutcome::Failed { failure, .. } => {
                assert_eq!(failure.may_retry, failure.code == "timed_out");
                failure.code
            }
            CallOutcome::Answered(answer) => answer.output.to_string(),
            other => panic!("{other:?}"),
        };
        (ended, tool.asked.load(Ordering::Relaxed))
    }

    /// Stops when it is told to.
    #[derive(Debug)]
    struct Obedient(ToolSpec);

    #[async_trait::async_trait]
    impl Tool for Obedient {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
            context.cancel.cancelled().await;
            ToolResponse::failed(request, ToolError::new(FailureKind::Cancelled, "cancelled", "stopped"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn effect_decides_the_stop_reason_of_a_timed_out_call_e9_12() {
        for (effect, reason) in [
            (Effect::Read, StopReason::RetriesExhausted),
            (Effect::Idempotent, StopReason::RetriesExhausted),
            (Effect::Guarded, StopReason::OutcomeUnknown),
            (Effect::Opaque, StopReason::OutcomeUnknown),
            (Effect::Destructive, StopReason::OutcomeUnknown),
        ] {
            let mut registry = Registry::empty();
            registry.register(Arc::new(Obedient(ToolSpec::new("deaf", effect, "Waits."))));
            let (outcome, _) = make_call(&registry, &nothing_granted(), &request(), Duration::from_secs(5)).await;
            let CallOutcome::Failed { failure, .. } = outcome else {
                panic!("{outcome:?}")
            };
            // Attempts are made if whoever wrote the plan wants some.
            let seen = (failure.code.as_str(), failure.reason, failure.may_retry);
            assert_eq!(seen, ("timed_out", reason, true), "{effect:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_call_that_changes_something_has_time_to_stop_e9_11() {
        for (effect, seconds) in [
            (Effect::Pure, 5),
            (Effect::Read, 5),
            (Effect::Idempotent, 17),
            (Effect::Opaque, 17),
        ] {
            let began = Instant::now();
            outcome_after_timeout(effect, Reconciled::Unknown).await;
            assert_eq!(began.elapsed().as_secs(), seconds, "{effect:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn uncancellable_call_is_retryable_only_if_its_effect_allows_it_e9_12() {
        let nothing = || Reconciled::Unknown;
        for effect in [Effect::Pure, Effect::Read, Effect::Idempotent] {
            assert_eq!(
                outcome_after_timeout(effect, nothing()).await,
                ("timed_out".to_owned(), 0),
                "{effect:?}"
            );
        }
        for effect in [Effect::Opaque, Effect::Destructive] {
            assert_eq!(
                outcome_after_timeout(effect, nothing()).await,
                ("outcome_unknown".to_owned(), 0),
                "{effect:?}"
            );
        }
        let done = Reconciled::Completed(Box::new(ToolResponse::ok(&request(), json!("sent"), "")));
        for (says, ended) in [
            (Reconciled::NotExecuted, "timed_out"),
            (nothing(), "outcome_unknown"),
            (done, "\"sent\""),
        ] {
            assert_eq!(
                outcome_after_timeout(Effect::Guarded, says).await,
                (ended.to_owned(), 1)
            );
        }
    }
}
