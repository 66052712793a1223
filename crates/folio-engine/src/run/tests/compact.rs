//! Conversations that outgrow the model's context window, and what a model reads of the scratchbook (M7.8 V6, V8;
//! E9.16; seed 003).

use folio_memory::tokens::{Estimate, Tokens as _};
use folio_memory::view::Placement;

use super::models::*;
use super::*;
use crate::talk::{Message, Purpose, Speaker};

const WINDOW: u32 = 6_000;

/// Models with a context window that holds a few of the long answers of `counts`.
fn small() -> Equipment {
    let mut equipment = equipment();
    for model in [&mut equipment.planner, &mut equipment.executor, &mut equipment.judge] {
        model.window = WINDOW;
        model.answer_tokens = 600;
    }
    equipment
}

/// Counts thirty stars, each with a long answer, and is done.
fn counts(ask: &AskAction) -> ModelAnswer {
    count_to(30, ask)
}

/// Enough stars to compact twice. Tests that go on from every cut of a journal take time with the cube of their number.
const FEW_STARS: u32 = 12;

/// Counts a few stars only.
fn counts_few(ask: &AskAction) -> ModelAnswer {
    count_to(FEW_STARS, ask)
}

fn count_to(stars: u32, ask: &AskAction) -> ModelAnswer {
    let star = |n: u32| json!({"text": format!("star {n} {}", "shines brightly ".repeat(60))});
    match ask.purpose {
        Purpose::Decide => execute("echo", star(1)),
        Purpose::Work if ask.call < stars + 2 => {
            calls_answer(&[("echo", star(ask.call)), ("echo", star(100 + ask.call))])
        }
        Purpose::Work => finish("all are counted"),
        Purpose::HandBack => text_answer("{\"notes\": \"some are counted\"}"),
        other => panic!("{other:?}"),
    }
}

fn tokens_of(messages: &[Message]) -> u32 {
    let texts = messages.iter().map(|message| {
        let calls = message.calls.iter().map(|call| Estimate.count(&call.args.to_string()));
        Estimate.count(&message.text) + calls.sum::<u32>()
    });
    texts.sum()
}

/// Asserts that every call is followed by its answers, and no answer is without its call.
fn assert_paired(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match &message.answers {
            Some(id) => {
                let at = open.iter().position(|call| call == id);
                open.remove(at.unwrap_or_else(|| panic!("{id} is answered, and not asked")));
            }
            None => {
                assert!(open.is_empty(), "{open:?} are not answered");
                open.extend(message.calls.iter().map(|call| call.id.as_str()));
            }
        }
    }
    assert!(open.is_empty(), "{open:?} are not answered");
}

fn count_compactions(sim: &Sim) -> usize {
    let is_it = |(_, event): &&(Timestamp, Event)| matches!(event, Event::Compacted { .. });
    sim.journal.iter().filter(is_it).count()
}

#[test]
fn compaction_keeps_a_long_conversation_within_its_window_share_m7_8_v8() {
    let sim = goal_with("count the stars", &json!({}), small(), counts).driven_on();
    assert_eq!(root(&sim).notes, "all are counted");
    assert_eq!(sim.calls.len(), 1 + 2 * 30);
    assert!(count_compactions(&sim) > 3, "{}", count_compactions(&sim));
    for ask in &sim.asks {
        let tokens = tokens_of(&ask.messages);
        assert!(tokens < WINDOW * 8 / 10, "call {} has {tokens} tokens", ask.call);
        assert_paired(&ask.messages);
    }
    let last = prompt_text(&sim, sim.asks.len() - 1);
    assert!(last.contains("# Earlier conversation\n"), "{last}");
    assert!(last.contains("messages came to something"), "{last}");
    // What was called is still known, by the ids under which its results can be read.
    assert!(
        last.contains("# Earlier calls; read their results with result_read\n"),
        "{last}"
    );
    assert!(last.contains("\n- and 47 earlier calls\n"), "{last}");
    assert!(last.contains("-> ok") && last.contains("[tool_call "), "{last}");
    // The task stands as it is: it is no part of what was said.
    assert!(last.starts_with("# Task\ncount the stars\n"), "{last}");
}

#[test]
fn compactor_is_told_the_task_and_what_stands_for_earlier_messages_is_no_answer_e9_16() {
    let mut sim = goal_with("two things", &json!({}), with_compactor(), two_branches);
    let mut seen = Vec::new();
    for _ in 0..1_000 {
        sim.derive();
        for action in &sim.compacting {
            if seen
                .last()
                .is_none_or(|last: &CompactAction| last.messages != action.messages)
            {
                seen.push(action.clone());
            }
        }
        if sim.run.result().is_some() || !sim.end_one() {
            break;
        }
    }
    assert!(seen.len() > 1, "{}", seen.len());
    let told = seen
        .iter()
        .all(|action| action.task == "count the stars\nPart of: two things");
    assert!(told, "{seen:#?}");
    let first = &seen[1].messages[0];
    assert_eq!(first.speaker, Speaker::User, "{first:?}");
    assert!(first.text.contains("came to something"), "{first:?}");
}

