//! What a model reads of results: those of earlier steps, of calls, and of what was done so far.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use folio_memory::canonical::canonical;
use folio_memory::excerpt::{cut, fits, one_line, short_line};
use serde_json::Value;

use super::sizes::{DIGEST_MIN, Need, Sizes, shares};
use super::tool_text::{ToolText, tool_text};
use crate::lines::{indented, without_middle};
use crate::plan::{Slug, Step, Work};
use crate::result::{Evidence, NodeResult, Outcome};
use crate::run::call_in_words;
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::run::tree::{Frame, NodeKind};
use crate::talk::Purpose;

/// The most references of a result that a digest names.
const EVIDENCE_SHOWN: usize = 3;
/// What comes before an output.
const OUTPUT_HEAD: &str = "\n  output: ";
/// The fewest characters of an output that are worth showing; with less room, only a sign shows that there is one.
const OUTPUT_MIN: usize = 40;
/// The characters for saying how much of an output is left out and how to read it.
const LEFT_OUT_CHARS: usize = 96;
/// The number of failures of one step after which a model that plans anew is told to split or give up the step (E9.8).
const FAILURES: u32 = 3;
/// The most such steps that it is told about.
const FAILED_SHOWN: usize = 20;

impl Run {
    /// A line for each result that node `index` may build on: those of the steps that it waits for, in plan order,
    /// nearest plan last. If there is no room for all, the last ones, which are the nearest, get a digest, and the ones
    /// before are only named.
    pub(super) fn results_before(&self, index: usize, sizes: Sizes) -> Result<Vec<String>, BodyNeeded> {
        let mut before = self.readable_steps(index);
        before.retain(|node| self.nodes[*node].is_terminal() && self.nodes[*node].kind != NodeKind::Sequence);
        let mut before = self.without_groups(&before, false);
        before.retain(|node| self.nodes[*node].result.is_some());
        if before.len() <= sizes.results_max() {
            return self.digests(&before, sizes);
        }
        let sizes = Sizes {
            digests: sizes.digests.saturating_sub(DIGEST_MIN),
            ..sizes
        };
        let (earlier, recent) = before.split_at(before.len().saturating_sub(sizes.results_max()));
        let paths = earlier.iter().take(DIGEST_MIN).map(|node| &*self.nodes[*node].path);
        let paths = paths.collect::<Vec<_>>().join(", ");
        let earlier_note = format!(
            "{} earlier results{}: {paths}",
            earlier.len(),
            sizes.hint("; read them by name with result_read")
        );
        let mut lines = vec![short_line(&earlier_note, DIGEST_MIN)];
        lines.extend(self.digests(recent, sizes)?);
        Ok(lines)
    }

    /// The steps whose results node `index` is given, with their members: from its plan and those around it, the steps
    /// that it waits for or that its `needs` name, and those kept from earlier versions; in plan order, nearest plan
    /// last.
    pub(super) fn readable_steps(&self, index: usize) -> Vec<usize> {
        let mut readable = Vec::new();
        let mut at = index;
        while let Some(frame) = self.nodes[at].frame {
            let frame = &self.frames[frame];
            let reader = self.step_of(frame, at);
            let needs = reader.and_then(|reader| frame.graph.nodes[reader].step.needs());
            let mut seen = match needs {
                None => frame.kept.clone(),
                Some(needs) => self.kept_among(frame, needs),
            };
            if let Some(reader) = reader {
                let earlier = frame.graph.readable_by(reader).into_iter();
                seen.extend(earlier.map(|target| frame.nodes[target]));
            }
            readable.splice(0..0, seen);
            at = frame.owner;
        }
        readable
    }

    /// The steps kept from earlier versions of the plan of `frame` that `needs` name, and the members of kept groups
    /// whose names no step of this version has.
    fn kept_among(&self, frame: &Frame, needs: &[Slug]) -> Vec<usize> {
        let mut named = self.with_members(&frame.kept);
        named.retain(|at| {
            let view = self.view(*at);
            let needed = needs.iter().find(|need| need.as_str() == view.slug());
            needed.is_some_and(|need| frame.by_slug.get(need).is_none_or(|own| own == at))
        });
        named
    }

