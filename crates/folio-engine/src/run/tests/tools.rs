//! Tasks whose plan names the tools that may be used for them (E9.1).

use super::judged::{answer_question, drive_to_question};
use super::models::*;
use super::*;
use crate::plan::{KnownTool, PlanErrors};
use crate::run::EditError;
use crate::talk::{Need, Purpose, Speaker, ToolOffer};

/// Some tools of Folio and of a server, each with a long definition; no plans are made.
fn many_tools() -> Equipment {
    let mut equipment = equipment();
    equipment.plan = PlanMode::Never;
    let about = "what it does, with what, and what it gives back in each case; ".repeat(40);
    let names = ["grep", "read", "result_read", "desk.find", "desk.file"];
    equipment.tools = names
        .map(|name| ToolOffer {
            name: name.to_owned(),
            description: format!("{name}: {about}").into(),
            args_schema: Arc::new(json!({"type": "object", "properties": {"path": {"type": "string"}}})),
            writes: false,
            need: Need::default(),
        })
        .into();
    let known = KnownTool {
        optional: vec!["path".to_owned()],
        ..KnownTool::default()
    };
    equipment.known.tools = Some(names.map(|name| (name.to_owned(), known.clone())).into());
    equipment
}

fn planned(equipment: Equipment, steps: Value, model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    goal_with("look around", &json!({"steps": steps}), equipment, model)
}

/// The tools in the requests for the work of the task `path`, each list once.
fn offered(sim: &Sim, path: &str) -> Vec<String> {
    let node = sim.run.node_at(path).unwrap().id;
    let asks = sim
        .asks
        .iter()
        .filter(|ask| ask.node == node && ask.purpose == Purpose::Work);
    let names = |ask: &AskAction| {
        let names: Vec<&str> = ask.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.join(" ")
    };
    let mut lists: Vec<String> = asks.map(names).collect();
    lists.dedup();
    lists
}

#[test]
fn executor_is_offered_only_the_tools_that_its_steps_name_e9_1() {
    let steps = json!([
        {"id": "all", "title": "think"},
        {"id": "one", "title": "think", "tools": ["grep"]},
        {"id": "family", "title": "think", "tools": ["desk.*"]},
        {"id": "none", "title": "think", "tools": []},
        {"id": "planned", "tools": ["grep", "desk.*"], "plan": [
            {"id": "same", "title": "think"},
            {"parallel": [
                {"id": "less", "title": "think"},
                {"sequence": [{"id": "least", "title": "think"}], "tools": ["desk.file"]},
            ], "tools": ["desk.*"]},
            {"id": "each", "title": "think", "for_each": [1], "description": "about {{ item }}", "tools": ["grep"]},
            {"id": "rest", "title": "think", "tools": ["result_read"]},
        ]},
    ]);
    let sim = planned(many_tools(), steps, |_| finish("thought")).driven_on();
    for (path, names) in [
        ("all", "grep read result_read desk.find desk.file finish"),
        ("one", "grep result_read finish"),
        ("family", "result_read desk.find desk.file finish"),
        ("none", "finish"),
        ("planned/same", "grep result_read desk.find desk.file finish"),
        ("planned/group-2/less", "result_read desk.find desk.file finish"),
        ("planned/group-2/sequence-4/least", "result_read desk.file finish"),
        ("planned/each/each[0]", "grep result_read finish"),
        ("planned/rest", "result_read finish"),
    ] {
        assert_eq!(offered(&sim, path), [names], "{path}");
        assert_eq!(sim.status(path), Outcome::Ok);
    }
    let reserved = |path: &str| {
        let node = sim.run.node_at(path).unwrap().id;
        sim.asks.iter().find(|ask| ask.node == node).unwrap().reserved.tokens_in
    };
    // Each definition has about 700 tokens.
    assert!(reserved("all") > reserved("one") + 1_400, "{}", reserved("all"));
    assert!(reserved("one") > reserved("none") + 1_000, "{}", reserved("none"));
}

#[test]
fn call_of_a_tool_that_the_task_may_not_use_is_refused_and_never_made_e9_1() {
    let steps = json!([{"id": "a", "title": "think", "tools": ["grep"]}]);
    let sim = planned(many_tools(), steps, |ask| match ask.call {
        1 => calls_answer(&[
            ("read", json!({"path": "a"})),
            ("grep", json!({"path": "b"})),
            ("gone", json!({})),
        ]),
        _ => finish("thought"),
    })
    .driven_on();
    let called: Vec<&Value> = sim.calls.iter().map(|(_, args)| args).collect();
    assert_eq!(called, [&json!({"path": "b"})]);
    let answers = sim.asks[1]
        .messages
        .iter()
        .filter(|message| message.speaker == Speaker::Tool);
    let answers: Vec<&str> = answers.map(|message| message.text.as_str()).collect();
    assert_eq!(answers.len(), 3);
    assert!(
        answers
            .iter()
            .any(|text| text.contains("this task may not use the tool read; available: grep, result_read, finish")),
        "{answers:?}"
    );
    assert!(
        answers.iter().any(|text| text.contains("unknown tool gone")),
        "{answers:?}"
    );
}