#[test]
fn resumed_run_compacts_like_an_uninterrupted_one_e9_9() {
    let whole = goal_with("count the stars", &json!({}), small(), counts_few).driven_on();
    assert!(count_compactions(&whole) > 1);
    for cut in 1..whole.journal.len() {
        let resumed = Sim::resumed_with(&whole.journal[..cut], small(), Arc::new(counts_few)).driven_on();
        assert_eq!(resumed.outcome(), whole.outcome(), "cut at {cut}");
        assert_eq!(count_compactions(&resumed), count_compactions(&whole), "cut at {cut}");
        let (first, again) = (whole.asks.last().unwrap(), resumed.asks.last());
        assert!(
            again.is_none_or(|again| again.messages == first.messages),
            "cut at {cut}"
        );
    }
}

#[test]
fn resuming_with_a_larger_window_keeps_the_earlier_compaction_e9_9() {
    let whole = goal_with("count the stars", &json!({}), small(), counts).driven_on();
    let first = |(_, event): &(Timestamp, Event)| matches!(event, Event::Compacted { .. });
    let cut = whole.journal.iter().position(first).unwrap() + 1;
    let large = equipment();
    let resumed = Sim::resumed_with(&whole.journal[..cut], large, Arc::new(counts)).driven_on();
    assert_eq!(count_compactions(&resumed), 1);
    assert!(prompt_text(&resumed, 0).contains("# Earlier conversation\n"));
}

#[test]
fn hand_back_reads_what_became_of_the_offloaded_conversation_e9_10() {
    let sim = goal_with(
        "count the stars",
        &json!({"budget": {"model_calls": 30}}),
        small(),
        counts,
    )
    .driven_on();
    assert!(count_compactions(&sim) > 0);
    assert_eq!(*purposes(&sim).last().unwrap(), Purpose::HandBack);
    let last = prompt_text(&sim, sim.asks.len() - 1);
    assert!(last.contains("# Earlier conversation\n<data-"), "{last}");
    assert!(last.contains("messages came to something"), "{last}");
}

#[test]
fn full_window_without_compaction_ends_the_task_as_partial_m7_8_v8() {
    let mut equipment = small();
    equipment.book.auto_compact = Some(false);
    let sim = goal_with("count the stars", &json!({}), equipment, counts).driven_on();
    assert_eq!(count_compactions(&sim), 0);
    let result = root(&sim);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::WindowFull))
    );
    assert_eq!(result.notes, "some are counted");
    assert_eq!(*purposes(&sim).last().unwrap(), Purpose::HandBack);
    assert!(sim.asks.iter().all(|ask| tokens_of(&ask.messages) < WINDOW));
}

#[test]
fn window_too_small_for_the_task_stops_with_window_full() {
    let mut equipment = small();
    equipment.planner.window = 300;
    equipment.executor.window = 300;
    let sim = goal_with("count the stars", &json!({}), equipment, counts).driven_on();
    assert_eq!(root(&sim).stop_reason, Some(StopReason::WindowFull));
    assert!(sim.asks.is_empty());
}

#[test]
fn tool_result_is_cut_shorter_in_a_small_window_seed_003() {
    let long = |window| {
        let mut equipment = equipment();
        equipment.executor.window = window;
        let sim = goal_with("read it", &json!({}), equipment, |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "word ".repeat(4_000)})),
            _ => finish("read"),
        })
        .driven_on();
        let answer = sim.asks[1]
            .messages
            .iter()
            .find(|message| message.speaker == Speaker::Tool);
        answer.unwrap().text.chars().count()
    };
    assert!((8_000..8_300).contains(&long(128_000)));
    assert!((3_072..3_400).contains(&long(8_192)), "{}", long(8_192));
}

/// What the executor reads when this is in the scratchbook.
fn with_book(placement: Placement, lists_tools: bool) -> Vec<Message> {
    let mut equipment = equipment();
    equipment.book.include_tool_list_in_system_prompt = Some(lists_tools);
    let mut sim = goal_with("say hello", &json!({}), equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "hello"})),
        _ => finish("hello"),
    });
    sim.book = Some(BookView {
        text: "Scratchbook:\ne1 [todo] greet the guest\n".to_owned(),
        placement,
    });
    sim.driven_on().asks.pop().unwrap().messages
}