    /// The step of `frame` that `index` is or is inside of.
    fn step_of(&self, frame: &Frame, index: usize) -> Option<usize> {
        self.self_and_ancestors(index)
            .find_map(|at| frame.nodes.iter().position(|node| *node == at))
    }

    /// `nodes` with the members of groups in place of the groups, each once; with `items`, also those of lists. A group
    /// has no notes of its own.
    pub(in crate::run) fn without_groups(&self, nodes: &[usize], items: bool) -> Vec<usize> {
        let mut tasks = Vec::with_capacity(nodes.len());
        let mut seen = HashSet::with_capacity(nodes.len());
        let mut rest: Vec<usize> = nodes.iter().rev().copied().collect();
        while let Some(node) = rest.pop() {
            let kind = self.nodes[node].kind;
            let is_group = kind.is_group() || items && kind == NodeKind::ForEach;
            if is_group && !self.nodes[node].children.is_empty() {
                rest.extend(self.nodes[node].children.iter().rev());
            } else if seen.insert(node) {
                tasks.push(node);
            }
        }
        tasks
    }

    /// A digest of each result: status, notes, the beginning of its output, some of its evidence, its id. Together they
    /// have about as much room as `sizes` gives: each has a part that it always gets, and the rest goes to those that
    /// have more to say, with twice the weight for those that did not end well (E9.16). If there is no room even for
    /// the parts, the remaining results are only counted.
    pub(super) fn digests(&self, nodes: &[usize], sizes: Sizes) -> Result<Vec<String>, BodyNeeded> {
        let mut ended: Vec<(usize, &NodeResult)> = nodes
            .iter()
            .filter_map(|index| Some((*index, self.nodes[*index].result.as_ref()?)))
            .collect();
        let left_out = ended.len().saturating_sub(sizes.results_max());
        ended.truncate(sizes.results_max());
        let whole = ended
            .iter()
            .map(|(index, result)| self.digest(*index, result, sizes.digest, sizes));
        let mut lines = collect_loaded(whole)?;
        let lengths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        if lengths.iter().sum::<usize>() > sizes.digests {
            let needs: Vec<Need> = lengths
                .iter()
                .zip(&ended)
                .map(|(chars, (_, result))| Need {
                    chars: *chars,
                    weight: if result.status == Outcome::Ok { 1 } else { 2 },
                })
                .collect();
            for (at, share) in shares(&needs, sizes.digests).into_iter().enumerate() {
                if share < lengths[at] {
                    let (index, result) = ended[at];
                    lines[at] = self.digest(index, result, share, sizes)?;
                }
            }
        }
        if left_out > 0 {
            let hint = sizes.hint("; read them with result_read");
            lines.push(format!("and {left_out} more results{hint}"));
        }
        Ok(lines)
    }

    /// The result of node `index` in about `max` characters: its id, its name and status, some of its evidence, its
    /// notes, and as much of its output as there is room for.
    fn digest(&self, index: usize, result: &NodeResult, max: usize, sizes: Sizes) -> Result<String, BodyNeeded> {
        let node = &self.nodes[index];
        let why = result
            .stop_reason
            .map(|reason| format!(", {reason}"))
            .unwrap_or_default();
        let id = format!("\n  id: {}", node.id);
        let room = max.saturating_sub(id.len());
        let name = format!("{} ({}{why}) {}", node.path, result.status, self.title(node.id));
        // What the items of a list came to is in their notes if they have no output.
        let output = match node.kind {
            NodeKind::ForEach => self.readable_output_of(index)?,
            _ => self.output_of(index)?,
        };
        let rest = sizes.rest_of(node.id);
        // No line of an answer looks like another digest.
        let told = |room: usize| {
            let told = self.told_by_tool(index, &output, room, &rest)?;
            Some((told.text.trim_end().replace('\n', "\n  "), told.says_notes))
        };
        let whole_told = told(max);
        let notes = match &whole_told {
            Some((_, true)) => String::new(),
            _ if result.notes.is_empty() => String::new(),
            _ => format!(": {}", result.notes),
        };
        let is_told = whole_told.is_some();
        let whole = whole_told
            .map(|(text, _)| text)
            .or_else(|| (!output.is_null()).then(|| indented(in_words(&output).trim_end())));
        let output_text = whole.filter(|text| !is_told || !text.is_empty());
        let output_chars = output_text
            .as_ref()
            .map_or(0, |text| OUTPUT_HEAD.len() + text.chars().count());
        // However long the name is, half of the room is for the rest.
        let to_say = notes.chars().count() + evidence_of(result, room).chars().count() + output_chars;
        let mut line = short_line(&name, room - to_say.min(room / 2));
        let mut left = room.saturating_sub(line.chars().count());
        let evidence = evidence_of(result, left / 2);
        left -= evidence.chars().count();
        let notes = match output_text {
            Some(_) => short_line(&notes, left.min(max / 2)),
            // They are all that there is, and what is read on.
            None => shown_within(one_line(&notes), left, &rest),
        };
        left = left.saturating_sub(notes.chars().count());
        line.push_str(&notes);
        if let Some(mut text) = output_text {
            line.push_str(OUTPUT_HEAD);
            let room = left.saturating_sub(OUTPUT_HEAD.len());
            // It is cut at ends of lines, and says itself which are left out. That, and what stands before each line,
            // has to fit, too.
            let mut for_lines = room;
            while is_told && !fits(&text, room) {
                let excess = text.chars().count() - room;
                match for_lines.checked_sub(excess.max(OUTPUT_MIN)) {
                    Some(fewer) if fewer >= OUTPUT_MIN => for_lines = fewer,
                    _ => break,
                }
                text = told(for_lines).map_or(text, |(text, _)| text);
            }
            line.push_str(&shown_within(text, room, &rest));
        }
        Ok(line + &evidence + &id)
    }

