//! What a call writes to memory, as changes that go into the same commit as its outcome, so that it is written exactly
//! once.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_engine::run::{CallAnswer, CallOutcome};
use folio_engine::{Evidence, NodeId, Outcome, Output, Run, projection};
use folio_memory::counted::counted;
use folio_memory::entry::{EntryFields, EntryKind, Owner, Tag, check_text};
use folio_memory::observation::{NewTypes, ObservationInput, draft, page_of};
use folio_memory::scratchbook::ItemInput;
use folio_memory::tool_exchange::{Bound, Channel, Content, Correction, Proposed, Rejection, ToolManifest, sift};
use folio_memory::trace::{REJECTED, WARNING};
use folio_memory::{
    Actor, Change, EntryId, Invalid, NewEntry, NewPage, PageFields, PageId, PageRole, Role, Source, ThreadKey,
    Timestamp, TraceNote, Trust, TurnId, Warning, scratchbook,
};
use folio_store::Workspace;
use folio_store::workspace::PolicyInForce;
use folio_tools::{PageAppend, PageTarget};
use serde_json::{Value, json};

use crate::perform::Writes;

/// The tool whose answer is the number of observations.
const OBSERVE: &str = "observe";

/// The code of a rule of `observe:`, or of one of its elements, that cannot be filled in.
const RULE_UNFILLED: &str = "rule_unfilled";

/// How many observations of one call its outcome names.
const OBSERVATIONS_NAMED: usize = 16;
/// For how many refused observations an answer gives the reason.
const MAX_LISTED_REFUSALS: usize = 8;

/// Turns the items of tools and of `observe:` rules into changes of memory.
#[derive(Debug)]
pub(crate) struct MemoryWriter {
    /// The workspace of the space; its clock and ids are used for what is written.
    pub(crate) workspace: Workspace,
    /// The turn that the run is in; `None` for a run of an older version.
    pub(crate) turn: Option<TurnId>,
    /// The thread whose scratchbook takes what tools consider worth keeping longer.
    pub(crate) thread: ThreadKey,
    /// The policy in force; to be renewed before something is written.
    pub(crate) policy: Arc<PolicyInForce>,
    /// The types that were registered under this policy, written or not.
    new_types: NewTypes,
}

/// The result of a call's items.
#[derive(Debug, Default)]
pub(crate) struct IngestResult {
    /// Changes, for the commit of the call's outcome.
    pub(crate) changes: Vec<Change>,
    /// What was corrected or refused, for the trace.
    pub(crate) notes: Vec<TraceNote>,
}

/// The call whose items are processed.
struct Call<'c> {
    run: &'c Run,
    node: NodeId,
    tool: &'c str,
    manifest: &'c ToolManifest,
    /// The ids of its first observations, if its outcome names them.
    ids: &'c [EntryId],
    /// That of whoever in it is trusted least.
    trust: Trust,
    now: Timestamp,
}

/// A block of text for the log of a page.
struct LogBlock {
    page: PageId,
    title: String,
    body: String,
    tags: Vec<Tag>,
    trust: Trust,
}

/// An item that is ready to be written, and its page.
struct Draft {
    page: (PageId, PageFields),
    new: NewEntry,
    tag_registration: Option<Change>,
    warnings: Vec<Warning>,
}

impl MemoryWriter {
    /// Creates one for a run in `turn`, whose scratchbook is that of `thread`.
    pub(crate) fn new(
        workspace: Workspace,
        turn: Option<TurnId>,
        thread: ThreadKey,
        policy: Arc<PolicyInForce>,
    ) -> Self {
        Self {
            workspace,
            turn,
            thread,
            policy,
            new_types: NewTypes::default(),
        }
    }

    /// Goes on under `policy`, with nothing that was not written.
    pub(crate) fn renew(&mut self, policy: Arc<PolicyInForce>) {
        self.policy = policy;
        self.new_types = NewTypes::default();
    }