#[test]
fn scratchbook_view_ends_the_system_prompt_or_the_conversation_m7_8_v6() {
    let system = with_book(Placement::System, false);
    assert!(
        system[0]
            .text
            .ends_with("Be plain and brief.\n\nScratchbook:\ne1 [todo] greet the guest\n"),
        "{}",
        system[0].text
    );
    assert_eq!(
        system
            .iter()
            .filter(|message| message.text.contains("greet the guest"))
            .count(),
        1
    );

    let tail = with_book(Placement::Tail, false);
    let last = tail.last().unwrap();
    assert_eq!(
        (last.speaker, last.text.as_str()),
        (
            Speaker::User,
            "<scratchbook>\nScratchbook:\ne1 [todo] greet the guest\n</scratchbook>"
        )
    );
    assert_eq!(
        tail.iter()
            .filter(|message| message.text.contains("greet the guest"))
            .count(),
        1
    );
    // What comes before it is the same in every request, so that a provider finds it in its cache.
    assert_eq!(
        tail[0].text.len() + "\n\nScratchbook:\ne1 [todo] greet the guest\n".len(),
        system[0].text.len()
    );
}

#[test]
fn system_prompt_lists_tools_only_if_the_policy_enables_it_seed_003() {
    let listed = with_book(Placement::Tail, true);
    let system = &listed[0].text;
    let list = "\n\n# Tools\n- echo: echos\n- write: writes\n- deny: denys\n- fail: fails\n- finish: Ends the task with its result\n";
    assert!(system.contains(list), "{system}");
    assert!(!with_book(Placement::Tail, false)[0].text.contains("# Tools"));
}

#[test]
fn requests_after_compaction_hold_exactly_one_scratchbook_view_m7_8_v6() {
    let mut sim = goal_with("count the stars", &json!({}), small(), counts);
    sim.book = Some(BookView {
        text: "Scratchbook:\ne1 [todo] count\n".to_owned(),
        placement: Placement::Tail,
    });
    let sim = sim.driven_on();
    for ask in sim.asks.iter().filter(|ask| ask.purpose == Purpose::Work) {
        let views = ask
            .messages
            .iter()
            .filter(|message| message.text.starts_with("<scratchbook>"));
        assert_eq!(views.count(), 1);
    }
}

/// Like `small`, with a compactor.
fn with_compactor() -> Equipment {
    let small = small();
    Equipment {
        compactor: Some(small.judge.clone()),
        ..small
    }
}

/// The answer for a step of a model's plan that is done, including its report.
fn done(notes: &str) -> ModelAnswer {
    let result = json!({"status": "ok", "notes": notes, "criteria": [{"id": "c1", "met": true}]});
    calls_answer(&[("finish", result)])
}

/// One branch counts the stars, and the other one makes one call.
fn two_branches(ask: &AskAction) -> ModelAnswer {
    two_branches_of(30, ask)
}

fn two_branches_of_few(ask: &AskAction) -> ModelAnswer {
    two_branches_of(FEW_STARS, ask)
}

fn two_branches_of(stars: u32, ask: &AskAction) -> ModelAnswer {
    let text = &ask.messages[1].text;
    match ask.purpose {
        Purpose::Decide if text.contains("# Task\ntwo things") => {
            plan_answer(json!([{"id": "both", "title": "at once", "parallel": [
                {"id": "stars", "title": "count the stars", "criteria": ["counted"], "satisfies": []},
                {"id": "lamp", "title": "light the lamp", "criteria": ["lit"]},
            ]}]))
        }
        Purpose::Decide if text.contains("# Task\nlight") => execute("echo", json!({"text": "light"})),
        Purpose::Work if text.contains("# Task\nlight") => done("it is lit"),
        Purpose::Work if ask.call >= stars + 2 => done("all are counted"),
        Purpose::Aggregate => text_answer("{\"notes\": \"both\"}"),
        _ => count_to(stars, ask),
    }
}

fn compactions_begun(sim: &Sim) -> usize {
    let is_it = |(_, event): &&(Timestamp, Event)| matches!(event, Event::Compacting { .. });
    sim.journal.iter().filter(is_it).count()
}

/// Drives `sim` until the first compactor is asked.
fn until_a_compactor_is_asked(mut sim: Sim) -> Sim {
    for _ in 0..1_000 {
        sim.derive();
        if !sim.compacting.is_empty() {
            return sim;
        }
        assert!(sim.end_one());
    }
    panic!("nobody was asked");
}