    /// The answer of the tool that node `index` called, as whoever works on node `reader` reads it.
    pub(super) fn answer_of(&self, index: usize, reader: usize) -> Result<String, BodyNeeded> {
        let node = &self.nodes[index];
        let Some(result) = &node.result else {
            return Ok("not finished yet".to_owned());
        };
        let mut text = String::new();
        if result.status != Outcome::Ok {
            let why = result
                .stop_reason
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            let _ = write!(text, "{}{why}. ", result.status);
        }
        let output = self.output_of(index)?;
        let sizes = self.sizes(reader, Purpose::Work);
        let rest = sizes.rest_of(node.id);
        let told = self.told_by_tool(index, &output, sizes.answer, &rest);
        let says_notes = told.as_ref().is_some_and(|told| told.says_notes);
        if !says_notes {
            text.push_str(&result.notes);
        }
        let told = match told {
            Some(told) => told.text,
            None if output.is_null() => String::new(),
            None => value_excerpt(&output, sizes.answer, &rest),
        };
        if !text.is_empty() && !told.is_empty() {
            text.push('\n');
        }
        text.push_str(&told);
        for evidence in result.evidence.iter().filter(|evidence| evidence.kind == "observation") {
            let _ = write!(text, "\n[{}]", evidence_in_words(evidence));
        }
        let _ = write!(text, "\n[tool_call {}]", node.id);
        Ok(text)
    }

    /// The `output` of node `index` in about `max` characters, in the words of the built-in tool that it called.
    fn told_by_tool(&self, index: usize, output: &Value, max: usize, rest: &str) -> Option<ToolText> {
        let node = &self.nodes[index];
        let Some(Step::Task(task)) = &node.step else {
            return None;
        };
        let Work::Do(call) = &task.work else { return None };
        let notes = node.result.as_ref().map_or("", |result| &result.notes);
        tool_text(call, notes, output, max, rest)
    }

    /// The failed steps in the current plan of node `index` that failed so often, over all its plans, that they should
    /// not be tried again unchanged (E9.8). Lists only the first ones.
    pub(super) fn repeatedly_failed_steps(&self, index: usize) -> Vec<String> {
        let members: Vec<usize> = self.members(index).collect();
        let own = self.frames.iter().enumerate().filter(|(_, frame)| frame.owner == index);
        let plans: Vec<usize> = own.map(|(at, _)| at).collect();
        let steps = self.without_groups(&members, true).into_iter();
        let failure_counts = steps.map(|step| (self.times_failed(&plans, step), step));
        let mut repeated = failure_counts.filter(|(times, _)| *times >= FAILURES);
        let listed = repeated.by_ref().take(FAILED_SHOWN);
        let mut lines: Vec<String> = listed
            .map(|(times, step)| format!("{} failed {times} times", self.nodes[step].path))
            .collect();
        let unlisted = repeated.count();
        lines.extend((unlisted > 0).then(|| format!("and {unlisted} more")));
        lines
    }

