//! Whatever a tool does, the caller gets an answer that can be recorded.

use std::sync::Arc;

use crate::support::World;
use folio_tools::{
    Approval, ArgKind, Effect, FailureKind, Registry, ToolError, ToolRequest, ToolResponse, ToolSpec, ToolStatus,
};
use serde_json::{Value, json};

fn world_with(effect: Effect, answer: impl Fn(&ToolRequest) -> ToolResponse + Send + Sync + 'static) -> World {
    let mut world = World::new();
    let spec = ToolSpec::new("custom", effect, "for a test").optional("n", ArgKind::Count, "a number");
    let answer = Arc::new(answer);
    let replaced = world.registry.register_fn(spec, move |request, _| {
        let answer = Arc::clone(&answer);
        async move {
            tokio::task::yield_now().await;
            Ok(answer(&request))
        }
    });
    assert!(replaced.is_none());
    world
}

#[tokio::test]
async fn unknown_tool_error_suggests_the_nearest_name_or_lists_all_tools() {
    let world = World::new();
    let error = world.error("lsit", json!({})).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::NotFound, "unknown_tool")
    );
    assert_eq!(error.hints, ["did you mean `list`?"]);
    let error = world.error("deploy_to_the_moon", json!({})).await;
    assert_eq!(
        error.hints,
        [
            "the tools are: git, grep, http_get, list, observe, page_append, read, result_read, scratch_add, scratch_complete, \
             scratch_pin, scratch_read, scratch_unpin, scratch_update, shell, text, wait, write"
        ]
    );
}

#[test]
fn check_name_accepts_registered_tools_and_tool_families_only() {
    let mut registry = Registry::with_builtins();
    let spec = ToolSpec::new("desk.echo", Effect::Pure, "for a test");
    registry.register_fn(spec, |_, _| async { panic!("it was called") });
    let gone = ToolError::new(FailureKind::Failed, "mcp_gone", "it does not answer");
    registry.set_missing_family("shop", gone);
    for name in ["list", "desk.echo", "desk.*", "shop.buy", "shop.*"] {
        registry.check_name(name).unwrap();
    }
    for name in ["lsit", "desk.ecco", "des.*", "*", "desk", "shop"] {
        assert_eq!(registry.check_name(name).unwrap_err().code, "unknown_tool", "{name}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_refused_before_the_tool_is_called() {
    let world = world_with(Effect::Opaque, |_| panic!("it was called"));
    let error = world.error("custom", json!({"m": 1, "n": "x"})).await;
    assert_eq!(
        error.message,
        "custom: there is no argument `m`: did you mean `n`?; `n` is a whole number that is not negative, not \"x\""
    );
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    assert_eq!(
        world.error("text", json!({"op": "echo", "value": deep})).await.kind,
        FailureKind::InvalidArgs
    );
}

#[tokio::test]
async fn panicking_tool_becomes_a_failed_call() {
    let world = world_with(Effect::Read, |request| panic!("no {}", request.args["n"]));
    let error = world.error("custom", json!({"n": 7})).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Failed, "tool_panicked")
    );
    assert_eq!(error.message, "custom panicked: no 7");
    assert!(world.call("text", json!({"op": "echo"})).await.is_ok());
}

/// Lists nested this many times.
fn nested(levels: usize) -> Value {
    let mut deep = json!("bottom");
    for _ in 0..levels {
        deep = Value::Array(vec![deep]);
    }
    deep
}

#[tokio::test]
async fn deeply_nested_output_of_a_read_tool_fails_the_call() {
    let world = world_with(Effect::Read, |request| ToolResponse {
        observations: vec![nested(1_000_000)],
        ..ToolResponse::ok(request, json!({}), "")
    });
    let error = world.error("custom", json!({})).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::TooLarge, "malformed_output"),
        "the same answer would come again"
    );
}

