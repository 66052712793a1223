//! What a call writes to memory, as changes that go into the same commit as its outcome: so it is there exactly once.

use std::sync::Arc;

use folio_engine::{NodeId, Outcome, Output, Run, projection};
use folio_memory::entry::{EntryFields, EntryKind, Owner, Tag, check_text};
use folio_memory::observation::{ObservationInput, TtlInput, UnknownType, draft, page_of};
use folio_memory::tool_exchange::{Bound, Channel, Content, Proposed, ToolManifest, sift};
use folio_memory::{
    Change, Clock, EntryId, IdSource, NewEntry, NewPage, PageFields, PageId, PageRole, Role, Source, SpaceName,
    Timestamp, Trust, TurnId,
};
use folio_store::workspace::PolicyInForce;
use folio_tools::{PageAppend, PageTarget};
use serde_json::Value;

use crate::perform::Writes;

/// Turns what tools and `observe:` rules say into changes of memory.
#[derive(Debug)]
pub(crate) struct MemoryWriter {
    pub(crate) space: SpaceName,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    /// The turn that the run is in; none for one of an older version.
    pub(crate) turn: Option<TurnId>,
    /// What holds in the space; to be renewed before something is written.
    pub(crate) policy: Arc<PolicyInForce>,
}

impl MemoryWriter {
    /// The changes for a call of `node` that ended. Malformed items are left out one by one and said in a block of the
    /// branch's log; they never change the outcome (seed 002).
    pub(crate) fn changes(
        &self,
        run: &Run,
        node: NodeId,
        writes: Writes,
        ruled: Vec<Value>,
        problems: Vec<String>,
    ) -> Vec<Change> {
        let now = self.clock.now();
        let mut changes = Vec::new();
        let mut rejected = problems;
        // The same rules as for every other tool's answer: manifests, limits, an item equal in two arrays (M7.3.23, 24).
        let manifest = self.policy.manifests.of(&writes.tool);
        let said = [
            (Channel::Observations, Value::Array(writes.observations)),
            (Channel::ScratchPageWrites, Value::Array(writes.scratch_page_writes)),
            (Channel::Observe, Value::Array(ruled)),
        ];
        let sifted = sift(&said.each_ref().map(|(channel, items)| (*channel, items)), &manifest);
        for one in &sifted.rejected {
            rejected.push(format!("{}[{}]: {}", one.channel, one.index, one.message));
        }
        for Proposed {
            channel,
            index,
            content,
        } in sifted.proposed
        {
            let Content::Observation(input) = content else { continue };
            match self.observation(run, node, &writes.tool, &manifest, channel, *input, now) {
                Ok((entry, registers)) => {
                    changes.extend(registers);
                    changes.push(Change::AddEntry(Box::new(entry)));
                }
                Err(problem) => rejected.push(format!("{channel}[{index}]: {problem}")),
            }
        }
        if !changes.is_empty() {
            changes.insert(0, self.scratch_page());
        }
        for append in writes.page_appends {
            self.append(run, node, append, now, &mut changes, &mut rejected);
        }
        if !rejected.is_empty() {
            let page = projection::branch_page(run, node);
            changes.push(self.log(page, run, node, "Rejected", rejected.join("\n"), Vec::new(), now));
        }
        changes
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "an item of an answer has these parts; a struct would be filled in once"
    )]
    fn observation(
        &self,
        run: &Run,
        node: NodeId,
        tool: &str,
        manifest: &ToolManifest,
        channel: Channel,
        input: ObservationInput,
        now: Timestamp,
    ) -> Result<(NewEntry, Option<Change>), String> {
        let asked = match (&input.ttl_minutes, &input.expires_at) {
            (TtlInput::Absent, None) => Bound::Unsaid,
            _ => Bound::Given,
        };
        let source = Source {
            principal: (!tool.is_empty()).then(|| format!("{}:{tool}", Role::Tool)),
            tool: Some(tool.to_owned()).filter(|tool| !tool.is_empty()),
            run: Some(run.id()),
            node: Some(node.to_string()),
            channel: Some(channel.as_str().to_owned()),
            turn: self.turn,
        };
        // What a rule of the plan says, whoever wrote the plan says.
        let is_ruled = channel == Channel::Observe;
        let role = if is_ruled { Role::Human } else { Role::Tool };
        let unknown = UnknownType::under(&self.policy, role);
        let mut draft = draft(input, self.policy.types(), unknown, Trust::ToolInternal, source, now)
            .map_err(|invalid| invalid.to_string())?;
        if !is_ruled {
            let name = draft.fields.type_name.as_deref().unwrap_or_default();
            let ttl = self.policy.types().get(name).and_then(|known| known.default_ttl);
            // Nobody reads the warnings of a run's call; what holds stands in the entry.
            let _corrected = manifest.bound(&mut draft.fields, asked, ttl, now);
        }
        let registers = draft.registers.map(|as_type| Change::RegisterType {
            name: draft.fields.type_name.clone().unwrap_or_default(),
            as_type,
        });
        let (page, _) = page_of(&self.space);
        let entry = NewEntry {
            id: EntryId::draw(&*self.ids, now),
            page,
            kind: EntryKind::Observation,
            fields: draft.fields,
        };
        Ok((entry, registers))
    }

    fn scratch_page(&self) -> Change {
        let (id, fields) = page_of(&self.space);
        Change::EnsurePage(Box::new(NewPage { id, fields }))
    }

    fn append(
        &self,
        run: &Run,
        node: NodeId,
        append: PageAppend,
        now: Timestamp,
        changes: &mut Vec<Change>,
        rejected: &mut Vec<String>,
    ) {
        let tags = match Tag::parse_all(append.tags.iter().map(String::as_str)) {
            Ok(tags) => tags,
            Err(invalid) => return rejected.push(format!("page_append: {invalid}")),
        };
        if let Err(invalid) = check_text(&append.body, "body") {
            return rejected.push(format!("page_append: {invalid}"));
        }
        let page = match append.page {
            PageTarget::OwnBranch => projection::branch_page(run, node),
            PageTarget::Main => projection::main_page(run.id()),
            PageTarget::Titled(title) => {
                // One page a title and run, whoever writes to it first.
                let id = PageId::derived(&["note", &run.id().to_string(), &title]);
                let mut fields = PageFields::new(PageRole::Note, title, Owner::executor());
                fields.parent = Some(projection::workspace_page(run.id()));
                fields.run = Some(run.id());
                changes.push(Change::EnsurePage(Box::new(NewPage { id, fields })));
                id
            }
            PageTarget::Handle(handle) => match handle.parse::<PageId>() {
                Ok(id) => id,
                Err(_) => {
                    return rejected.push(format!(
                        "page_append: {handle:?} is not a page of this run; name it by its title"
                    ));
                }
            },
        };
        changes.push(self.log(page, run, node, &append.title, append.body, tags, now));
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a log block has these parts; a struct would be filled in once"
    )]
    fn log(
        &self,
        page: PageId,
        run: &Run,
        node: NodeId,
        title: &str,
        body: String,
        tags: Vec<Tag>,
        now: Timestamp,
    ) -> Change {
        let mut fields = EntryFields::new(EntryKind::Log, Owner::executor(), Trust::ToolInternal);
        title.clone_into(&mut fields.title);
        fields.body = body;
        fields.tags = tags;
        fields.source = Source {
            turn: self.turn,
            run: Some(run.id()),
            node: Some(node.to_string()),
            ..Source::default()
        };
        Change::AddEntry(Box::new(NewEntry {
            id: EntryId::draw(&*self.ids, now),
            page,
            kind: EntryKind::Log,
            fields,
        }))
    }
}

/// The turn that `run` is in, as its first event says.
pub(crate) fn turn_of(run: &Run) -> Option<TurnId> {
    run.variable().get("turn")?.as_str()?.parse().ok()
}

/// What a finished node's `observe:` rules say; nothing for a node that has no output to speak of.
pub(crate) fn ruled(run: &Run, node: NodeId, result: &folio_engine::NodeResult) -> (Vec<Value>, Vec<String>) {
    match &result.output {
        Output::Inline(value) if matches!(result.status, Outcome::Ok | Outcome::Partial) => {
            run.observations(node, result, value)
        }
        _ => (Vec::new(), Vec::new()),
    }
}
