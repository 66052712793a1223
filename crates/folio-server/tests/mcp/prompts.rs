//! The prompts that continue work, or hand it over.

use rmcp::model::{ArgumentInfo, CompleteRequestParams, GetPromptRequestParams, Reference};
use serde_json::json;

use crate::pair::{Era, Pair, Plain, options, runner, switch_scratchbooks_off};

async fn prompt(pair: &Pair, name: &str, thread: &str) -> String {
    let arguments = json!({"thread": thread}).as_object().unwrap().clone();
    let request = GetPromptRequestParams::new(name).with_arguments(arguments);
    let made = pair.client.get_prompt(request).await.unwrap();
    json!(made.messages[0])["content"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn prompts_are_a_deterministic_function_of_memory() {
    for era in Era::BOTH {
        let pair = Pair::new(era, options()).await;
        let names: Vec<_> = pair
            .client
            .list_all_prompts()
            .await
            .unwrap()
            .into_iter()
            .map(|p| p.name)
            .collect();
        assert_eq!(names, ["resume", "handover"]);
        for (kind, title) in [
            ("task", "Move the tables"),
            ("todo", "Tell the others"),
            ("todo", "Order cake"),
        ] {
            pair.call("scratch_add", json!({"kind": kind, "title": title})).await;
        }
        pair.call("scratch_complete", json!({"id": "e3"})).await;
        let resume = prompt(&pair, "resume", "").await;
        for item in ["e1 [task/open] Move the tables", "e2 [todo/open] Tell the others"] {
            assert_eq!(resume.matches(item).count(), 1, "{resume}");
        }
        assert!(
            !resume.contains("Order cake") && resume.contains("scratch_read"),
            "{resume}"
        );
        for number in 0..60 {
            let title = format!("Row {number} is still to be moved");
            pair.call("scratch_add", json!({"kind": "todo", "title": title, "thread": "long"}))
                .await;
        }
        let long = prompt(&pair, "resume", "long").await;
        let listed: Vec<_> = (0..60)
            .map(|number| long.matches(&format!("Row {number} is still")).count())
            .collect();
        assert!(listed.iter().all(|count| *count <= 1), "{long}");
        let (_, also) = long.split_once("\nAlso open:\n").unwrap();
        let left: usize = also
            .lines()
            .find_map(|line| line.strip_prefix('+')?.strip_suffix(" more")?.parse().ok())
            .unwrap_or(0);
        assert_eq!(listed.iter().sum::<usize>() + left, 60, "{long}");
        let handover = prompt(&pair, "handover", "").await;
        assert!(
            handover.contains("Done:\ne3 [todo/done] Order cake") && handover.contains("pin it"),
            "{handover}"
        );
        assert_eq!(
            (&resume, &handover),
            (
                &prompt(&pair, "resume", "").await,
                &prompt(&pair, "handover", "main").await
            )
        );
        let other = prompt(&pair, "resume", "other").await;
        assert!(
            other.contains("The scratchbook is empty.") && !other.contains("Move"),
            "{other}"
        );
        let error = pair
            .client
            .get_prompt(GetPromptRequestParams::new("x"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("there are resume and handover"), "{error}");
        let unknown = serde_json::from_value(json!({"name": "resume", "arguments": {"tread": "main"}})).unwrap();
        let error = pair.client.get_prompt(unknown).await.unwrap_err();
        assert!(
            error.to_string().contains("tread: is not an argument of resume"),
            "{error}"
        );
        pair.end().await;
    }
}

#[tokio::test]
async fn prompt_and_resource_arguments_are_completed() {
    for era in Era::BOTH {
        let pair = Pair::new(era, options()).await;
        for thread in ["main", "mill", "api"] {
            pair.call("scratch_add", json!({"kind": "note", "title": "x", "thread": thread}))
                .await;
        }
        let asked = async |reference: Reference, name: &str, value: &str| {
            let argument = ArgumentInfo::new(name, value);
            let request = CompleteRequestParams::new(reference, argument);
            pair.client.complete(request).await.unwrap().completion
        };
        let threads = asked(Reference::for_prompt("resume"), "thread", "m").await;
        assert_eq!(
            (threads.values, threads.total),
            (vec!["mill".to_owned(), "main".to_owned()], Some(2))
        );
        let view = Reference::for_resource("folio://view/{thread}");
        assert_eq!(asked(view, "thread", "a").await.values, ["api"]);
        let page = Reference::for_resource("folio://page/{handle}");
        assert_eq!(asked(page, "handle", "p").await.values.len(), 3);
        for (reference, name) in [
            (Reference::for_resource("folio://run/{run}"), "run"),
            (Reference::for_prompt("resume"), "other"),
            (Reference::for_prompt("nothing"), "thread"),
        ] {
            assert_eq!(asked(reference, name, "").await.values, Vec::<String>::new());
        }
        pair.end().await;
    }
}

#[tokio::test]
async fn prompts_name_no_scratchbook_tools_where_the_policy_disables_them() {
    let runner = runner().await;
    let pair = Pair::of(Era::Requests, options(), &runner, Plain).await;
    switch_scratchbooks_off(&runner).await;
    for name in ["resume", "handover"] {
        let text = prompt(&pair, name, "").await;
        assert!(text.contains("switched off by the policy"), "{text}");
        assert!(
            !text.contains("scratch_") && !text.contains("is empty") && !text.contains("pin it"),
            "{text}"
        );
    }
    pair.end().await;
}