#[test]
fn first_action_of_a_decision_is_bound_to_the_tools_of_the_task_e9_1() {
    let mut equipment = many_tools();
    equipment.plan = PlanMode::Auto;
    let steps = json!([{"id": "a", "title": "think", "tools": ["grep"]}]);
    let sim = planned(equipment, steps, |ask| match ask.purpose {
        Purpose::Decide => execute("read", json!({"path": "a"})),
        _ => finish("thought"),
    })
    .driven_on();
    assert_eq!(sim.calls.len(), 0);
    assert!(
        root(&sim).notes.contains("none of its tool calls succeeded"),
        "{:?}",
        root(&sim)
    );
    let told = prompt_text(&sim, 0);
    let list = told.split_once("# Tools\n").unwrap().1;
    assert!(list.contains("- grep(path)") && !list.contains("- read("), "{list}");
}

/// A model that splits the step `a` into two, the second with `second` besides its names.
fn splitting(second: Value) -> impl Fn(&AskAction) -> ModelAnswer {
    move |ask| match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Decide, "think") => {
            let rest = json!({"id": "rest", "title": "write the letter", "criteria": ["short"]});
            let mut wrong = rest.clone();
            for (key, value) in second.as_object().unwrap() {
                wrong[key] = value.clone();
            }
            let first = json!({"id": "first", "title": "count swallows", "criteria": ["all"], "tools": ["grep"]});
            plan_answer(json!([first, if ask.call == 1 { wrong } else { rest }]))
        }
        (Purpose::Decide | Purpose::Work, _) => finish("done"),
        (Purpose::Aggregate, _) => text_answer(r#"{"status": "ok", "notes": "all of it"}"#),
        (purpose, task) => panic!("{purpose:?} of {task}"),
    }
}

#[test]
fn plan_of_a_model_narrows_tools_and_never_widens_them_e9_1() {
    let sim = |second: Value| {
        let mut equipment = many_tools();
        equipment.plan = PlanMode::Auto;
        let steps = json!([{"id": "a", "title": "think", "tools": ["grep", "desk.*"]}]);
        planned(equipment, steps, splitting(second)).driven_on()
    };
    // Whoever has tools has the one that reads the rest, and may name it.
    let also_right = sim(json!({"tools": ["grep", "result_read"]}));
    assert_eq!(sim_rejections(&also_right), Vec::<String>::new());
    let right = sim(json!({"tools": []}));
    assert_eq!(sim_rejections(&right), Vec::<String>::new());
    let tools_of = |sim: &Sim, path: &str| {
        let step = sim.run.node_at(path).unwrap().step.cloned();
        step.and_then(|step| step.tools().map(|names| names.to_vec()))
    };
    assert_eq!(tools_of(&right, "a/first"), Some(vec!["grep".to_owned()]));
    assert_eq!(tools_of(&right, "a/rest"), Some(Vec::new()));
    for (second, problem) in [
        (
            json!({"tools": ["grepp"]}),
            "steps[1].tools[0]: unknown tool \"grepp\" (did you mean `grep`?)",
        ),
        (
            json!({"tools": ["weather"]}),
            "steps[1].tools[0]: unknown tool \"weather\" (the tools are desk.file, desk.find, grep, result_read)",
        ),
        (
            json!({"tools": ["read"]}),
            "steps[1].tools[0]: the step around it may not use the tool \"read\" (it has grep, desk.*)",
        ),
        (
            json!({"do": {"tool": "read"}}),
            "steps[1].do.tool: the step around it may not use the tool \"read\" (it has grep, desk.*)",
        ),
    ] {
        let sim = sim(second);
        assert_eq!(sim_rejections(&sim), [problem]);
        assert_eq!(sim.status("a/rest"), Outcome::Ok);
    }
}

/// What models were told of their answers.
fn sim_rejections(sim: &Sim) -> Vec<String> {
    let problems = sim.journal.iter().filter_map(|(_, event)| match event {
        Event::Rejected { problems, .. } => Some(problems.clone()),
        _ => None,
    });
    problems.flatten().collect()
}