    /// How often `step` failed, together with the steps of the same name in the other `plans` of its task, if it is in
    /// one of them itself: a call counts its attempts, a model's task how often it was done.
    fn times_failed(&self, plans: &[usize], step: usize) -> u32 {
        let attempts = |at: usize| {
            let node = &self.nodes[at];
            match &node.result {
                None => 0,
                Some(result) if result.status != Outcome::Failed => 0,
                Some(_) if node.kind == NodeKind::Call => node.attempt.max(1),
                // A task that was sent back failed both times.
                Some(_) => 1 + self.tally(at).map_or(0, |tally| tally.sent_back),
            }
        };
        let node = &self.nodes[step];
        let is_own = node.frame.is_some_and(|frame| plans.contains(&frame));
        let id = node.step.as_ref().and_then(Step::id).filter(|_| is_own);
        let Some(id) = id.filter(|_| attempts(step) > 0) else {
            return attempts(step);
        };
        let namesakes = plans
            .iter()
            .filter_map(|plan| self.frames[*plan].by_slug.get(id).copied());
        let all: BTreeSet<usize> = namesakes.chain([step]).collect();
        all.into_iter().map(attempts).sum()
    }

    /// The call of node `index` in a line: as it was made, or as it was wanted if it never began.
    pub(super) fn wanted_call(&self, index: usize) -> Cow<'_, str> {
        let node = &self.nodes[index];
        match &node.step {
            Some(Step::Task(task)) if node.call.is_empty() => match &task.work {
                Work::Do(call) => call_in_words(&call.tool, &call.args).into(),
                _ => Cow::Borrowed(""),
            },
            _ => Cow::Borrowed(&node.call),
        }
    }

    /// What a task did and its results, for a judge or for whoever takes it over.
    pub(super) fn done_so_far(&self, index: usize, sizes: Sizes) -> Result<Vec<String>, BodyNeeded> {
        let actions: Vec<usize> = self.nodes[index]
            .children
            .iter()
            .copied()
            .filter(|child| self.nodes[*child].kind == NodeKind::Action)
            .collect();
        let mut lines = Vec::new();
        let (mut left, mut needed) = (sizes.digests, None);
        // The last results matter most; those that do not fit are counted.
        for (listed, action) in actions.iter().rev().enumerate() {
            let node = &self.nodes[*action];
            let Some(result) = &node.result else { continue };
            if left < 200 {
                lines.push(format!("and {} earlier calls", actions.len() - listed));
                break;
            }
            let output = match self.output_of(*action) {
                Ok(output) => output,
                // A result that has to be read first counts too.
                Err(body) => {
                    needed.get_or_insert(body);
                    left = left.saturating_sub(sizes.digest);
                    continue;
                }
            };
            let (max, rest) = (sizes.digest.min(left), sizes.rest_of(node.id));
            let (call, notes) = (self.wanted_call(*action), short_line(&result.notes, 300));
            let line = match self.told_by_tool(*action, &output, max, &rest) {
                // An item of a list: no line of an answer looks like another item.
                Some(told) => {
                    let notes = if told.says_notes { "" } else { &notes };
                    let text = format!("{call} -> {} {notes}\n{}", result.status, told.text);
                    format!("{} [tool_call {}]", text.trim_end().replace('\n', "\n  "), node.id)
                }
                None => {
                    let excerpt = match &*output {
                        Value::Null => String::new(),
                        output => value_excerpt(output, max, &rest),
                    };
                    let mut line = format!("{call} -> {}", result.status);
                    for part in [notes, excerpt].iter().filter(|part| !part.is_empty()) {
                        let _ = write!(line, " {part}");
                    }
                    let _ = write!(line, " [tool_call {}]", node.id);
                    line
                }
            };
            left = left.saturating_sub(line.chars().count());
            lines.push(line);
        }
        if let Some(body) = needed {
            return Err(body);
        }
        lines.reverse();
        let node = &self.nodes[index];
        if node.kind == NodeKind::Call {
            lines.push(node.call.to_string());
        }
        if node.kind == NodeKind::Plan || self.agent(index).is_some_and(super::Agent::has_plan) {
            let digests = left.max(sizes.digests / 2);
            lines.extend(self.digests(&self.inputs_of(index), Sizes { digests, ..sizes })?);
        }
        Ok(lines)
    }
}

