//! What holds for every plan.

use folio_engine::plan::{Graph, Known, Plan, ShownStep, Step, Work, parse, schema, to_markdown};
use folio_engine::template::references_of_text;
use proptest::prelude::*;
use serde_json::Value;

/// Writes `value` as YAML in block style, with every text in double quotes.
fn yaml(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n{pad}-"));
                yaml(item, indent + 2, out);
            }
        }
        Value::Object(entries) if !entries.is_empty() => {
            for (key, entry) in entries {
                out.push_str(&format!("\n{pad}? {}\n{pad}:", Value::from(key.as_str())));
                yaml(entry, indent + 2, out);
            }
        }
        other => out.push_str(&format!(" {other}")),
    }
}

/// The environment that `plan` requires: everything that its steps refer to.
fn known_of(plan: &Plan) -> Known {
    fn collect(steps: &[Step], known: &mut Known) {
        for step in steps {
            match step {
                Step::Task(task) => {
                    known.criteria.extend(task.satisfies.iter().cloned());
                    if let Work::Plan(inner) = &task.work {
                        collect(&inner.steps, known);
                    }
                }
                Step::Parallel(group) => collect(&group.steps, known),
                Step::Sequence(sequence) => collect(&sequence.steps, known),
                Step::ForEach(for_each) => collect(std::slice::from_ref(&for_each.body), known),
            }
        }
    }
    let mut known = Known::default();
    collect(&plan.steps, &mut known);
    known
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn plan_written_as_json_reads_back_unchanged(plan in crate::plan_support::plan()) {
        let written = serde_json::to_string(&plan).unwrap();
        match parse(&written, &known_of(&plan)) {
            Ok(read) => prop_assert_eq!(read, plan),
            Err(errors) => prop_assert!(false, "{}\n{}", errors, written),
        }
    }

    #[test]
    fn plan_written_as_yaml_reads_back_unchanged(plan in crate::plan_support::plan()) {
        let value = serde_json::to_value(&plan).unwrap();
        let mut text = String::new();
        yaml(&value, 0, &mut text);
        match parse(&text, &known_of(&plan)) {
            Ok(read) => prop_assert_eq!(read, plan),
            Err(errors) => prop_assert!(false, "{}\n{}", errors, text),
        }
    }

    #[test]
    fn every_plan_satisfies_the_schema(plan in crate::plan_support::plan()) {
        let schema: Value = serde_json::from_str(schema()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let value = serde_json::to_value(&plan).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        prop_assert!(errors.is_empty(), "{:?}\n{:#}", errors, value);
    }

    #[test]
    fn stored_plan_deserializes_unchanged(plan in crate::plan_support::plan()) {
        let stored = serde_json::to_value(&plan).unwrap();
        prop_assert_eq!(serde_json::from_value::<Plan>(stored).unwrap(), plan);
    }

    #[test]
    fn plan_written_as_markdown_reads_back_unchanged_e9_14(plan in crate::plan_support::plan()) {
        let written = ShownStep::from_plan_steps(&plan.steps);
        let text = to_markdown(&written);
        // The steps alone know of no inputs; only what they say is compared.
        let known = Known { before: std::iter::once("inputs".to_owned()).collect(), ..Known::default() };
        match parse(&text, &known) {
            Ok(read) => {
                let read = ShownStep::from_plan_steps(&read.steps);
                let (read, written): (Vec<_>, Vec<_>) =
                    (read.into_iter().map(|s| s.step).collect(), written.into_iter().map(|s| s.step).collect());
                prop_assert_eq!(read, written, "{}", text);
            }
            Err(errors) => {
                let about_inputs = |error: &folio_engine::plan::PlanError| error.message.contains("input");
                prop_assert!(errors.listed.iter().all(about_inputs), "{}\n{}", errors, text);
            }
        }
    }

    #[test]
    fn markdown_like_text_never_panics_the_plan_parser(
        text in "([ \\n\u{a0}\u{3000}]|\\n- |\\n  - |\\n    |\\[ \\] |\\[x\\] |\\[-\\] |\\{#a\\}|\\{#b \\.parallel\\}|\\n  ```yaml\\n|\\n  ```\\n|do: |\\{|\\}|#|<!--|-->|[a-c]| · ){0,60}",
    ) {
        drop(parse(&format!("- [ ] x\n{text}"), &Known::default()));
    }

    #[test]
    fn waits_point_to_earlier_steps_and_are_never_redundant(plan in crate::plan_support::plan()) {
        let graph = Graph::of(&plan.steps);
        for (at, node) in graph.nodes.iter().enumerate() {
            for &wait in &node.waits {
                prop_assert!(wait < at, "{} waits for {}", node.slug, graph.nodes[wait].slug);
                prop_assert!(graph.reads(at, wait));
                let by_another = node.waits.iter().any(|&other| other != wait && implies(&graph, other, wait));
                prop_assert!(node.step.needs().is_some() || !by_another);
            }
        }
        prop_assert_eq!(graph.roots().count(), plan.steps.len());
        for (at, node) in graph.nodes.iter().enumerate() {
            prop_assert!(node.children.iter().all(|&child| graph.nodes[child].parent == Some(at)));
        }
    }

    #[test]
    fn read_by_lists_every_step_read_in_plan_order_e9_2(plan in crate::plan_support::plan()) {
        let graph = Graph::of(&plan.steps);
        for reader in 0..graph.nodes.len() {
            let one_by_one: Vec<usize> = (0..graph.nodes.len()).filter(|&target| graph.reads(reader, target)).collect();
            prop_assert_eq!(graph.readable_by(reader), one_by_one);
        }
    }

    #[test]
    fn step_without_needs_waits_for_all_earlier_sequence_steps(plan in crate::plan_support::plan()) {
        let graph = Graph::of(&plan.steps);
        for (at, node) in graph.nodes.iter().enumerate() {
            let is_ordered = node.parent.is_none_or(|parent| !matches!(graph.nodes[parent].step, Step::Parallel(_)));
            if node.step.needs().is_some() || !is_ordered {
                continue;
            }
            for earlier in (0..at).filter(|&earlier| graph.nodes[earlier].parent == node.parent) {
                prop_assert!(node.waits.iter().any(|&wait| implies(&graph, wait, earlier)));
            }
        }
    }

    #[test]
    fn arbitrary_text_never_panics_the_plan_parser(text in "\\PC{0,200}") {
        drop(parse(&text, &Known::default()));
    }

    #[test]
    fn yaml_like_text_never_panics_the_plan_parser(
        text in "([ \\n]|- |\\{|\\}|\\[|\\]|: |, |\"|'|\\{\\{ | \\}\\}|steps|id|do|plan|parallel|for_each|needs|results\\.a|&a |\\*a|[a-c]|[0-9]){0,60}",
    ) {
        drop(parse(&text, &Known::default()));
        drop(parse(&format!("steps:\n  - {text}"), &Known::default()));
    }

    #[test]
    fn damaged_plan_yields_sorted_mistakes_without_a_panic(plan in crate::plan_support::plan(), at: prop::sample::Index, with in "\\PC{0,3}") {
        let written = serde_json::to_string_pretty(&plan).unwrap();
        let chars: Vec<char> = written.chars().collect();
        let at = at.index(chars.len());
        let damaged: String = chars[..at].iter().copied().chain(with.chars()).chain(chars[at + 1..].iter().copied()).collect();
        if let Err(errors) = parse(&damaged, &Known::default()) {
            prop_assert!(!errors.listed.is_empty());
            prop_assert!(errors.listed.is_sorted_by_key(|error| error.place));
        }
    }

    #[test]
    fn arbitrary_text_never_panics_the_template_parser(text in "(\\{\\{|\\}\\}|\\{%|%\\}|\\{#|#\\}| |if |for |in |endfor|raw|endraw|results|\\.|\\[|\\]|\"|'|\\||[a-z-]|[0-9]|é){0,40}") {
        drop(references_of_text(&text));
    }
}

/// Whether the end of `from` implies the end of `to`.
fn implies(graph: &Graph, from: usize, to: usize) -> bool {
    let mut seen = vec![false; graph.nodes.len()];
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        if next == to {
            return true;
        }
        if !std::mem::replace(&mut seen[next], true) {
            open.extend_from_slice(&graph.nodes[next].waits);
        }
    }
    false
}