#[tokio::test]
async fn effectful_tool_output_is_pruned_at_the_depth_limit_e9_12() {
    for effect in [Effect::Idempotent, Effect::Opaque, Effect::Destructive] {
        let world = world_with(effect, |request| {
            let mut outputs = json!({"id": 7});
            outputs["deep"] = nested(1_000_000);
            ToolResponse {
                observations: vec![json!({"content": "fine"}), nested(1_000_000)],
                ..ToolResponse::ok(request, outputs, "sent")
            }
        });
        let response = world.call("custom", json!({})).await;
        assert!(response.is_ok(), "{response:?}");
        assert_eq!(response.outputs["id"], 7);
        assert!(response.outputs.to_string().contains("(more than 64 levels deep)"));
        assert_eq!(response.observations, [json!({"content": "fine"})]);
        assert_eq!(response.notes, "sent (left out: what is more than 64 levels deep)");
        let cut = response.truncated.unwrap();
        assert!(cut.kept_bytes < 1_000 && cut.total_bytes > 1_000_000, "{cut:?}");
    }
    let whole = json!({"deep": nested(63)});
    let world = world_with(Effect::Opaque, move |request| {
        ToolResponse::ok(request, json!({"deep": nested(63)}), "sent")
    });
    let response = world.call("custom", json!({})).await;
    assert_eq!((response.outputs, response.truncated), (whole, None));
}

#[tokio::test]
async fn oversized_output_fails_read_tools_and_is_previewed_for_opaque_ones() {
    let large = |request: &ToolRequest| ToolResponse::ok(request, json!({"text": "ä".repeat(200_000)}), "done");
    let world = world_with(Effect::Read, large).with_limits(|limits| limits.output_bytes = 100_000);
    let error = world.error("custom", json!({})).await;
    assert_eq!(error.kind, FailureKind::TooLarge);

    let world = world_with(Effect::Opaque, large).with_limits(|limits| limits.output_bytes = 100_000);
    let response = world.call("custom", json!({})).await;
    assert!(response.is_ok());
    let preview = response.outputs["preview"].as_str().unwrap();
    assert!(preview.starts_with("{\"text\":\"ää"));
    let truncated = response.truncated.unwrap();
    assert_eq!(
        (truncated.kept_bytes, truncated.total_bytes > 400_000),
        (preview.len() as u64, true)
    );
}

#[tokio::test]
async fn tool_response_id_notes_and_error_are_normalized() {
    let world = world_with(Effect::Read, |request| ToolResponse {
        request_id: "another".to_owned(),
        status: ToolStatus::Error,
        ..ToolResponse::ok(request, json!(1), "first line\nsecond line")
    });
    let response = world.call("custom", json!({})).await;
    assert_eq!(response.request_id, "call-1");
    assert_eq!(response.notes, "first line second line");
    let error = response.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("unspecified", "first line second line")
    );
}

#[tokio::test]
async fn cancelled_call_never_invokes_its_tool() {
    let world = world_with(Effect::Opaque, |_| panic!("it was called"));
    world.context.cancel.cancel();
    assert_eq!(world.error("custom", json!({})).await.kind, FailureKind::Cancelled);
}

#[tokio::test]
async fn tool_receives_coerced_arguments() {
    let world = world_with(Effect::Read, |request| {
        ToolResponse::ok(request, request.args.clone(), "")
    });
    assert_eq!(world.outputs("custom", json!({"n": "12"})).await, json!({"n": 12}));
    assert_eq!(world.outputs("custom", Value::Null).await, json!({}));
}

#[tokio::test]
async fn tool_with_json_schema_validates_its_arguments() {
    let mut world = World::new();
    let mut spec = ToolSpec::new("far", Effect::Opaque, "of a server");
    spec.schema = Some(json!({"type": "object", "properties": {"q": {"type": "string"}}}));
    assert_eq!(spec.args_schema()["properties"]["q"]["type"], "string");
    world.registry.register_fn(spec, |request, _| async move {
        let same = request.args.clone();
        Ok(ToolResponse::ok(&request, same, ""))
    });
    assert_eq!(
        world.outputs("far", json!({"anything": [1]})).await,
        json!({"anything": [1]})
    );
    assert_eq!(world.outputs("far", json!({"q": 5})).await, json!({"q": "5"}));
    for wrong in [json!([1]), json!({"q": true})] {
        assert_eq!(world.error("far", wrong).await.kind, FailureKind::InvalidArgs);
    }
}