/// All values, or the first output that has to be read: only after each value was tried, so that all lacking outputs
/// are recorded at once.
pub(super) fn collect_loaded<T>(results: impl Iterator<Item = Result<T, BodyNeeded>>) -> Result<Vec<T>, BodyNeeded> {
    let results: Vec<_> = results.collect();
    results.into_iter().collect()
}

/// A value as a model reads it: a text as it is, everything else as JSON; a long one is shown with its beginning and
/// end, and how to read the `rest`.
pub(super) fn value_excerpt(value: &Value, max: usize, rest: &str) -> String {
    without_middle(in_words(value), max, rest)
}

/// The same of a text in at most `max` characters, including what it says of the rest; if there is no room for that,
/// the beginning, or only a sign.
fn shown_within(text: String, max: usize, rest: &str) -> String {
    if fits(&text, max) {
        return text;
    }
    match max.checked_sub(LEFT_OUT_CHARS) {
        Some(room) if room >= OUTPUT_MIN => without_middle(text, room, rest),
        _ if max >= OUTPUT_MIN => cut(&text, max),
        _ => "…".to_owned(),
    }
}

pub(super) fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => canonical(other.clone()).to_string(),
    }
}

/// A reference as a model reads it: what it is to, and the place in it.
pub(super) fn evidence_in_words(evidence: &Evidence) -> String {
    let span = evidence
        .span
        .as_ref()
        .map_or_else(String::new, |span| format!(":{span}"));
    format!("{} {}{span}", evidence.kind, evidence.id)
}