/// The same tools, and besides the usual executor `mender`, a program, and `small`, a model; plans are made.
fn with_mender() -> Equipment {
    let mut equipment = many_tools();
    equipment.plan = PlanMode::Auto;
    let of_program = |program: Option<AgentProgram>| NamedExecutor {
        model: ModelSpec {
            program,
            ..equipment.executor.clone()
        },
        about: "mends".to_owned(),
        offered: OfferedTools::default(),
    };
    let mender = AgentProgram {
        name: "agent:mender".to_owned(),
        shown: json!({"argv": ["mender"]}),
    };
    let executors = [("mender", of_program(Some(mender))), ("small", of_program(None))];
    equipment.known.executors = Some(["mender", "small"].map(str::to_owned).into());
    equipment.executors = executors.map(|(name, executor)| (name.to_owned(), executor)).into();
    equipment
}

#[test]
fn step_of_a_model_with_limited_tools_names_no_program_e9_17() {
    let told = |around: Value, second: Value| {
        let steps = json!([{"id": "a", "title": "think", "tools": around}]);
        let mut sim = planned(with_mender(), steps, splitting(second));
        while sim_rejections(&sim).is_empty() && sim.run.node_at("a/rest").is_none() {
            sim.derive();
            assert!(sim.end_one());
            sim.derive();
        }
        sim_rejections(&sim).pop()
    };
    let problem = "steps[1].executor: \"mender\" has tools of its own, and the tools of this step are limited \
                   (leave out `executor`, or `tools` here and at the steps around it)";
    let by_mender = json!({"executor": "mender"});
    assert_eq!(told(json!(null), by_mender.clone()), None);
    assert_eq!(told(json!(["grep"]), by_mender).as_deref(), Some(problem));
    let limited = |executor: &str| json!({"executor": executor, "tools": []});
    assert_eq!(told(json!(null), limited("mender")).as_deref(), Some(problem));
    assert_eq!(told(json!(null), limited("small")), None);
    let unknown = told(json!(["grep"]), json!({"executor": "watchmaker"}));
    let problem = "steps[1].executor: unknown executor \"watchmaker\" (the executors are small)";
    assert_eq!(unknown.as_deref(), Some(problem));
}

#[test]
fn task_with_limited_tools_is_given_to_no_program_by_a_model_e9_17() {
    let steps = json!([{"id": "a", "title": "think"}, {"id": "b", "title": "think", "tools": ["grep"]}]);
    let sim = planned(with_mender(), steps, |ask| match ask.purpose {
        Purpose::Decide => execute("finish", json!({"notes": "thought"})),
        _ => finish("thought"),
    })
    .driven_on();
    let choices = |nth: usize| sim.asks[nth].answer_schema.as_ref().unwrap()["properties"]["executor"]["enum"].clone();
    assert_eq!((choices(0), choices(1)), (json!(["mender", "small"]), json!(["small"])));
    assert!(prompt_text(&sim, 0).contains("- mender: mends") && !prompt_text(&sim, 1).contains("- mender: mends"));
}

#[test]
fn group_sets_aside_what_its_members_need_with_their_tools_e9_10() {
    let task = |steps: Value| {
        let extra = json!({"budget": {"tokens": 100_000}, "steps": steps});
        let sim = goal_with("look around", &extra, many_tools(), |_| finish("thought")).driven_on();
        let aside = sim.journal.iter().find_map(|(_, event)| match event {
            Event::Expanded {
                set_aside: Some(aside), ..
            } => Some(aside.task.tokens_in),
            _ => None,
        });
        aside.unwrap()
    };
    let think = |name: &str, tools: Value| json!({"id": name, "title": "think", "tools": tools});
    let group = |members: Value, tools: Value| task(json!([{"id": "g", "parallel": members, "tools": tools}]));
    let all = group(json!([think("a", json!(null)), think("b", json!(null))]), json!(null));
    let one = group(
        json!([think("a", json!(["grep"])), think("b", json!(["grep"]))]),
        json!(null),
    );
    let none = group(json!([think("a", json!(null)), think("b", json!(null))]), json!([]));
    assert!(all > one + 1_400 && one > none + 1_000, "{all} {one} {none}");
    let mixed = group(
        json!([think("a", json!(["grep"])), think("b", json!(null))]),
        json!(null),
    );
    assert_eq!(mixed, all, "the largest counts");
    let list = |tools: Value| {
        task(json!([{"id": "l", "title": "think", "for_each": [1, 2], "description": "{{ item }}", "tools": tools}]))
    };
    assert_eq!(
        (list(json!(null)), list(json!(["grep"])), list(json!([]))),
        (all, one, none)
    );
}

#[test]
fn reader_without_tools_is_told_of_none_that_reads_the_rest_e9_2() {
    let told = |tools: Value| {
        let steps = json!([
            {"id": "long", "do": {"tool": "grep", "args": {"path": "word ".repeat(4_000)}}},
            {"id": "a", "title": "think", "tools": tools},
        ]);
        let sim = planned(many_tools(), steps, |_| finish("thought")).driven_on();
        prompt_text(&sim, 0)
    };
    assert!(
        told(json!(null)).contains("use result_read node="),
        "{}",
        told(json!(null))
    );
    assert!(told(json!(["grep"])).contains("use result_read node="));
    let none = told(json!([]));
    assert!(
        none.contains("characters left out") && !none.contains("result_read"),
        "{none}"
    );
}