#[test]
fn compactor_call_has_a_reserve_and_lets_other_branches_continue_e9_16() {
    let mut sim = goal_with("two things", &json!({}), with_compactor(), two_branches);
    sim.concurrency = 2;
    // The lamp waits until the stars are too many.
    while sim.compacting.is_empty() {
        sim.derive();
        let lamp = sim.run.node_at("both/lamp").map(|view| view.id);
        let Some(other) = sim.asking.iter().position(|ask| Some(ask.node) != lamp) else {
            let tools = sim.under_way.len();
            if tools > 0 {
                sim.end_nth(0);
            }
            continue;
        };
        sim.end_nth(sim.under_way.len() + other);
    }
    let stars = sim.run.node_at("both/stars").unwrap().id;
    assert!(sim.run.is_compacting(stars));
    assert_eq!(sim.run.in_flight().len(), 2, "it takes one of the two places");
    assert!(sim.run.purse().unwrap().reserved.model_calls >= 4);
    // All that is left of the lamp is done while the compactor is at work.
    while sim.run.node_at("both/lamp").unwrap().result.is_none() {
        let at = sim.under_way.len() + sim.asking.len();
        assert!(at > 0);
        sim.end_nth(at - 1);
        sim.derive();
    }
    assert!(sim.run.is_compacting(stars));
    assert!(sim.asking.iter().all(|ask| ask.node != stars), "its own task waits");
    let sim = sim.driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    assert_eq!(compactions_begun(&sim), count_compactions(&sim));
    budgets::check_accounts(&sim.journal);
}

#[test]
fn interrupted_compactor_call_is_repeated_and_charged_twice_e9_9() {
    let whole = goal_with("two things", &json!({}), with_compactor(), two_branches_of_few).driven_on();
    assert!(compactions_begun(&whole) > 1);
    for cut in 1..whole.journal.len() {
        let model = Arc::new(two_branches_of_few);
        let resumed = Sim::resumed_with(&whole.journal[..cut], with_compactor(), model).driven_on();
        let ends = |sim: &Sim| {
            let ends = sim.outcome().into_iter();
            ends.map(|(path, result)| (path, result["status"].clone(), result["notes"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(&resumed), ends(&whole), "cut at {cut}");
        budgets::check_accounts(&resumed.journal);
    }
    let began = |(_, event): &(Timestamp, Event)| matches!(event, Event::Compacting { .. });
    let cut = whole.journal.iter().position(began).unwrap() + 1;
    let Event::Compacting { reserved, .. } = &whole.journal[cut - 1].1 else {
        unreachable!("it was looked for");
    };
    let before = Sim::resumed(&whole.journal[..cut - 1]).run.purse().unwrap().spent;
    let after = Sim::resumed(&whole.journal[..cut]);
    let spent = after.run.purse().unwrap().spent;
    assert_eq!(spent.tokens() - before.tokens(), reserved.tokens());
    let repeated = |sim: &Sim| sim.run.tree().iter().map(|node| node.repeated).sum::<u32>();
    assert_eq!((repeated(&after), repeated(&whole)), (1, 0));
}

#[test]
fn cancelled_task_stops_its_running_compactor_e9_11() {
    let mut sim = until_a_compactor_is_asked(goal_with("two things", &json!({}), with_compactor(), two_branches));
    let stars = sim.run.node_at("both/stars").unwrap().id;
    sim.record(Event::CancelRequested {
        node: Some(stars),
        by: "ada".to_owned(),
    });
    assert!(sim.run.due(sim.now, 4).contains(&Action::Stop(stars)));
    let sim = sim.driven_on();
    assert_eq!(sim.status("both/stars"), Outcome::Cancelled);
    assert_eq!(sim.status("both/lamp"), Outcome::Ok);
    // What was set aside for it counts as spent: nobody knows what it cost.
    budgets::check_accounts(&sim.journal);
    assert!(sim.run.node(stars).unwrap().spent.model_calls >= 4);
}

#[test]
fn summary_arriving_while_paused_is_kept_for_the_next_request_e9_14() {
    let mut sim = until_a_compactor_is_asked(goal_with("two things", &json!({}), with_compactor(), two_branches));
    let stars = sim.run.node_at("both/stars").unwrap().id;
    sim.record(Event::Paused {
        node: Some(stars),
        by: "ada".to_owned(),
    });
    sim.end_nth(sim.under_way.len() + sim.asking.len());
    assert_eq!(count_compactions(&sim), 1);
    sim.derive();
    assert!(sim.asking.iter().all(|ask| ask.node != stars));
    sim.record(Event::Continued {
        node: Some(stars),
        by: "ada".to_owned(),
    });
    sim.derive();
    let asked = sim.asking.iter().find(|ask| ask.node == stars).unwrap();
    assert!(asked.messages[2].text.contains("messages came to something"));
    assert_eq!(sim.driven_on().status(""), Outcome::Ok);
}

#[test]
fn short_budget_compacts_without_asking_the_compactor_e9_10() {
    let budget = json!({"budget": {"model_calls": 40}});
    let sim = goal_with("count the stars", &budget, with_compactor(), counts).driven_on();
    assert!(compactions_begun(&sim) < count_compactions(&sim));
    budgets::check_accounts(&sim.journal);
}