/// A line with the first references of a result, as many as fit into `max` characters, and how many more there are;
/// empty if there are none or none fits.
fn evidence_of(result: &NodeResult, max: usize) -> String {
    let all = &result.evidence;
    let render = |count: usize| {
        let first = all[..count].iter();
        let mut entries: Vec<String> = first
            .map(|evidence| short_line(&evidence_in_words(evidence), 60))
            .collect();
        let left_out = all.len() - count;
        entries.extend((left_out > 0).then(|| format!("{left_out} more")));
        format!("\n  evidence: {}", entries.join(", "))
    };
    let mut lines = (1..=EVIDENCE_SHOWN.min(all.len())).rev().map(render);
    lines.find(|line| fits(line, max)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use folio_memory::{RunId, Timestamp};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::event::{Event, FORMAT};
    use crate::result::Output;
    use crate::run::action::Action;
    use crate::template::Templates;

    /// A run whose plan has `titles` for its steps, all at the same time, each of which has the result that `came_to`
    /// returns.
    fn ended(titles: &[String], came_to: impl Fn(usize) -> NodeResult) -> Run {
        let now = Timestamp::from_millis(1_000);
        let step = |(at, title): (usize, &String)| json!({"id": format!("s{at}"), "title": title, "needs": [], "do": {"tool": "echo", "args": {}}});
        let steps: Vec<Value> = titles.iter().enumerate().map(step).collect();
        let mut run = Run::new(RunId::derived(&["test"]), Arc::new(Templates::new()));
        let begun = Event::RunStarted {
            format: FORMAT,
            goal: String::new(),
            plan: json!({"version": 1, "title": "many steps", "steps": steps}),
            inputs: BTreeMap::new(),
            deadline: None,
            run: Value::Null,
        };
        run.apply(now, &begun).unwrap();
        for wanted in 0..=titles.len() {
            while let Some(Action::Record(event)) = run.due(now, 1).first() {
                run.apply(now, event).unwrap();
            }
            if let Some(Action::Call(call)) = run.due(now, 1).first() {
                run.apply(now, &call.started()).unwrap();
                let result = Box::new(came_to(wanted));
                run.apply(
                    now,
                    &Event::Finished {
                        node: call.node,
                        result,
                    },
                )
                .unwrap();
            }
        }
        run
    }

    fn evidence(count: usize, chars: usize) -> Vec<Evidence> {
        let reference = |n: usize| Evidence {
            kind: "file".to_owned(),
            id: format!("{n}-{}", "f".repeat(chars)),
            hash: None,
            span: None,
        };
        (0..count).map(reference).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn digests_fit_their_budget_and_each_keeps_its_node_id_e9_16(
            window in 1_000..200_000_u32,
            said in proptest::collection::vec((0..400_usize, 0..3_000_usize, 0..3_000_usize, 0..9_usize, 0..90_usize), 1..130),
        ) {
            let sizes = Sizes::of(window);
            let said = &said[..said.len().min(sizes.results_max())];
            let titles: Vec<String> = said.iter().map(|(title, ..)| format!("t{}", "i".repeat(*title))).collect();
            let run = ended(&titles, |at| {
                let (_, notes, output, count, chars) = said[at];
                NodeResult {
                    output: Output::of(Value::String("o".repeat(output))),
                    evidence: evidence(count, chars),
                    ..NodeResult::new(Outcome::Ok, "n".repeat(notes))
                }
            });
            let nodes: Vec<usize> = run.members(0).collect();
            prop_assert!(nodes.iter().all(|node| run.nodes[*node].result.is_some()));
            let lines = run.digests(&nodes, sizes).unwrap();
            prop_assert_eq!(lines.len(), nodes.len());
            let chars: usize = lines.iter().map(|line| line.chars().count()).sum();
            prop_assert!(chars <= sizes.digests + 30 * lines.len(), "{} of {}", chars, sizes.digests);
            for (line, (_, notes, output, ..)) in lines.iter().zip(said) {
                prop_assert!(line.chars().count() <= sizes.digest + 30, "{}", line);
                prop_assert!(line.contains("\n  id: "), "{}", line);
                prop_assert!(*notes == 0 || line.contains(": n"), "{}", line);
                prop_assert!(line.contains("\n  output: ") || *output == 0, "{}", line);
            }
        }
    }

    #[test]
    fn long_title_leaves_half_of_a_digest_to_notes_and_output_e9_2() {
        let digest = |notes: &str, output: &str, max: usize| {
            let run = ended(&["t".repeat(400)], |_| NodeResult {
                output: Output::of(json!(output)),
                ..NodeResult::new(Outcome::Ok, notes)
            });
            let node = run.members(0).next().unwrap();
            let result = run.nodes[node].result.as_ref().unwrap();
            let text = run.digest(node, result, max, Sizes::of(128_000)).unwrap();
            assert!(text.chars().count() <= max, "{text}");
            text
        };
        for (notes, output) in [("n", ""), ("", "the output"), ("n", "the output")] {
            let text = digest(notes, output, 200);
            assert!(notes.is_empty() || text.contains("…: n\n"), "{text}");
            assert!(text.contains(&format!("\n  output: {output}\n")), "{text}");
        }
        let text = digest("", &"o".repeat(400), 400);
        assert!(text.matches('o').count() > 80, "{text}");
    }

    #[test]
    fn long_digest_truncates_notes_and_output_but_keeps_its_id_e9_2() {
        let run = ended(&["look around".to_owned()], |_| NodeResult {
            output: Output::of(json!("o".repeat(2_000))),
            evidence: evidence(5, 10),
            ..NodeResult::new(Outcome::Ok, "n".repeat(300))
        });
        let node = run.members(0).next().unwrap();
        let result = run.nodes[node].result.as_ref().unwrap();
        let at = |max: usize| run.digest(node, result, max, Sizes::of(128_000)).unwrap();
        let id = run.nodes[node].id;
        let lines = |max: usize| at(max).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines(200),
            [
                format!("s0 (ok) look around: {}…", "n".repeat(79)),
                "  output: …".to_owned(),
                "  evidence: file 0-ffffffffff, file 1-ffffffffff, file 2-ffffffffff, 2 more".to_owned(),
                format!("  id: {id}"),
            ]
        );
        let whole = at(1_200);
        assert!(
            whole.contains(&format!("look around: {}\n", "n".repeat(300))),
            "{whole}"
        );
        assert!(whole.contains("characters left out; use result_read node="), "{whole}");
        assert!(whole.contains("file 2-ffffffffff, 2 more\n"), "{whole}");
        assert!(whole.chars().count() <= 1_200, "{whole}");
    }
}
