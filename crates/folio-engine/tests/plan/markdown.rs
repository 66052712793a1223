//! Plans in markdown as people really write them: other white space, headings, comments, and what makes no sense.

use folio_engine::plan::{Known, Plan, ShownStep, parse, to_markdown};

fn read(text: &str) -> Plan {
    parse(text, &Known::default()).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The mistakes, one line each, with their hints.
fn mistakes(text: &str) -> String {
    let errors = parse(text, &Known::default()).map_or_else(|errors| errors, |plan| panic!("no mistake: {plan:?}"));
    errors.to_string()
}

#[test]
fn unusual_white_space_is_refused_as_indentation_e9_14() {
    for space in ['\u{a0}', '\u{3000}', '\u{2003}', '\u{2028}'] {
        for text in [
            format!("- [ ] A {{#a}}\n  ```yaml\n {space}do: {{tool: list}}\n  ```\n"),
            format!("- [ ] A {{#a}}\n {space}```yaml\n{space}do: {{tool: list}}\n  ```\n"),
            format!("- [ ] A {{#a}}\n{space}{space}- [ ] B {{#b}}\n"),
            format!("- [ ] A {{#a}}\n{space}more\n"),
        ] {
            assert!(parse(&text, &Known::default()).is_err(), "{text:?}");
        }
    }
    assert_eq!(
        mistakes("- [ ] A {#a}\n\u{a0}\u{a0}more\n"),
        "2:1: P001 this line is not a step: a step begins with `- `, and what belongs to it is indented"
    );
    // In what a line says it is nothing odd.
    assert_eq!(read("- [ ] A\u{a0}b {#a}\n").steps[0].title(), "A\u{a0}b");
}

#[test]
fn block_of_a_removed_step_is_reported_with_advice_e9_14() {
    let block = |tool: &str| format!("  ```yaml\n  do: {{tool: {tool}}}\n  ```\n");
    let second = format!("- [ ] A {{#a}}\n{}{}", block("list"), block("grep"));
    assert_eq!(
        mistakes(&second),
        "5:3: P001 this step has two blocks; put everything into one (if you removed the line of a step, remove its block, too)"
    );
    let first = format!(
        "# Plan\n\n<!-- folio plan edit r1, version 1 -->\n\n{}- [ ] A {{#a}}\n",
        block("list")
    );
    let told = mistakes(&first);
    assert!(
        told.starts_with("5:3: P001 this line is not a step") && told.contains("remove its block, too)"),
        "{told}"
    );
}

#[test]
fn checkbox_list_inside_a_text_keeps_a_plan_yaml_e9_1() {
    let steps = "steps: [{id: a, do: {tool: list}}]";
    for text in [
        format!("# Weekly review\ntitle: Weekly\n{steps}\nreport: |\n  Look at:\n  - [ ] all files\n"),
        format!("# One\n\n# Two\n---\n{steps}\nreport: |\n  - [x] done\n"),
        format!("# One\n{{{steps}, goal: \"\n  - [ ] this\"}}\n"),
        "# One\n- id: a\n  description: |\n    - [ ] this\n    - [ ] that\n".to_owned(),
        "# One\n- {id: a, title: x, reason: '\n    - [ ] this'}\n".to_owned(),
    ] {
        assert_eq!(read(&text).steps.len(), 1, "{text}");
    }
    // And a heading makes no YAML of a list of steps.
    for text in [
        "# Plan\n\n<!-- folio plan edit r1,\nversion 1 -->\n\n## Part\n- [ ] a {#a}\n",
        "# Plan\n- one more {#a}\n",
        "\n# Plan\n\n* [x] a {#a}\n",
    ] {
        assert_eq!(read(text).steps[0].id().unwrap().as_str(), "a", "{text}");
    }
    let told = mistakes("# Plan\nWhat we want\n- [ ] a {#a}\n");
    assert!(told.starts_with("2:1: P001 this line is not a step"), "{told}");
}

#[test]
fn markdown_step_with_a_colon_may_come_first_e9_14() {
    for text in [
        "# Demo\n\n<!-- folio plan edit r1, version 1 -->\n\n- Check: all links\n- [ ] b {#b}\n",
        "# Demo\n\n<!-- folio plan edit r1, version 1 -->\n\n- Check: all links\n- b\n",
        "# Plan\n\n- Check: all links\n- [ ] b {#b}\n",
        "# Plan\n- Check: all links\n  more of it\n- Look: at it\n- [ ] b {#b}\n",
    ] {
        assert_eq!(read(text).steps[0].title(), "Check: all links", "{text}");
    }
    let yaml = "# Plan\n- id: a\n  description: |\n    - [ ] this\n- id: b\n  title: x\n";
    assert_eq!(read(yaml).steps.len(), 2);
}

#[test]
fn duplicate_or_unknown_step_markup_is_reported_e9_14() {
    let block = |inside: &str| format!("  ```yaml\n  {inside}\n  ```\n");
    let described = format!("- [ ] A {{#a}}\n{}  more of it\n", block("description: long"));
    assert_eq!(
        mistakes(&described),
        "5:3: P002 the key `description` is already at 3:3 (write all of it in the block)"
    );
    let titled = format!("- [ ] B {{#a}}\n{}", block("title: C"));
    assert_eq!(
        mistakes(&titled),
        "1:3: P002 the key `title` is already at 3:3 (leave it out of the block, or change it there)"
    );
    for same in ["- [ ] C {#a}\n", "- [ ] a {#a}\n"] {
        assert_eq!(read(&format!("{same}{}", block("title: C"))).steps[0].title(), "C");
    }
    assert_eq!(
        mistakes("- [ ] Z {#z .paralel}\n  - [ ] y {#y}\n"),
        "1:3: P001 `.paralel` has no meaning after a title (write `#` with the id of the step, `.parallel` or `.sequence`)"
    );
    // Braces that are no name are part of the title.
    assert_eq!(read("- [ ] Use {a} and {.b}\n").steps[0].title(), "Use {a} and {.b}");
}

#[test]
fn group_without_members_is_reported_as_having_no_steps_e9_14() {
    let told = mistakes("- [ ] g {#g .parallel}\n");
    assert!(told.contains("P013 the group has no steps"), "{told}");
}

#[test]
fn markdown_mistakes_are_sorted_by_line_e9_1() {
    let text = "- [ ] a {#a}\n  ```yaml\n  title: b: c\n  ```\nnonsense\n";
    let found = parse(text, &Known::default()).unwrap_err().listed;
    let lines: Vec<u32> = found.iter().map(|mistake| mistake.place.line).collect();
    assert_eq!(lines, [3, 5]);
}

#[test]
fn tools_of_steps_survive_markdown_e9_14() {
    let plan = read(
        "steps:\n- {id: a, title: A, tools: [grep, desk.*]}\n- {id: b, title: B, tools: []}\n\
         - {id: g, parallel: [{id: c, title: C}], tools: [grep]}\n- {id: s, sequence: [{id: d, title: D}], tools: [grep]}\n\
         - {id: e, title: E, for_each: [1], description: look, tools: [grep]}\n",
    );
    let shown = to_markdown(&ShownStep::from_plan_steps(&plan.steps));
    assert!(
        shown.contains(
            "- [ ] A {#a}\n  ```yaml\n  tools: [grep, \"desk.*\"]\n  ```\n- [ ] B {#b}\n  ```yaml\n  tools: []\n"
        ),
        "{shown}"
    );
    assert_eq!(shown.matches("tools: [grep]").count(), 3, "{shown}");
    assert_eq!(read(&shown).steps, plan.steps);
}