#[test]
fn reader_without_tools_is_told_in_no_notes_how_to_read_on_e9_2() {
    let told = |tools: Value| {
        let steps = json!([
            {"id": "long", "title": "say much"},
            {"id": "a", "title": "think", "description": "about {{ results.long.notes }}", "tools": tools},
        ]);
        let sim = planned(many_tools(), steps, |ask| match task_named(ask).as_str() {
            "say much" => calls_answer(&[(
                "finish",
                json!({"status": "ok", "notes": "word ".repeat(1_000), "output": {"words": 1_000}}),
            )]),
            _ => finish("thought"),
        })
        .driven_on();
        prompt_text(&sim, 1)
    };
    for tools in [json!(null), json!(["grep"])] {
        assert!(told(tools).contains("[1000 of 4999 characters left out; use result_read node="));
    }
    let none = told(json!([]));
    assert!(
        none.contains("[1000 of 4999 characters left out]") && !none.contains("result_read"),
        "{none}"
    );
}

#[test]
fn task_without_tools_is_told_that_ask_person_has_the_other_answers_e9_14() {
    let mut equipment = many_tools();
    equipment.has_person = true;
    let asks = |n: usize| json!({"id": format!("asks{n}"), "title": format!("ask {n}")});
    let steps = json!([[asks(0), asks(1), asks(2), asks(3)], {"id": "a", "title": "think", "tools": []}]);
    let mut sim = planned(equipment, steps, |ask| {
        let asked = ask.messages.iter().filter(|message| !message.calls.is_empty()).count();
        match task_named(ask) {
            task if task.starts_with("ask") && asked < 12 => {
                calls_answer(&[("ask_person", json!({"question": format!("What is {task}-{asked}?")}))])
            }
            _ => finish("done"),
        }
    });
    while let Some((node, _)) = drive_to_question(&mut sim) {
        answer_question(&mut sim, node, &"word ".repeat(1_000));
    }
    let last = sim.asks.iter().find(|ask| task_named(ask) == "think").unwrap();
    let told = &last.messages[1].text;
    assert!(
        told.contains(" more: ask_person returns an answer already given"),
        "{told}"
    );
    assert!(!told.contains("result_read"), "{told}");
}

#[test]
fn edited_plan_stays_within_the_tools_of_the_task_around_it_e9_14() {
    let mut equipment = many_tools();
    equipment.plan = PlanMode::Auto;
    let known = equipment.known.clone();
    let steps = json!([{"id": "a", "title": "think", "tools": ["grep", "desk.*"]}]);
    let mut sim = planned(equipment, steps, splitting(json!({})));
    // The plan of the model is there, and none of its steps has ended.
    while sim.run.node_at("a/rest").is_none() {
        sim.derive();
        assert!(sim.end_one());
    }
    let node = sim.run.node_at("a").unwrap().id;
    let edit = |tools: &str| {
        let first = r#"{"id": "first", "title": "count swallows", "criteria": ["all"], "tools": ["grep"]}"#;
        let text = format!(
            r#"{{"steps": [{first}, {{"id": "rest", "title": "write", "criteria": ["short"], "tools": {tools}}}]}}"#
        );
        sim.run.edit_plan(node, &text, Some(1), &known, "ada")
    };
    assert!(edit(r#"["desk.file"]"#).unwrap().is_some());
    let Err(EditError::Mistakes(PlanErrors { listed, .. })) = edit(r#"["read"]"#) else {
        panic!("nothing wrong")
    };
    let codes: Vec<&str> = listed.iter().map(|error| error.code).collect();
    assert_eq!(codes, ["P032"]);
}

/// As an older version does with `tools`: it never works on a task with more tools than its plan says.
#[test]
fn plan_with_a_key_of_a_newer_version_is_refused_not_passed_over_e9_9() {
    let plan = |step: Value| json!({"version": 1, "title": "t", "steps": [step]});
    let begun = |step: Value| {
        let mut run = Run::new(RunId::derived(&["test"]), Arc::new(Templates::new()));
        run.apply(
            Timestamp::from_millis(0),
            &Event::RunStarted {
                format: FORMAT,
                goal: String::new(),
                plan: plan(step),
                inputs: BTreeMap::new(),
                deadline: None,
                run: Value::Null,
            },
        )
    };
    assert!(begun(json!({"id": "a", "title": "think", "tools": ["gone"]})).is_ok());
    let Err(JournalError::Plan(why)) = begun(json!({"id": "a", "title": "think", "tools_of_2030": []})) else {
        panic!("it was passed over")
    };
    assert!(why.contains("P003 a task has no key `tools_of_2030`"), "{why}");
}
