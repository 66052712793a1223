//! Conversations that outgrow the model's window, and what of the scratchbook a model reads (M7.8 V6, V8; E9.16; seed 003).

use folio_memory::tokens::{Estimate, Tokens as _};
use folio_memory::view::Placement;

use super::models::*;
use super::*;
use crate::talk::{Message, Purpose, Speaker};

const WINDOW: u32 = 6_000;

/// Models with a window that holds a few of the long answers of `counts`.
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
    let star = |n: u32| json!({"text": format!("star {n} {}", "shines brightly ".repeat(60))});
    match ask.purpose {
        Purpose::Decide => execute("echo", star(1)),
        Purpose::Work if ask.call < 32 => wants(&[("echo", star(ask.call)), ("echo", star(100 + ask.call))]),
        Purpose::Work => finish("all are counted"),
        Purpose::HandBack => said("{\"notes\": \"some are counted\"}"),
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

/// Every call is followed by its answers, and no answer stands without its call.
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

fn put_away(sim: &Sim) -> usize {
    let is_it = |(_, event): &&(Timestamp, Event)| matches!(event, Event::Compacted { .. });
    sim.journal.iter().filter(is_it).count()
}

#[test]
fn a_long_conversation_stays_below_its_share_of_the_window_m7_8_v8() {
    let sim = goal_with("count the stars", &json!({}), small(), counts).driven_on();
    assert_eq!(root(&sim).notes, "all are counted");
    assert_eq!(sim.calls.len(), 1 + 2 * 30);
    assert!(put_away(&sim) > 3, "{}", put_away(&sim));
    for ask in &sim.asks {
        let tokens = tokens_of(&ask.messages);
        assert!(tokens < WINDOW * 8 / 10, "call {} has {tokens} tokens", ask.call);
        assert_paired(&ask.messages);
    }
    let last = read_by(&sim, sim.asks.len() - 1);
    assert!(last.contains("# What was said before\n"), "{last}");
    assert!(last.contains("messages came to something"), "{last}");
    // What was called is still known, by the ids under which its results can be read.
    assert!(
        last.contains("# Calls that were made then; result_read gives their results\n"),
        "{last}"
    );
    assert!(last.contains("\n- and 47 earlier calls\n"), "{last}");
    assert!(last.contains("-> ok") && last.contains("[tool_call "), "{last}");
    // The task stands as it is: it is no part of what was said.
    assert!(last.starts_with("# The task\ncount the stars\n"), "{last}");
}

#[test]
fn a_run_that_was_cut_off_reads_on_as_if_it_were_not_e9_9() {
    let whole = goal_with("count the stars", &json!({}), small(), counts).driven_on();
    for cut in 1..whole.journal.len() {
        let resumed = Sim::resumed_with(&whole.journal[..cut], small(), Arc::new(counts)).driven_on();
        assert_eq!(resumed.outcome(), whole.outcome(), "cut at {cut}");
        assert_eq!(put_away(&resumed), put_away(&whole), "cut at {cut}");
        let (first, again) = (whole.asks.last().unwrap(), resumed.asks.last());
        assert!(
            again.is_none_or(|again| again.messages == first.messages),
            "cut at {cut}"
        );
    }
}

#[test]
fn a_driver_with_a_larger_window_goes_on_with_what_was_put_away_e9_9() {
    let whole = goal_with("count the stars", &json!({}), small(), counts).driven_on();
    let first = |(_, event): &(Timestamp, Event)| matches!(event, Event::Compacted { .. });
    let cut = whole.journal.iter().position(first).unwrap() + 1;
    let large = equipment();
    let resumed = Sim::resumed_with(&whole.journal[..cut], large, Arc::new(counts)).driven_on();
    assert_eq!(put_away(&resumed), 1);
    assert!(read_by(&resumed, 0).contains("# What was said before\n"));
}

#[test]
fn what_may_not_be_put_away_ends_the_task_with_what_there_is_m7_8_v8() {
    let mut equipment = small();
    equipment.book.auto_compact = Some(false);
    let sim = goal_with("count the stars", &json!({}), equipment, counts).driven_on();
    assert_eq!(put_away(&sim), 0);
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
fn a_window_that_does_not_even_hold_the_task_is_said_to_be_full() {
    let mut equipment = small();
    equipment.planner.window = 300;
    equipment.executor.window = 300;
    let sim = goal_with("count the stars", &json!({}), equipment, counts).driven_on();
    assert_eq!(root(&sim).stop_reason, Some(StopReason::WindowFull));
    assert!(sim.asks.is_empty());
}

#[test]
fn an_answer_has_less_room_in_a_small_window_seed_003() {
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

/// What the executor reads when this stands in the scratchbook.
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
fn the_view_ends_the_system_prompt_or_stands_behind_all_others_m7_8_v6() {
    let system = with_book(Placement::System, false);
    assert!(
        system[0]
            .text
            .ends_with("Write plainly and briefly.\n\nScratchbook:\ne1 [todo] greet the guest\n"),
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
fn the_system_prompt_lists_the_tools_only_if_the_policy_says_so_seed_003() {
    let listed = with_book(Placement::Tail, true);
    let system = &listed[0].text;
    let list =
        "\n\n# Tools\n- echo(text): echos\n- write(text): writes\n- deny(text): denys\n- fail(text): fails\n- finish(";
    assert!(system.contains(list), "{system}");
    assert!(!with_book(Placement::Tail, false)[0].text.contains("# Tools"));
}

#[test]
fn after_messages_were_put_away_the_view_is_the_one_of_then_m7_8_v6() {
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
