use proptest::prelude::*;
use serde_json::json;

use super::*;

fn scope() -> Scope {
    let result = json!({
        "task_id": "list-files", "status": "ok", "notes": "two files", "severity": null, "stop_reason": null,
        "output": {"items": ["a.rs", "b.rs"], "count": 2, "ratio": 0.1, "big": u64::MAX, "low": i64::MIN},
    });
    Scope {
        inputs: Arc::new(json!({"repo": ".", "limit": 5})),
        variables: vec![("item".to_owned(), Arc::new(json!({"path": "src/a.rs"})))],
        results: BTreeMap::from([("list-files".to_owned(), Arc::new(result))]),
    }
}

fn text(template: &str) -> String {
    Templates::new()
        .render_text(template, &scope())
        .unwrap_or_else(|error| format!("! {error}"))
}

fn value(template: &str) -> Value {
    Templates::new()
        .render_value(&json!(template), &scope())
        .unwrap_or_else(|error| json!(format!("! {error}")))
}

#[test]
fn text_without_expressions_is_unchanged() {
    for plain in ["", "a { b } c", "100 %", "line\n", "}} %}"] {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn expressions_in_text_render_lists_as_compact_json() {
    assert_eq!(
        text("{{ inputs.repo }}: {{ results.list-files.output.items }}\n"),
        ".: [\"a.rs\",\"b.rs\"]\n"
    );
    assert_eq!(
        text("{{ item.path | basename }} of {{ results['list-files'].output.count }}"),
        "a.rs of 2"
    );
    assert_eq!(
        text("{% for f in results.list-files.output.items %}{{ loop.index }}={{ f }} {% endfor %}"),
        "1=a.rs 2=b.rs "
    );
    assert_eq!(
        text("{{ results.list-files.severity }} {{ {'b': [1.0, true]} }}"),
        "null {\"b\":[1.0,true]}"
    );
    assert_eq!(text("{{ true }} {{ 1 > 2 }} {{ [true] }}"), "true false [true]");
    assert_eq!(
        text("{{ results | length }} {{ 'results.nothing' }} {# results.gone #}"),
        "1 results.nothing "
    );
    assert_eq!(text("{% raw %}{{ results.gone }}{% endraw %}"), "{{ results.gone }}");
}

#[test]
fn expression_surrounded_by_space_renders_as_text() {
    assert_eq!(value("{{ inputs.limit }}\n"), json!("5\n"));
    assert_eq!(value(" {{ item }}"), json!(" {\"path\":\"src/a.rs\"}"));
    let over = json!("{{ results.list-files.output['items'] }}\n");
    assert_eq!(Templates::new().eval_list(&over, &scope()).unwrap().len(), 2);
}

#[test]
fn undefined_name_error_does_not_blame_keywords_filters_or_tests() {
    for template in [
        "{{ results.list-files.severity or item.gone }}",
        "{{ (inputs.limit is defined and none) or item.gone }}",
        "{{ inputs.repo and item.gone | upper }}",
        "{{ item.gone if inputs.limit is not none else none }}",
    ] {
        let told = value(template).to_string();
        assert!(told.contains("there is no `gone` in `item`"), "{template}: {told}");
    }
}

#[test]
fn single_expression_keeps_its_type() {
    assert_eq!(value("{{ results.list-files.output.items }}"), json!(["a.rs", "b.rs"]));
    assert_eq!(
        value(" {{- results.list-files.output -}} \n"),
        scope().results["list-files"]["output"]
    );
    assert_eq!(value("{{ inputs.limit + 1 }}"), json!(6));
    assert_eq!(value("{{ inputs.limit > 1 }}"), json!(true));
    assert_eq!(value("{{ results.list-files.severity }}"), Value::Null);
    assert_eq!(value("{{ {'a': {'b': 1}} }}"), json!({"a": {"b": 1}}));
    assert_eq!(value("{{ '}}' }}"), json!("}}"));
    assert_eq!(value("{{ inputs.repo }}{{ inputs.limit }}"), json!(".5"));
    assert_eq!(
        value("{{ results.list-files.output.items | map('upper') | list }}"),
        json!(["A.RS", "B.RS"])
    );
    assert_eq!(value("{{ results.list-files.output.items[:1] }}"), json!(["a.rs"]));
    assert_eq!(value("{{ results.list-files.output.items[-1] }}"), json!("b.rs"));
}

#[test]
fn numbers_keep_every_digit() {
    let output = &scope().results["list-files"]["output"];
    for name in ["big", "low", "ratio"] {
        assert_eq!(
            value(&format!("{{{{ results.list-files.output.{name} }}}}")),
            output[name]
        );
        assert_eq!(
            text(&format!("{{{{ results.list-files.output.{name} }}}}.")),
            format!("{}.", output[name])
        );
    }
}

#[test]
fn nested_strings_are_filled_in_but_object_keys_are_not() {
    let given =
        json!({"{{ x }}": [1, {"paths": "{{ results.list-files.output.items }}", "n": "n={{ inputs.limit }}"}]});
    let filled = Templates::new().render_value(&given, &scope()).unwrap();
    assert_eq!(filled, json!({"{{ x }}": [1, {"paths": ["a.rs", "b.rs"], "n": "n=5"}]}));
}

#[test]
fn template_error_names_the_expression_the_reason_and_alternatives() {
    let error = |template: &str| text(template).strip_prefix("! ").map(str::to_owned).unwrap_or_default();
    insta::assert_snapshot!(
        [
            "{{ inputs.repoo }}",
            "x {{ results.list-files.outptu.items }}",
            "{{ results.list_files.output }}",
            "{{ results.list-files.output.items.first }}",
            "{{ nothing }}",
            "{{ item.path.name }}",
            "{{ inputs.limit + 'a' }}",
            "a\n{{ inputs. }}",
            "{{ inputs.repo | shout }}",
            "{% include 'x' %}",
        ]
        .map(error)
        .join("\n"),
        @r#"
        `inputs.repoo`: there is no `repoo` in `inputs`; it has `limit`, `repo`
        `results.list-files.outptu.items`: there is no `outptu` in `results.list-files`; it has `notes`, `output`, `severity`, `status`, `stop_reason`, `task_id`
        `results.list_files.output`: there is no `list_files` in `results`; it has `list-files`
        `results.list-files.output.items.first`: there is no `first` in `results.list-files.output.items`; it is a list of 2
        `nothing`: there is no `nothing` in the scope of the template; it has `inputs`, `results`, `item`
        `item.path.name`: there is no `name` in `item.path`, which is a text
        `inputs.limit + 'a'`: invalid operation: tried to use + operator on unsupported types number and string
        `a {{ inputs. }}` on line 2: unexpected end of variable block, expected identifier or integer
        `shout`: unknown filter: filter shout is unknown
        `{% include %}`: `include` does not exist here: a template stands alone
        "#
    );
}

#[test]
fn template_error_inside_a_value_names_its_path() {
    let given = json!({"files": [{"name": "ok"}, {"name": "{{ inputs.gone }}"}]});
    let error = Templates::new().render_value(&given, &scope()).unwrap_err();
    assert_eq!(error.path, "files[1].name");
    assert_eq!(error.kind, TemplateErrorKind::Undefined);
}

#[test]
fn template_work_length_and_output_are_limited() {
    let kind = |template: &str| {
        Templates::new()
            .render_value(&json!(template), &scope())
            .unwrap_err()
            .kind
    };
    let forever = "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
    assert_eq!(kind(forever), TemplateErrorKind::TooExpensive);
    let lines = "{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}";
    assert_eq!(kind(lines), TemplateErrorKind::TooLarge);
    let doubled = format!("{{% set x = [1] %}}{}{{{{ x }}}}", "{% set x = [x, x] %}".repeat(60));
    assert_eq!(kind(&doubled), TemplateErrorKind::TooLarge);
    assert_eq!(
        kind(&format!("{{{{ 1 }}}}{}", "x".repeat(TEMPLATE_BYTES_MAX))),
        TemplateErrorKind::TooLarge
    );
    for piece in ["-", "not ", "1 + ", "1 ~ ", "1 and ", "1 if 1 else ", "1 ** "] {
        assert_eq!(
            kind(&format!("{{{{ {}1 }}}}", piece.repeat(5_000))),
            TemplateErrorKind::TooLarge
        );
        assert_eq!(
            kind_of_expression(&format!("{}1", piece.repeat(5_000))),
            TemplateErrorKind::TooLarge
        );
    }
    for piece in [".b", "[0]", "()", "|e", " in a"] {
        assert_eq!(
            kind(&format!("{{{{ a{} }}}}", piece.repeat(5_000))),
            TemplateErrorKind::TooLarge
        );
    }
    assert_eq!(
        kind(&format!("{{%if 1%}}{}{{%endif%}}", "{%elif 1%}".repeat(300))),
        TemplateErrorKind::TooLarge
    );
    assert_eq!(kind(&"{%set x=1%}".repeat(2_001)), TemplateErrorKind::TooLarge);
    let nested = format!("{{% set x = [1] %}}{}{{{{ x }}}}", "{% set x = [x] %}".repeat(1_900));
    assert_eq!(kind(&nested), TemplateErrorKind::Failed);
}

/// Each of these would take gigabytes, or never end.
#[test]
fn template_expansion_bombs_are_stopped_as_too_large() {
    let doubled = |first: &str, step: &str, last: &str| format!("{{% set x = {first} %}}{}{last}", step.repeat(40));
    let deep = "{% for x in [x ~ x] %}".repeat(40) + "{{ x|length }}" + &"{% endfor %}".repeat(40);
    let large = "{% set x = 'abcdefgh' * 1000000 %}";
    let bombs = [
        "{{ ('a\n' * 100000)|indent(100000)|length }}",
        "{{ ('a\n' * 100000)|indent(width=100000)|length }}",
        "{{ '%0999999999d'|format(1)|length }}",
        "{{ '%999999999s'|format('')|length }}",
        "{{ '%.999999999f'|format(1.5)|length }}",
        "{{ '%*d'|format(999999999, 1)|length }}",
        "{{ '%-*d'|format(-999999999, 1)|length }}",
        "{{ ('%(x)s' * 100000)|format(x='y' * 100000)|length }}",
        "{{ ('a' * 100000)|replace('a', 'b' * 100000)|length }}",
        "{{ ('a' * 100000)|replace('', 'b' * 100000)|length }}",
        "{{ range(100000)|join('a' * 100000)|length }}",
        "{{ range(100000)|join(d='a' * 100000)|length }}",
        "{{ ('a' * 100000)|join('b' * 100000)|length }}",
        "{{ ('a' * 999999999)|length }}",
        "{{ 999999999 * 'a' }}",
        "{{ ('a' * 90000000 ~ 'a' * 90000000)|length }}",
        "{{ ([0] * 99999999)|list|length }}",
        "{{ ((0, 1) * 40000000)|length }}",
        "{{ ('a' * 90000000)|list|length }}",
        "{{ ('a' * 9000000)|sort|length }}",
        "{{ [1]|batch(999999999, 'a')|length }}",
        "{{ [1]|slice(999999999)|length }}",
        "{{ [1]|slice(999999999, 'a')|length }}",
        "{{ (range(100000)|list * 100)|unique|length }}",
        "{{ ('a ' * 9000000)|split|length }}",
        "{{ ('a\n' * 9000000)|lines|length }}",
        "{{ (['a'] * 100000)|sum(start='')|length }}",
        "{{ ([[1]] * 100000)|sum(start=[])|length }}",
        "{{ (range(99999)|list, [[[[[[1]]]]]] * 99999)|pprint|length }}",
        "{% set x %}{% for a in range(99999) %}{{ 'abcdefgh' * 999 }}{% endfor %}{% endset %}{{ x|length }}",
        &format!(
            "{{% set x %}}{{% for a in range(99999) %}}{}{{% endfor %}}{{% endset %}}",
            "a".repeat(9999)
        ),
        &format!(
            "{{% set x %}}{{% for a in range(99999) %}}{}{{% endfor %}}{{% endset %}}",
            " ".repeat(9999)
        ),
        &format!(
            "{{% set x %}}{{% for a in range(99999) %}}{{% raw %}}{}{{% endraw %}}{{% endfor %}}{{% endset %}}",
            "a".repeat(9999)
        ),
        &format!(
            "{{% macro f() %}}{{% for a in range(99999) %}}{}{{% endfor %}}{{% endmacro %}}{{{{ f()|length }}}}",
            "a".repeat(9999)
        ),
        &doubled("'a'", "{% set x = x ~ x %}", "{{ x|length }}"),
        &doubled("'a'", "{% set x = x + x %}", "{{ x|length }}"),
        &doubled("'a'", "{% set x = x * 2 %}", "{{ x|length }}"),
        &doubled("'a'", "{% set x = [x, x]|join %}", "{{ x|length }}"),
        &doubled("'a'", "{% set x %}{{ x }}{{ x }}{% endset %}", "{{ x|length }}"),
        &doubled("'a'", "{% set x = '%s%s'|format(x, x) %}", "{{ x|length }}"),
        &doubled("[1]", "{% set x = x + x %}", "{{ x|length }}"),
        &doubled("[1]", "{% set x = [x, x] %}", "{{ x == x }}"),
        &doubled("[1]", "{% set x = x, x %}", "{{ x == x }}"),
        &doubled("[1]", "{% set x = (x, x) %}", "{{ x|string|length }}"),
        &doubled("[1]", "{% set x = {'a': x, 'b': x} %}", "{{ x == x }}"),
        &doubled("[1]", "{% set x = dict(a=x, b=x) %}", "{{ x == x }}"),
        &doubled("[1]", "{% set x = x|zip(x)|list %}", "{{ x == x }}"),
        &doubled("[1]", "{% set x = x|chain(x)|list %}", "{{ x|length }}"),
        &format!(
            "{large}{}",
            (0..99)
                .map(|at| format!("{{% set x{at} = x[1:] %}}"))
                .collect::<String>()
        ),
        &format!(
            "{large}{}",
            (0..99)
                .map(|at| format!("{{% set x{at} = x|upper %}}"))
                .collect::<String>()
        ),
        &format!("{{% set x = 'a' %}}{deep}"),
        "{% macro f(x, n) %}{% if n %}{{ f(x ~ x, n - 1) }}{% else %}{{ x|length }}{% endif %}{% endmacro %}{{ f('a', 50) }}",
    ];
    let mut wrong = Vec::new();
    let templates = Templates::new();
    for bomb in bombs {
        match templates.render_text(bomb, &scope()) {
            Err(error) if error.kind == TemplateErrorKind::TooLarge && !error.expression.contains("__") => {}
            other => wrong.push(format!("{bomb:.200}: {other:.200?}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn size_bounds_do_not_change_template_output() {
    for (template, given) in [
        (
            "{{ 'a' ~ 1 ~ [1, 2] }} {{ 1 + 2 * 3 - 4 }} {{ [1] + [2, 3] }}",
            "a1[1, 2] 3 [1,2,3]",
        ),
        (
            "{{ 'ab' * 2 }} {{ [1, 2][1] }} {{ 'abc'[1:] }} {{ (1, 2)[0] }}",
            "abab 2 bc 1",
        ),
        (
            "{% set a, b = 1, 2 %}{% set c = a, b %}{{ a }}{{ b }}{{ c }}",
            "12[1,2]",
        ),
        (
            "{% for k, v in {'a': 1, 'b': 2}|items %}{{ k ~ v }}{% endfor %}",
            "a1b2",
        ),
        (
            "{% macro f(a, b='x' ~ 'y') %} {{ a }}{{ b }}\n{% endmacro %}<{{- f(1) -}} >",
            "< 1xy\n>",
        ),
        (
            "{% set x %}  a  {%- if true -%}  {% endif -%}  b  {% endset %}[{{ x }}]",
            "[  ab  ]",
        ),
        (
            "{% call(a) m() %}{{ a }}{% endcall %}{% macro m() %}{{ caller('q') }}{% endmacro %}",
            "! ",
        ),
        (
            "{% filter upper %}a {% raw %}{{ b }}{% endraw %} c{% endfilter %}",
            "A {{ B }} C",
        ),
        (
            "{% for a in [[1], [2]] recursive %}{{ a|length ~ '.' }}{% endfor %}",
            "1.1.",
        ),
        (
            "{{ 6 is divisibleby -3 }} {{ 'a' ~ 'b' is string }} {{ 1 is eq 1 and 'a' ~ 'b' == 'ab' }}",
            "true aTrue true",
        ),
        (
            "{{ inputs.limit ~ (inputs.gone is defined) ~ item.path|basename }}",
            "5Falsea.rs",
        ),
        (
            "{{ ['b', 'a']|sort|join(', ') ~ '!' if not false else 'x' ~ 'y' }}",
            "a, b!",
        ),
    ] {
        let text = text(template);
        assert!(
            text == given || (given == "! " && text.starts_with(given)),
            "{template}: {text}"
        );
    }
    assert_eq!(
        text("{{ inputs.limit + (inputs.repo ~ inputs.gone) }}"),
        "! `inputs.repo ~ inputs.gone`: there is no `gone` in `inputs`; it has `limit`, `repo`"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever stands in it, and whether or not it can be read.
    #[test]
    fn marked_expression_evaluates_like_the_original(
        code in "(a|b|c|1|2|'x'|\\[|\\]|\\(|\\)|\\{'k': |\\}|,| ~ | \\+ | \\* |\\*\\*| / | % | - | is string| is eq | is not in |not | and | or | in | == | if | else |\\|upper|\\|list|\\[1:\\]|\\[0\\]|\\.k|:|=){1,14}"
    ) {
        let names = minijinja::context! { a => "ab", b => vec![1, 2, 3], c => minijinja::context! { k => "v" } };
        let environment = &CHECKER.environment;
        let meaning = |code: &str| {
            let compiled = environment.compile_expression_owned(code.to_owned());
            let found = compiled.and_then(|expression| expression.eval(names.clone()));
            found.map(|value| format!("{:?} {value}", value.kind())).map_err(|_| "an error")
        };
        prop_assert_eq!(meaning(&code), meaning(&marks::mark(&code, false)));
    }
}

fn kind_of_expression(expression: &str) -> TemplateErrorKind {
    references_of_expression(expression).unwrap_err().kind
}

#[test]
fn same_scope_renders_the_same_text() {
    let template = "{% for k, v in results.list-files.output | items %}{{ k }}={{ v }};{% endfor %}{{ inputs }}";
    assert_eq!(text(template), text(template));
    assert!(text(template).starts_with("big="), "{}", text(template));
}

#[test]
fn key_order_of_values_does_not_change_the_output() {
    let scope = |json: &str| Scope {
        inputs: Arc::new(serde_json::from_str(json).unwrap()),
        ..Scope::default()
    };
    let one = scope(r#"{"b": {"y": 1, "x": 2}, "a": 3}"#);
    let other = scope(r#"{"a": 3, "b": {"x": 2, "y": 1}}"#);
    let templates = Templates::new();
    for template in [
        "{{ inputs }}",
        "{{ inputs.b }}",
        "{% for k in inputs %}{{ k }}{% endfor %}",
        "{{ inputs.c }}",
    ] {
        let of = |scope| {
            templates
                .render_text(template, scope)
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&one), of(&other), "{template}");
    }
}

#[test]
fn references_are_names_a_template_reads_without_defining() {
    let read = references(&json!({
        "a": "{{ inputs.repo }} {{ results.list-files.output }} {{ results['other'].notes }}",
        "b": ["{% for f in item.files %}{{ f }} {{ loop.index }}{% endfor %}", "{% set x = 1 %}{{ x }} {{ range(3) }}"],
        "c": "{{ 'results.not_this' }} {# inputs.nor_this #} {{ item.results.nor_that }}",
    }))
    .unwrap();
    let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(names(&read.inputs), "repo");
    assert_eq!(names(&read.results), "list-files other");
    assert_eq!(names(&read.variables), "item");
    assert!(!read.all_results);
    assert!(
        references_of_text("{% for slug in results %}{{ slug }}{% endfor %}")
            .unwrap()
            .all_results
    );
    assert_eq!(
        names(&references_of_expression("results.a-b.output.items").unwrap().results),
        "a-b"
    );
}

#[test]
fn unknown_filter_or_test_is_found_without_rendering() {
    for (template, reason) in [
        ("{% if false %}{{ 1 | shout }}{% endif %}", "there is no filter `shout`"),
        ("{{ 1 is purple }}", "there is no test `purple`"),
        ("{{ 1 is not purple }}", "there is no test `purple`"),
        ("{% filter shout %}x{% endfilter %}", "there is no filter `shout`"),
        (
            "{{ 1 | upper }}\n{{ 1 | shout }}\n{{ 1 is purple | cry }}",
            "there is no filter `shout` and no filter `cry` and no test `purple`",
        ),
    ] {
        assert_eq!(references_of_text(template).unwrap_err().reason, reason);
    }
    assert_eq!(
        references_of_text("{{ 1 | upper }}\n{{ 1 | shout }}").unwrap_err().line,
        Some(2)
    );
    assert!(references_of_text("{{ [1] | map('string') | join('|') }} {{ 1 is defined and 2 is not odd }}").is_ok());
}

#[test]
fn list_can_be_a_reference_an_expression_or_a_literal() {
    let list = |over: Value| {
        Templates::new()
            .eval_list(&over, &scope())
            .map_err(|error| error.to_string())
    };
    let both = vec![json!("a.rs"), json!("b.rs")];
    assert_eq!(list(json!("results.list-files.output.items")), Ok(both.clone()));
    assert_eq!(list(json!("{{ results.list-files.output.items }}")), Ok(both));
    assert_eq!(list(json!(["{{ inputs.limit }}", 2])), Ok(vec![json!(5), json!(2)]));
    insta::assert_snapshot!(list(json!("results.list-files.output")).unwrap_err(), @"`results.list-files.output`: it is an object, not a list; it has `big`, `count`, `items`, `low`, `ratio`");
}

#[test]
fn result_reference_is_found_anywhere_in_a_template_e9_2() {
    for template in [
        "{{ results.l.output[:2] }}",
        "{{ results.l.output[1:] | length }}",
        "{{ 'abc'[results.l.output[0]:] }}",
        "{% for i in results.l.output[:2] %}{{ i }}{% endfor %}",
        "{% filter replace('a', results.l.output[0]) %}a{% endfilter %}",
        "{% with results = results.l.output %}{{ results }}{% endwith %}",
        "{% set results = results.l.output %}{{ results }}",
        "{% if results.l.output[:2] %}{% endif %}",
    ] {
        let references = references_of_text(template).unwrap();
        assert!(references.results.contains("l"), "{template}");
    }
    let references = references_of_expression("inputs.n[:3]").unwrap();
    assert!(references.inputs.contains("n"));
}

/// With no argument, this divides by zero in the library for templates.
#[test]
fn template_that_makes_the_library_panic_is_an_error_like_any_other() {
    let template = "{% for n in [1] %}{{ loop.cycle() }}{% endfor %}";
    let templates = Templates::new();
    let error = templates.render_text(template, &scope()).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::Failed);
    assert!(error.expression.contains("loop.cycle()"), "{error}");
    assert_eq!(templates.render_text("{{ 1 + 1 }}", &scope()).unwrap(), "2");
}