    /// Ingests the items of a call of `node` that ended. Malformed items are skipped one by one, and reported in an
    /// entry of the branch's log and in the trace; they never change the outcome (seed 002).
    pub(crate) fn ingest_items(
        &mut self,
        run: &Run,
        node: NodeId,
        mut writes: Writes,
        rule_observations: Vec<Value>,
        problems: Vec<String>,
    ) -> IngestResult {
        let now = self.workspace.now();
        // The same rules as for every other tool's answer: manifests, limits, an item that occurs in two arrays
        // (M7.3.23, 24).
        let manifest = self.policy.manifests.of(&writes.tool);
        let (channels, mut rejected) = channels_of(&mut writes, rule_observations);
        let channels: Vec<_> = channels.iter().map(|(channel, items)| (*channel, items)).collect();
        let sifted = sift(&channels, &writes.tool, &manifest);
        rejected.extend(sifted.rejected);
        // What is rejected is quoted.
        let is_silent =
            sifted.proposed.is_empty() && writes.page_appends.is_empty() && rejected.is_empty() && problems.is_empty();
        let trust = match is_silent {
            true => manifest.trust(),
            false => self.trust_in(run, node, &manifest),
        };
        let call = Call {
            run,
            node,
            tool: &writes.tool,
            manifest: &manifest,
            ids: &writes.observation_ids,
            trust,
            now,
        };
        let mut intake = self.draft_all(&call, sifted.proposed, &mut rejected);
        self.note_rejected(&call, &problems, &rejected, &mut intake.notes);
        let mut lines = problems;
        lines.extend(
            rejected
                .iter()
                .map(|one| format!("{}[{}]: {}", one.channel, one.index, one.message)),
        );
        for append in writes.page_appends.into_iter().filter(|_| !writes.has_failed) {
            match self.append((run, node), append, (trust, now)) {
                Ok(changes) => intake.changes.extend(changes),
                Err(refused) => lines.push(refused),
            }
        }
        if !lines.is_empty() {
            let block = LogBlock {
                page: projection::branch_page(run, node),
                title: "Rejected".to_owned(),
                body: lines.join("\n"),
                tags: Vec::new(),
                trust,
            };
            intake.changes.push(self.log((run, node), block, now));
        }
        intake
    }

    /// How far to believe what `node` writes, whose tool has `manifest`: as far as the least trusted of those whose words
    /// templates put into it.
    fn trust_in(&self, run: &Run, node: NodeId, manifest: &ToolManifest) -> Trust {
        let behind = run.tools_behind(node).into_iter();
        let of_tools = behind.map(|tool| self.policy.manifests.of(&tool).trust());
        of_tools.fold(manifest.trust(), Trust::min)
    }

    /// The changes that write what is `proposed`, pages first, with a note for each correction. What cannot be written
    /// is added to `rejected`.
    fn draft_all(&mut self, call: &Call<'_>, proposed: Vec<Proposed>, rejected: &mut Vec<Rejection>) -> IngestResult {
        let mut pages = BTreeMap::new();
        let mut entries = Vec::with_capacity(proposed.len());
        let mut notes = Vec::new();
        for proposed in proposed {
            let (channel, index) = (proposed.channel, proposed.index);
            let draft = match self.draft(call, proposed) {
                Ok(draft) => draft,
                Err(invalid) => {
                    rejected.push(Rejection::of(channel, index, &invalid));
                    continue;
                }
            };
            let (page, fields) = draft.page;
            pages.entry(page).or_insert(fields);
            let corrections = draft.warnings.into_iter().map(|warning| Correction {
                index,
                channel,
                warning,
            });
            notes.extend(corrections.map(|correction| TraceNote {
                entry: Some(draft.new.id),
                entry_type: draft.new.fields.type_name.clone(),
                ..self.note(call, WARNING, json!(correction))
            }));
            entries.extend(draft.tag_registration);
            entries.push(Change::AddEntry(Box::new(draft.new)));
        }
        let pages = pages.into_iter();
        let pages = pages.map(|(id, fields)| Change::EnsurePage(Box::new(NewPage { id, fields })));
        IngestResult {
            changes: pages.chain(entries).collect(),
            notes,
        }
    }

    /// Adds a note for each of the `problems` of rules, and for each of the items that were `rejected`.
    fn note_rejected(&self, call: &Call<'_>, problems: &[String], rejected: &[Rejection], notes: &mut Vec<TraceNote>) {
        let unfilled = problems
            .iter()
            .map(|problem| json!({"channel": Channel::Observe, "code": RULE_UNFILLED, "message": problem}));
        let details = unfilled.chain(rejected.iter().map(|one| json!(one)));
        notes.extend(details.map(|detail| self.note(call, REJECTED, detail)));
    }

    /// The observations of a call that will be refused, with the reasons: the space may not have their type, for
    /// example.
    fn refused(&self, writes: &Writes) -> Vec<Rejection> {
        let manifest = self.policy.manifests.of(&writes.tool);
        let observations = Value::Array(writes.observations.clone());
        let sifted = sift(&[(Channel::Observations, &observations)], &writes.tool, &manifest);
        let now = self.workspace.now();
        let (mut refused, mut new_types) = (sifted.rejected, self.new_types.clone());
        for proposed in sifted.proposed {
            let Content::Observation(input) = proposed.content else {
                continue;
            };
            let types = self.policy.types();
            let unknown = new_types.unknown_type(&self.policy, Role::Tool, &input);
            match draft(*input, types, unknown, manifest.trust(), Source::default(), now) {
                Ok(draft) => new_types.note(&draft),
                Err(invalid) => refused.push(Rejection::of(proposed.channel, proposed.index, &invalid)),
            }
        }
        refused.sort_by_key(|one| one.index);
        refused
    }

