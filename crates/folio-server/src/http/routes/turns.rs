//! Turns: begin and end them, and read them afterwards.

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::middleware;
use folio::Timestamp;
use folio::memory::Seq;
use folio::memory::id::{Ref, TurnHandle, TurnRef};
use folio::memory::tokens::for_model;
use folio::memory::turn::TurnQuery;
use folio::runner::ADVISOR_TIME;
use folio::store::workspace::{ContextRequest, EpisodeQuery, Questions, TraceQuery, TurnInput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::answer::{Answer, Made};
use crate::http::app::App;
use crate::http::caller::{Caller, thread_called};
use crate::http::describe::describe_operation;
use crate::http::guard::{RESPONSE_TIMEOUT, declare_response_time};
use crate::http::input::MayBody;
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams, invalid_value_problem, parse_cursor};
use crate::wire::{
    BegunShape, ContextShape, EndedShape, EpisodesShape, List, Observation, ReceiptShape, TraceLine, TurnShape,
};

/// The default number of turns in a list.
const LIMIT_DEFAULT: u32 = 20;
/// The default number of earlier turns.
const EPISODES_DEFAULT: u32 = 10;
/// The default number of lines of a trace.
const LINES_DEFAULT: u32 = 1_000;
pub(super) const GROUP: &str = "turns";

pub(super) fn routes() -> ApiRouter<App> {
    // If the advisor does not answer within its time, the operation continues without its answer.
    let advisor_time = middleware::from_fn_with_state(ADVISOR_TIME + RESPONSE_TIMEOUT, declare_response_time);
    ApiRouter::new()
        .api_route(
            "/turns",
            post_with(
                begin,
                describe_operation(
                    "begin_turn",
                    GROUP,
                    "Begins a turn and decides its urgency, its clarity and the order of work",
                ),
            )
            .layer(advisor_time.clone())
            .get_with(
                list,
                describe_operation("list_turns", GROUP, "Lists turns, newest first"),
            ),
        )
        .api_route(
            "/episodes",
            get_with(
                episodes,
                describe_operation(
                    "list_episodes",
                    GROUP,
                    "Lists earlier turns with the entries that they touched, newest first",
                ),
            ),
        )
        .api_route(
            "/turns/{turn}",
            get_with(
                show,
                describe_operation("get_turn", GROUP, "Returns a turn with its decisions"),
            ),
        )
        .api_route(
            "/turns/{turn}/end",
            post_with(
                end,
                describe_operation(
                    "end_turn",
                    GROUP,
                    "Ends a turn: evaluates it, finds patterns and archives what is resolved",
                ),
            )
            .layer(advisor_time),
        )
        .api_route(
            "/turns/{turn}/trace",
            get_with(
                trace,
                describe_operation("turn_trace", GROUP, "Lists the lines of a turn's trace, in order"),
            ),
        )
        .api_route("/turns/{turn}/export", super::turn_export::method())
        .api_route(
            "/turns/{turn}/receipts",
            get_with(
                receipts,
                describe_operation(
                    "turn_receipts",
                    GROUP,
                    "Lists the receipts of what models were shown in a turn",
                ),
            ),
        )
}

/// A filter for turns.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Filter {
    /// Only turns of this thread; without it, of every thread.
    thread: Option<String>,
    /// Only turns that have not ended.
    open: bool,
    /// The maximum number of turns; 20 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there.
    cursor: Option<String>,
}

impl Fields for Filter {}

async fn list(caller: Caller, QueryParams(params): QueryParams<Filter>) -> Result<Answer<List<TurnShape>>, Problem> {
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    let before: Option<TurnHandle> = parse_cursor(params.cursor.as_deref())?;
    let query = TurnQuery {
        thread: params.thread.map(thread_called).transpose()?,
        ended: params.open.then_some(false),
        before: before.map(|handle| handle.0),
        limit: limit + 1,
        ..TurnQuery::default()
    };
    let as_of = caller.workspace.head().await?.0;
    let turns = caller.workspace.turns(&query).await?;
    let turns = turns.iter().map(TurnShape::of).collect();
    let list = List::part(turns, limit, as_of, TurnShape::name);
    Ok(Answer::of(list.from_start(params.cursor.is_none())))
}

/// A filter for earlier turns.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Earlier {
    /// Only turns with all of these words in their input or in an entry that they touched.
    text: Option<String>,
    /// Only turns of this thread; without it, of every thread.
    thread: Option<String>,
    /// Only turns that began at this time or later (RFC 3339).
    from: Option<String>,
    /// Only turns that began before this time (RFC 3339).
    until: Option<String>,
    /// The maximum number of turns; 10 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

impl Fields for Earlier {}