#[tokio::test]
async fn function_tool_error_is_returned_and_reregistration_replaces_it() {
    let mut world = World::new();
    let spec = ToolSpec::new("door", Effect::Opaque, "for a test");
    let locked = ToolError::new(FailureKind::Denied, "locked", "it is locked").hint("knock");
    let said = locked.clone();
    world
        .registry
        .register_fn(spec.clone(), move |_, _| std::future::ready(Err(said.clone())));
    assert_eq!(world.error("door", json!({})).await, locked);
    let before = world.registry.register_fn(spec, |request, context| async move {
        Ok(ToolResponse::ok(&request, json!(context.allowed), "open"))
    });
    assert_eq!(format!("{:?}", before.unwrap()), r#"FunctionTool { name: "door", .. }"#);
    assert_eq!(world.outputs("door", json!({})).await, json!(false));
}

#[tokio::test]
async fn missing_tool_family_returns_its_recorded_error() {
    let mut world = World::new();
    let why = ToolError::new(FailureKind::Unavailable, "not_there", "maps are not there");
    world.registry.set_missing_family("maps", why.clone());
    assert_eq!(world.error("maps.route", json!({})).await, why);
    assert_eq!(world.error("mapsroute", json!({})).await.code, "unknown_tool");
}

#[test]
fn removing_a_tool_does_not_affect_cloned_registries() {
    let all = Registry::with_builtins();
    let mut some = all.clone();
    assert!(some.remove("shell").is_some());
    assert!(some.get("shell").is_none() && all.get("shell").is_some());
}

#[test]
fn builtin_tools_have_descriptions_effects_and_approval_marks() {
    let registry = Registry::with_builtins();
    for spec in registry.specs() {
        assert!(spec.description.ends_with('.'), "{}", spec.name);
        assert_eq!(spec.args_schema()["additionalProperties"], false);
        for arg in &spec.args {
            assert!(arg.description.ends_with('.'), "{}: {}", spec.name, arg.name);
        }
        assert_eq!(serde_json::from_value::<ToolSpec>(json!(spec)).unwrap(), *spec);
    }
    let table: Vec<String> = registry
        .specs()
        .map(|spec| {
            let marks = [
                (spec.writes, "writes"),
                (spec.approval == Approval::UnlessAllowed, "asks"),
            ];
            let marks: Vec<&str> = marks.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
            format!(
                "{} {} {}",
                spec.name,
                json!(spec.effect).as_str().unwrap(),
                marks.join(" ")
            )
            .trim()
            .to_owned()
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"), @"
    git read
    grep read
    http_get read asks
    list read
    observe pure writes
    page_append pure writes
    read read
    result_read read
    scratch_add idempotent writes
    scratch_complete idempotent writes
    scratch_pin idempotent writes
    scratch_read read
    scratch_unpin idempotent writes
    scratch_update idempotent writes
    shell opaque writes asks
    text pure
    wait read
    write idempotent writes
    ");
}

#[test]
fn tool_response_round_trips_through_json() {
    let seed = json!({
        "request_id": "req_1",
        "status": "ok",
        "outputs": {"forecast": {"location": "Paris"}},
        "observations": [{"type": "contextual_insight", "content": "x", "confidence": 0.95}],
        "memory_writes": [],
        "scratch_page_writes": []
    });
    let response: ToolResponse = serde_json::from_value(seed).unwrap();
    assert!(response.is_ok());
    assert_eq!(response.observations.len(), 1);
    let again: ToolResponse = serde_json::from_value(json!(response)).unwrap();
    assert_eq!(again, response);
}