    /// The outcome of a call of `observe` with its first observations as evidence, so that whoever reads it can refer to
    /// them (E9.7); draws their ids. If some are refused, it says so: its answer contains the number of observations,
    /// and later steps rely on it.
    pub(crate) fn outcome_with_ids(&self, outcome: &CallOutcome, writes: &mut Writes) -> Option<CallOutcome> {
        let CallOutcome::Answered(answer) = outcome else {
            return None;
        };
        let given_count = writes.observations.len() as u64;
        let reported_count = answer.output.get("count").and_then(Value::as_u64);
        if writes.tool != OBSERVE || writes.has_failed || reported_count != Some(given_count) {
            return None;
        }
        let refused = self.refused(writes);
        let named = writes.observations.len().min(OBSERVATIONS_NAMED);
        let now = self.workspace.now();
        let ids = (0..named).map(|_| EntryId::draw(&**self.workspace.ids(), now));
        writes.observation_ids = ids.collect();
        let is_written = |index: &usize| refused.iter().all(|one| one.index != *index);
        let written = (0..named).filter(is_written).map(|index| Evidence {
            kind: "observation".to_owned(),
            id: writes.observation_ids[index].to_string(),
            hash: None,
            span: None,
        });
        let evidence = answer.evidence.iter().cloned().chain(written).collect();
        let Some(first) = refused.first() else {
            return Some(CallOutcome::Answered(CallAnswer {
                evidence,
                ..answer.clone()
            }));
        };
        let describe = |rejection: &Rejection| format!("item {}: {}", rejection.index + 1, rejection.message);
        let mut rejected: Vec<String> = refused.iter().take(MAX_LISTED_REFUSALS).map(describe).collect();
        if refused.len() > MAX_LISTED_REFUSALS {
            rejected.push(format!("and {} more", refused.len() - MAX_LISTED_REFUSALS));
        }
        let count = given_count.saturating_sub(refused.len() as u64);
        let notes = format!(
            "{}; {} rejected, {}",
            counted(count, "observation"),
            refused.len(),
            describe(first)
        );
        Some(CallOutcome::Answered(CallAnswer {
            output: Arc::new(json!({"count": count, "rejected": rejected})),
            notes,
            evidence,
        }))
    }

    /// A note for the trace about an item of `call`.
    fn note(&self, call: &Call<'_>, status: &str, detail: Value) -> TraceNote {
        let mut actor = Actor::new(Role::Tool, call.tool).in_run(call.run.id());
        actor.turn = self.turn;
        let note = TraceNote::new(call.now, &actor, "scratch_page", "add_observation");
        TraceNote {
            node: Some(call.node.to_string()),
            ..note.with_status(status).with_detail(detail)
        }
    }

    fn draft(&mut self, call: &Call<'_>, proposed: Proposed) -> Result<Draft, Invalid> {
        let tool = Some(call.tool).filter(|tool| !tool.is_empty());
        let source = Source {
            principal: tool.map(|tool| format!("{}:{tool}", Role::Tool)),
            tool: tool.map(str::to_owned),
            run: Some(call.run.id()),
            node: Some(call.node.to_string()),
            channel: Some(proposed.channel.as_str().to_owned()),
            turn: self.turn,
        };
        let named = call.ids.get(proposed.index).copied();
        let id = named
            .filter(|_| proposed.channel == Channel::Observations)
            .unwrap_or_else(|| EntryId::draw(&**self.workspace.ids(), call.now));
        match proposed.content {
            Content::Observation(input) => self.draft_observation(call, id, (proposed.channel, *input), source),
            Content::Memory(input) => self.draft_memory(call, id, input, source),
        }
    }

    /// An item for the scratchbook of the thread.
    fn draft_memory(&self, call: &Call<'_>, id: EntryId, input: ItemInput, source: Source) -> Result<Draft, Invalid> {
        let kind = input.kind;
        let (mut fields, warnings) = scratchbook::draft(input, call.trust)?;
        fields.source = source;
        let page = scratchbook::page_of(self.workspace.space(), &self.thread);
        let new = NewEntry {
            id,
            page: page.0,
            kind,
            fields,
        };
        Ok(Draft {
            page,
            new,
            tag_registration: None,
            warnings,
        })
    }

