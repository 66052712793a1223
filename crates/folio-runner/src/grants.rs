//! What a run may use: the folders that its inputs name, its run folder to write to, and the commands, hosts and tools
//! that were allowed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use folio_engine::Event;
use folio_engine::plan::{HERE, Plan, names_tool};
use folio_engine::run::{ApprovalPolicy, Judging, PlanMode, RequiredApproval, WritesOf};
use folio_engine::{NodeId, Run};
use folio_memory::causes::with_causes;
use folio_store::Workspace;
use folio_tools::panics::caught_now;
use folio_tools::tool::{AGENT_PREFIX, Approval};
use folio_tools::{
    Access, FailureKind, HostList, Registry, Root, Roots, RunFolder, ShellPolicy, Tool, ToolContext, ToolError,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::RunnerError;
use crate::run_variable::{HOSTS, JUDGING, USUAL_HOSTS};

/// The tool that makes requests to web servers.
pub(crate) const HTTP_GET: &str = "http_get";

/// Opens the folders that `run` was granted. A path without a name refers to the first one: the first input of kind
/// `path`, in the order of their names; without one, the folder that the run was submitted from.
///
/// A path to a file grants the folder that contains it.
pub(crate) fn roots_of(run: &Run) -> Result<Roots, RunnerError> {
    let folder = run.variable().get("folder").and_then(Value::as_str);
    open_roots(run.plan(), run.inputs(), folder)
}

/// Opens the folders that a run of `plan` with these inputs, submitted from `folder`, is granted.
pub(crate) fn open_roots(plan: &Plan, inputs: &Value, folder: Option<&str>) -> Result<Roots, RunnerError> {
    let given = plan.paths_in(inputs);
    let mut paths: Vec<(String, PathBuf)> = given
        .map(|(name, path)| (name.to_owned(), PathBuf::from(path)))
        .collect();
    if paths.is_empty()
        && let Some(folder) = folder
    {
        paths.push((HERE.to_owned(), PathBuf::from(folder)));
    }
    let opened = paths.into_iter().map(|(name, path)| {
        let folder = if path.is_file() {
            path.parent().unwrap_or(Path::new("/")).to_owned()
        } else {
            path
        };
        let folder_text = folder.display().to_string();
        Root::open(name, &folder, Access::Read).map_err(|error| RunnerError::Folder {
            path: folder_text,
            reason: with_causes(&error),
        })
    });
    let roots: Vec<Root> = opened.collect::<Result<_, _>>()?;
    Roots::new(roots).map_err(|error| RunnerError::Folder {
        path: "inputs".to_owned(),
        reason: with_causes(&error),
    })
}

/// The tool that runs commands.
const SHELL: &str = "shell";

/// The commands that the run's submitter allowed; none if the journal does not say. Allowing the tool by its name
/// allows all commands: otherwise every one would be refused without asking.
pub(crate) fn shell_of(run: &Run) -> ShellPolicy {
    if allows_tool(&allowed_tools_of(run), SHELL) {
        return ShellPolicy::AllowAll;
    }
    run.variable()
        .get("shell")
        .and_then(|policy| serde_json::from_value(policy.clone()).ok())
        .unwrap_or_default()
}

/// The hosts that calls of `run` may connect to; none if the journal does not say.
pub(crate) fn hosts_of(run: &Run) -> HostList {
    recorded_hosts(run, HOSTS).with(&recorded_hosts(run, USUAL_HOSTS))
}

fn recorded_hosts(run: &Run, name: &str) -> HostList {
    run.variable()
        .get(name)
        .and_then(|hosts| serde_json::from_value(hosts.clone()).ok())
        .unwrap_or_default()
}

/// The tools that the run's submitter allowed; none if the journal does not say.
pub(crate) fn allowed_tools_of(run: &Run) -> Vec<String> {
    let tools = run.variable().get("tools").cloned().unwrap_or_default();
    serde_json::from_value(tools).unwrap_or_default()
}

/// Whether a person allowed what only people may allow: when the run was submitted, or by an approval that still holds.
pub(crate) fn has_human_grants(run: &Run) -> bool {
    shell_of(run) != ShellPolicy::default()
        || !allowed_tools_of(run).is_empty()
        || !recorded_hosts(run, HOSTS).is_empty()
        || run.has_outstanding_approval()
}

/// Whether one of `allowed` names `tool` or, as `SERVER.*`, its family.
#[must_use]
pub fn allows_tool(allowed: &[String], tool: &str) -> bool {
    allowed.iter().any(|name| names_tool(name, tool))
}

/// Checks that each tool that is allowed without approval is in `registry`: a misspelled name would otherwise cause a
/// question or a refusal in the middle of the run. `agents` are the agents that there are, each as `agent:NAME`.
///
/// # Errors
///
/// `unknown_tool`, with the name that may have been meant.
pub fn check_allowed(registry: &Registry, agents: &[String], allowed: &[String]) -> Result<(), ToolError> {
    allowed
        .iter()
        .try_for_each(|name| match name.starts_with(AGENT_PREFIX) {
            true if agents.contains(name) => Ok(()),
            true => Err(unknown_agent(name, agents)),
            false => registry.check_name(name),
        })
}

fn unknown_agent(name: &str, agents: &[String]) -> ToolError {
    let message = format!("there is no agent `{name}`");
    let error = ToolError::new(FailureKind::NotFound, "unknown_tool", message);
    match agents {
        [] => error.hint("there are no agents; the settings define them in [agents.NAME]"),
        agents => error.hint(format!("the agents are: {}", agents.join(", "))),
    }
}

/// Which calls wait for a person's approval: those of tools that require it, unless the run's submitter allowed them.
pub(crate) fn approval_policy_of(registry: &Registry, run: &Run) -> ApprovalPolicy {
    let (registry, shell, hosts) = (registry.clone(), shell_of(run), hosts_of(run));
    let allowed = allowed_tools_of(run);
    Arc::new(move |tool, args| {
        let needs_approval = registry
            .get(tool)
            .is_some_and(|tool| tool.spec().approval == Approval::UnlessAllowed);
        // An agent program may do what commands may, so what allows a command allows the program. An agent on another
        // machine is allowed by its name.
        let is_agent = tool.starts_with(AGENT_PREFIX);
        let is_command = tool == SHELL || is_agent && args.get("argv").is_some();
        let is_allowed = (is_command && shell.allows(args))
            || (tool == HTTP_GET && hosts.allows_call(args))
            || allows_tool(&allowed, tool);
        match (needs_approval || is_agent) && !is_allowed {
            // Allowing the tool allows only public hosts (decision 0078).
            true if tool == HTTP_GET && !HostList::everywhere().allows_call(args) => RequiredApproval::ItsOwn,
            is_required => is_required.into(),
        }
    })
}

/// What calls of a run write that works in `context`, in the form that the journal records.
pub(crate) fn writes_of(registry: &Registry, context: &ToolContext, workspace: &Workspace, run: &Run) -> WritesOf {
    let (registry, context, workspace) = (registry.clone(), context.clone(), workspace.clone());
    let node = NodeId::root(run.id());
    Arc::new(move |tool, args| {
        // A tool that panics here does so again when it is called, and its call fails then.
        let name_resources = |tool: &Arc<dyn Tool>| caught_now(|| tool.resources(args, &context)).ok();
        let Some(writes) = registry
            .get(tool)
            .and_then(name_resources)
            .filter(|names| !names.is_empty())
        else {
            return Vec::new();
        };
        let call = String::new();
        let mut event = Event::Started {
            node,
            attempt: 1,
            call,
            writes,
            limits: None,
        };
        workspace.clean_event(&mut event);
        match event {
            Event::Started { writes, .. } => writes,
            _ => Vec::new(),
        }
    })
}

/// Whether a call of `tool` leaves no change behind if it is stopped. What is written with its answer does not count.
pub(crate) fn is_read_only(registry: &Registry, tool: &str) -> bool {
    registry
        .get(tool)
        .is_some_and(|tool| tool.spec().effect.changes_nothing())
}

/// The plan mode that the submitter chose: whether models may split tasks up.
pub(crate) fn plan_mode_of(run: &Run) -> PlanMode {
    submitted_setting(run, "plan")
}

/// Which criteria are judged, as the submitter chose.
pub(crate) fn judging_of(run: &Run) -> Judging {
    submitted_setting(run, JUDGING)
}

/// What the submitter of `run` set under `key`, or the default.
fn submitted_setting<T: Default + DeserializeOwned>(run: &Run, key: &str) -> T {
    run.variable()
        .get(key)
        .and_then(|value| T::deserialize(value).ok())
        .unwrap_or_default()
}

/// The run's own folder below `parent`; without a parent, writing is refused.
pub(crate) fn run_folder(parent: Option<&Path>, run: &Run) -> RunFolder {
    parent.map_or_else(RunFolder::none, |parent| {
        RunFolder::at(parent.join(run.id().to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_agent_has_to_exist_like_an_allowed_tool() {
        let registry = Registry::with_builtins();
        let agents = ["agent:mender".to_owned()];
        let check = |name: &str| check_allowed(&registry, &agents, &[name.to_owned()]).map_err(|error| error.message);
        assert_eq!(check("agent:mender"), Ok(()));
        assert_eq!(check("grep"), Ok(()));
        for name in ["agent:nope", "agent:*", "agent:"] {
            assert_eq!(check(name), Err(format!("there is no agent `{name}`")));
        }
        let error = check_allowed(&registry, &agents, &["agent:nope".to_owned()]).unwrap_err();
        assert_eq!(error.hints, ["the agents are: agent:mender"]);
    }

    #[test]
    fn tool_wildcard_allows_only_its_own_namespace() {
        let allowed = ["maps.route".to_owned(), "files.*".to_owned(), "s*".to_owned()];
        for (tool, is_allowed) in [
            ("maps.route", true),
            ("maps.route2", false),
            ("maps", false),
            ("files.read", true),
            ("files2.read", false),
            ("shell", false),
        ] {
            assert_eq!(allows_tool(&allowed, tool), is_allowed, "{tool}");
        }
    }
}
