//! What the steps of a plan read of the output of one of them: whoever makes that output has to know it (E9.1).

use std::collections::BTreeMap;

use serde_json::Value;

use super::reads::{Source, each_member, inner_steps, sites};
use super::{Slug, Step};
use crate::template::{is_reference, output_paths, single_expression};

/// The paths in an output that other steps read, such as `output.rooms`, and of each whether it has to be a list,
/// because a step is done for each of its items.
pub(crate) type OutputReads = BTreeMap<String, bool>;

/// What `steps`, which are those of one plan, read of the output of the step `slug`, including those in their sub-plans
/// and bodies.
pub(crate) fn output_reads<'s>(steps: impl Iterator<Item = &'s Step>, slug: &Slug) -> OutputReads {
    let mut found = OutputReads::new();
    steps.for_each(|step| collect(step, slug, &mut found));
    found
}

fn collect(step: &Step, slug: &Slug, found: &mut OutputReads) {
    for site in sites(step) {
        each_text(site.source, &mut |text| {
            for path in output_paths(text, slug.as_str()) {
                found.entry(path).or_insert(false);
            }
        });
    }
    if let Step::ForEach(for_each) = step
        && let Value::String(over) = &for_each.over
    {
        let reference = single_expression(over.trim()).unwrap_or(over).trim();
        if is_reference(reference) {
            found.extend(
                output_paths(reference, slug.as_str())
                    .into_iter()
                    .map(|path| (path, true)),
            );
        }
    }
    // A name that is defined inside hides this one.
    let inner = inner_steps(step);
    let mut is_hidden = false;
    each_member(inner, &mut |member| is_hidden |= member.id() == Some(slug));
    if !is_hidden {
        each_member(inner, &mut |member| collect(member, slug, found));
    }
}

/// Calls `visit` for each text of `source`.
fn each_text(source: Source<'_>, visit: &mut impl FnMut(&str)) {
    match source {
        Source::Text(text) | Source::Expression(text) => visit(text),
        Source::Value(value) => each_string(value, visit),
    }
}

fn each_string(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| each_string(item, visit)),
        Value::Object(fields) => fields.values().for_each(|field| each_string(field, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Why `output` is not what [`OutputReads`] say of it: each path that has to be a list and is none.
pub(crate) fn not_lists<'r>(reads: &'r OutputReads, output: &Value) -> Vec<&'r str> {
    let is_list = |path: &str| {
        let at = path.split('.').skip(1).try_fold(output, |at, key| at.get(key));
        at.is_some_and(Value::is_array)
    };
    let lists = reads.iter().filter(|(_, is_list)| **is_list);
    lists
        .map(|(path, _)| path.as_str())
        .filter(|path| !is_list(path))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{Known, parse};

    #[test]
    fn reads_of_an_output_are_found_in_lists_texts_and_inner_plans() {
        let plan = parse(
            "title: t
steps:
  - {id: rooms, do: {tool: echo, args: {}}}
  - {id: each, title: e, for_each: results.rooms.output.rooms, as: room, step: {id: look, do: {tool: echo, args: {n: '{{ results.rooms.output.house.floors }}'}}}}
  - {id: all, title: a, for_each: '{{ results.rooms.output }}', as: room, step: {id: look, do: {tool: echo, args: {}}}}
  - {id: say, do: {tool: echo, args: {text: ['{{ results[\"rooms\"].output.count }} and {{ results.rooms.notes }}']}}}
  - {id: maybe, do: {tool: echo, args: {text: '{{ results.rooms.output.seldom | default(1) }}'}}}
  - id: own
    plan:
      - {id: rooms, do: {tool: echo, args: {}}}
      - {id: use, do: {tool: echo, args: {text: '{{ results.rooms.output.hidden }}'}}}
",
            &Known::default(),
        )
        .unwrap();
        let reads = output_reads(plan.steps.iter(), &Slug::of("rooms"));
        let found: Vec<(&str, bool)> = reads.iter().map(|(path, is_list)| (path.as_str(), *is_list)).collect();
        assert_eq!(
            found,
            [
                ("output", true),
                ("output.count", false),
                ("output.house.floors", false),
                ("output.rooms", true)
            ]
        );
        assert_eq!(not_lists(&reads, &json!({"rooms": []})), ["output"]);
        assert_eq!(not_lists(&reads, &json!(null)), ["output", "output.rooms"]);
    }
}