    fn draft_observation(
        &mut self,
        call: &Call<'_>,
        id: EntryId,
        (channel, input): (Channel, ObservationInput),
        source: Source,
    ) -> Result<Draft, Invalid> {
        let types = self.policy.types();
        let input_bound = Bound::of(&input);
        // An `observe:` rule speaks for the author of the plan.
        let is_ruled = channel == Channel::Observe;
        let role = if is_ruled { Role::Human } else { Role::Tool };
        let unknown = self.new_types.unknown_type(&self.policy, role, &input);
        let mut draft = draft(input, types, unknown, call.trust, source, call.now)?;
        self.new_types.note(&draft);
        if !is_ruled {
            let name = draft.fields.type_name.as_deref().unwrap_or_default();
            let ttl = types.get(name).and_then(|known| known.default_ttl);
            let bound = call.manifest.bound(&mut draft.fields, &input_bound, ttl, call.now);
            draft.warnings.extend(bound);
        }
        let registers = draft.registers.map(|as_type| Change::RegisterType {
            name: draft.fields.type_name.clone().unwrap_or_default(),
            as_type,
        });
        let page = page_of(self.workspace.space());
        let new = NewEntry {
            id,
            page: page.0,
            kind: EntryKind::Observation,
            fields: draft.fields,
        };
        Ok(Draft {
            page,
            new,
            tag_registration: registers,
            warnings: draft.warnings,
        })
    }

    /// The changes that append to a page; or why they are refused.
    fn append(
        &self,
        (run, node): (&Run, NodeId),
        append: PageAppend,
        (trust, now): (Trust, Timestamp),
    ) -> Result<Vec<Change>, String> {
        let refused = |invalid: Invalid| format!("page_append: {invalid}");
        let tags = Tag::parse_all(append.tags.iter().map(String::as_str)).map_err(refused)?;
        check_text(&append.body, "body").map_err(refused)?;
        let mut changes = Vec::new();
        let page = match append.page {
            PageTarget::OwnBranch => projection::branch_page(run, node),
            PageTarget::Main => projection::main_page(run.id()),
            PageTarget::Titled(title) => {
                // One page for each title and run, whoever writes to it first.
                let id = projection::note_page(run.id(), &title);
                let mut fields = PageFields::new(PageRole::Note, title, Owner::executor());
                fields.parent = Some(projection::workspace_page(run.id()));
                fields.run = Some(run.id());
                changes.push(Change::EnsurePage(Box::new(NewPage { id, fields })));
                id
            }
            PageTarget::Handle(handle) => handle
                .parse::<PageId>()
                .map_err(|_| format!("page_append: {handle:?} is not a page of this run; name it by its title"))?,
        };
        let block = LogBlock {
            page,
            title: append.title,
            body: append.body,
            tags,
            trust,
        };
        changes.push(self.log((run, node), block, now));
        Ok(changes)
    }

    fn log(&self, (run, node): (&Run, NodeId), block: LogBlock, now: Timestamp) -> Change {
        let mut fields = EntryFields::new(EntryKind::Log, Owner::executor(), block.trust);
        fields.title = block.title;
        fields.body = block.body;
        fields.tags = block.tags;
        fields.iteration = Some(projection::iteration(run));
        fields.source = Source {
            turn: self.turn,
            run: Some(run.id()),
            node: Some(node.to_string()),
            ..Source::default()
        };
        Change::AddEntry(Box::new(NewEntry {
            id: EntryId::draw(&**self.workspace.ids(), now),
            page: block.page,
            kind: EntryKind::Log,
            fields,
        }))
    }
}

/// The items of a call, taken out of its `writes`, by channel. What a call that failed was told to write is rejected.
fn channels_of(writes: &mut Writes, rule_observations: Vec<Value>) -> (Vec<(Channel, Value)>, Vec<Rejection>) {
    let mut rejected = Vec::new();
    let mut channels = vec![(Channel::Observations, std::mem::take(&mut writes.observations))];
    for (channel, items) in [
        (
            Channel::ScratchPageWrites,
            std::mem::take(&mut writes.scratch_page_writes),
        ),
        (Channel::MemoryWrites, std::mem::take(&mut writes.memory_writes)),
    ] {
        if writes.has_failed {
            let message = "the call failed, so what it was told to write is not written";
            rejected.extend((0..items.len()).map(|index| Rejection::new(channel, index, "call_failed", message)));
        } else {
            channels.push((channel, items));
        }
    }
    channels.push((Channel::Observe, rule_observations));
    let channels = channels.into_iter();
    (
        channels
            .map(|(channel, items)| (channel, Value::Array(items)))
            .collect(),
        rejected,
    )
}

/// The turn that `run` is in, according to its first event.
pub(crate) fn turn_of(run: &Run) -> Option<TurnId> {
    run.variable().get("turn")?.as_str()?.parse().ok()
}

/// What a finished node's `observe:` rules yield; nothing for a node without an inline output.
pub(crate) fn observations_from_rules(
    run: &Run,
    node: NodeId,
    result: &folio_engine::NodeResult,
) -> (Vec<Value>, Vec<String>) {
    match &result.output {
        Output::Inline(inline) if matches!(result.status, Outcome::Ok | Outcome::Partial) => {
            run.observations(node, result, &inline.value())
        }
        _ => (Vec::new(), Vec::new()),
    }
}
