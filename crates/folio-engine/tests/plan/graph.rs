//! Which step waits for which.

use std::time::{Duration, Instant};

use folio_engine::plan::{Graph, Known, parse};

/// One line per step: its name, what contains it, what it waits for, and `*` if others refer to it.
#[track_caller]
fn graph(text: &str) -> String {
    let plan = parse(text, &Known::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let graph = Graph::of(&plan.steps);
    let name = |at: usize| graph.nodes[at].slug.to_string();
    let lines = graph.nodes.iter().map(|node| {
        let parent = node.parent.map(|at| format!(" in {}", name(at))).unwrap_or_default();
        let waits: Vec<String> = node.waits.iter().map(|&at| name(at)).collect();
        let needed = if node.needed { "*" } else { "" };
        format!("{}{needed}{parent} after [{}]", node.slug, waits.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn steps_wait_for_the_previous_step_and_branches_for_none() {
    insta::assert_snapshot!(graph("[t1, t2, [t3, t4], t5]"), @r#"
        t1 after []
        t2 after [t1]
        group-3 after [t2]
        t3 in group-3 after []
        t4 in group-3 after []
        t5 after [group-3]
        "#);
}

#[test]
fn step_after_needs_waits_for_all_open_ends() {
    insta::assert_snapshot!(
        graph("[{id: a}, {id: b, needs: [a]}, {id: c, needs: [a]}, {id: d}, {id: e, needs: []}, {id: f, needs: [e]}, {id: g}]"),
        @r#"
        a* after []
        b after [a]
        c after [a]
        d after [b, c]
        e* after []
        f after [e]
        g after [d, f]
        "#
    );
}

#[test]
fn needs_may_point_forward_and_into_groups() {
    insta::assert_snapshot!(
        graph("[{id: a, needs: [b]}, {id: b, needs: []}, {id: c}, {parallel: [{id: x}, {sequence: [{id: y}, {id: z}]}]}, {id: d, needs: [z]}, {id: e}]"),
        @r#"
        a after [b]
        b* after []
        c after [a]
        group-4 after [c]
        x in group-4 after []
        sequence-6 in group-4 after []
        y in sequence-6 after []
        z* in sequence-6 after [y]
        d after [z]
        e after [group-4, d]
        "#
    );
}

#[test]
fn generated_group_names_never_collide() {
    insta::assert_snapshot!(graph("[{id: group-2}, [a, {sequence: [b]}], [c]]"), @r#"
        group-2 after []
        group-2-2 after [group-2]
        a in group-2-2 after []
        sequence-4 in group-2-2 after []
        b in sequence-4 after []
        group-6 after [group-2-2]
        c in group-6 after []
        "#);
}

#[test]
fn results_read_by_templates_in_subplans_count_as_needed() {
    insta::assert_snapshot!(
        graph(
            "[{id: a}, {id: b}, {id: c}, {id: d, for_each: results.a.output, step: {id: x, description: '{{ results.b.notes }}'}}, \
             {id: e, plan: {steps: [{id: c}, {id: y, description: '{{ results.c.notes }} {{ results.d.notes }}'}], output: '{{ results.y.output }}'}}]"
        ),
        @r#"
        a* after []
        b* after [a]
        c after [b]
        d* after [c]
        e after [d]
        "#
    );
}

#[test]
fn two_thousand_steps_are_parsed_quickly_with_one_wait_each() {
    let steps: Vec<String> = (0..2_000)
        .map(|n| format!("  - {{id: s{n}, do: {{tool: list, args: {{path: '{{{{ inputs.p }}}}'}}}}}}"))
        .collect();
    let text = format!("inputs: {{p: path}}\nsteps:\n{}\n", steps.join("\n"));
    let begun = now();
    let plan = parse(&text, &Known::default()).unwrap();
    let graph = Graph::of(&plan.steps);
    assert_eq!(graph.nodes.len(), 2_000);
    assert!(
        graph
            .nodes
            .iter()
            .skip(1)
            .enumerate()
            .all(|(at, node)| node.waits == [at])
    );
    // Generous: it takes well under a second without optimisation.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[expect(clippy::disallowed_methods, reason = "a test may measure how long it takes")]
fn now() -> Instant {
    Instant::now()
}