async fn episodes(caller: Caller, QueryParams(params): QueryParams<Earlier>) -> Result<Answer<EpisodesShape>, Problem> {
    let time = |name: &str, text: Option<String>| {
        let parse = |text: String| {
            Timestamp::parse(&text).map_err(|_| invalid_value_problem(name, &text, "a time as RFC 3339 has it"))
        };
        text.map(parse).transpose()
    };
    if let Some(text) = params.text.as_ref().filter(|text| text.trim().is_empty()) {
        return Err(invalid_value_problem("text", text, "a text to search for"));
    }
    let limit = params.limit.unwrap_or(EPISODES_DEFAULT);
    let query = EpisodeQuery {
        thread: params.thread.map(thread_called).transpose()?,
        from: time("from", params.from)?,
        until: time("until", params.until)?,
        text: params.text,
        before: None,
        limit: limit as usize + 1,
    };
    let workspace = &caller.workspace;
    let as_of = workspace.head().await?.0;
    let now = workspace.now();
    let found = workspace.episodes(&query).await?;
    Ok(Answer::of(EpisodesShape::of(&found, limit, as_of, now)))
}

/// A new turn and its input.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Begin {
    /// The thread; the main thread if not given.
    thread: Option<String>,
    /// The input that the turn handles.
    input: String,
    /// Whether the turn runs in the background: nobody waits for it.
    background: bool,
    /// Whether an unclear input adds a question to ask first; true if not given. If false, the conversation that the
    /// input is part of tells what is meant.
    clarify: Option<bool>,
    /// If given, the answer includes an assembled context for the prompt within this budget in tokens.
    budget: Option<u32>,
    /// The model whose tokens are counted; without it, tokens are estimated.
    model: Option<String>,
}

async fn begin(
    caller: Caller,
    _: QueryParams<Nothing>,
    MayBody(new): MayBody<Begin>,
) -> Result<Made<BegunShape>, Problem> {
    let caller = caller.in_thread(new.thread)?;
    let workspace = &caller.workspace;
    let input = TurnInput {
        thread: caller.thread(),
        input: new.input,
        run: None,
        background: new.background,
    };
    let questions = match new.clarify {
        Some(false) => Questions::LeftOut,
        None | Some(true) => Questions::Written,
    };
    let new_turn = caller
        .workspace_with_advisor()
        .begin_turn_under(&caller.actor, input, caller.own_key(), questions)
        .await?;
    let turn = Ref::Id(new_turn.turn.begun.id);
    let context = match new.budget {
        None => None,
        Some(budget) => {
            let request = ContextRequest {
                thread: caller.thread(),
                turn: Some(turn),
                prompt: String::new(),
                budget,
                sections: Vec::new(),
            };
            let tokens = for_model(new.model.as_deref().unwrap_or_default());
            let assembled = workspace.assemble_context(request, &tokens).await?;
            Some(ContextShape::of(assembled))
        }
    };
    let shape = |entry| Observation::of(entry, workspace.now());
    let place = format!("/v1/spaces/{}/turns/{}", workspace.space(), new_turn.turn.begun.id);
    let answer = BegunShape {
        turn: TurnShape::of(&new_turn.turn),
        question: new_turn.question.as_ref().map(shape),
        answered: new_turn.answered.as_ref().map(shape),
        order: new_turn.order.order,
        context,
        replayed: new_turn.replayed,
    };
    Ok(Made::of(answer).with_location(place))
}

async fn show(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<TurnShape>, Problem> {
    let turn = caller.workspace.turn(caller.path_param("turn")?).await?;
    Ok(Answer::of(TurnShape::of(&turn)))
}

/// The body of the request, which has no fields.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct End {}

async fn end(caller: Caller, _: QueryParams<Nothing>, _: MayBody<End>) -> Result<Answer<EndedShape>, Problem> {
    let turn: TurnRef = caller.path_param("turn")?;
    let ended = caller
        .workspace_with_advisor()
        .end_turn_under(&caller.actor, turn, caller.own_key())
        .await?;
    Ok(Answer::of(EndedShape::of(ended)))
}

/// A filter for lines of the trace.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Lines {
    /// Only lines of this component: `scratch_page`, `scratchbook`, `page`, `engine`, ….
    component: Option<String>,
    /// Only lines after this commit.
    since: Option<u64>,
    /// The maximum number of lines; 1,000 if not given.
    #[schemars(range(min = 1, max = 100_000))]
    limit: Option<u32>,
    /// The value of `next` in an earlier answer, to continue there: with the lines before it or, if `since` is given,
    /// after it.
    cursor: Option<String>,
}

impl Fields for Lines {}

async fn trace(caller: Caller, QueryParams(params): QueryParams<Lines>) -> Result<Answer<List<TraceLine>>, Problem> {
    let workspace = &caller.workspace;
    let turn = workspace.turn(caller.path_param("turn")?).await?.begun.id;
    let limit = params.limit.unwrap_or(LINES_DEFAULT);
    let is_start = params.cursor.is_none();
    let query = TraceQuery {
        turn: Some(turn),
        component: params.component,
        since: params.since.map(Seq),
        limit: limit as usize,
        cursor: params.cursor,
        ..TraceQuery::default()
    };
    let part = workspace.trace_part(query).await?;
    Ok(Answer::of(TraceLine::listed(&part, is_start)))
}

async fn receipts(caller: Caller, _: QueryParams<Nothing>) -> Result<Answer<List<ReceiptShape>>, Problem> {
    let turn: TurnRef = caller.path_param("turn")?;
    let as_of = caller.workspace.head().await?.0;
    let receipts = caller.workspace.receipts(turn).await?;
    Ok(Answer::of(List::whole(
        receipts.into_iter().map(ReceiptShape::of).collect(),
        as_of,
    )))
}
