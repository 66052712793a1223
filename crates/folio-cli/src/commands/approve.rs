//! `folio approve`, `folio reject` and `folio budget`: a person's yes and no, and other limits.

use std::fmt::{self, Write as _};
use std::time::Duration;

use clap::{Args, ValueEnum};
use folio::Actor;
use folio::engine::event::{Always, NewLimits};
use folio::engine::run::micro_usd;
use folio::engine::spend::{Dimension, Purse};
use folio::engine::{NodeId, Run};
use folio::memory::id::{Ref, RunRef};
use folio::runner::Runner;
use folio::store::RunRow;
use serde::Serialize;

use super::Context;
use super::cancel::node_called;
use super::people::{driven_later, runner};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::run::RunLine;

/// What waits for a yes: a run of which one thing does, or `r4.NODE` as `folio questions` prints it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    run: RunRef,
    node: Option<String>,
}

/// Reads the name of something that waits for a yes.
fn target(text: &str) -> Result<Target, String> {
    let (run, node) = match text.split_once('.') {
        Some((run, node)) => (run, Some(node.to_owned())),
        None => (text, None),
    };
    let run = run_ref(run)?;
    Ok(Target { run, node })
}

/// `folio approve`.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// What: r4 if only one thing waits there, or r4.NODE as `folio questions` prints it
    #[arg(value_name = "RUN|ID", value_parser = target)]
    target: Target,
    /// Of a call: what of the run needs no other yes from now on
    #[arg(long, value_name = "WHAT")]
    always: Option<AlwaysArgument>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AlwaysArgument {
    /// Every call of the tool
    Tool,
    /// Every call of the tool with the same arguments
    Arguments,
}

/// `folio reject`.
#[derive(Debug, Args)]
pub(crate) struct Reject {
    /// What: r4 if only one thing waits there, or r4.NODE as `folio questions` prints it
    #[arg(value_name = "RUN|ID", value_parser = target)]
    target: Target,
    /// Why; a model that plans anew reads it
    #[arg(long, default_value = "")]
    reason: String,
}

/// `folio budget`.
#[derive(Debug, Args)]
pub(crate) struct Budget {
    /// Which run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// The limits of this part of it: its path of names, for example survey/files, or its id
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Tokens that models may read and write; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens: Option<Number>,
    /// Of these, tokens that they may read; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens_in: Option<Number>,
    /// Of those that they read, tokens that may come from a provider's cache; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens_cached: Option<Number>,
    /// Of these, tokens that they may write; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens_out: Option<Number>,
    /// Dollars that models may cost; +N is so many more
    #[arg(long, value_name = "[+]USD", value_parser = dollars)]
    usd: Option<Number>,
    /// Calls of models; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    model_calls: Option<Number>,
    /// Calls of tools; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tool_calls: Option<Number>,
    /// Bytes of the journal and of the pages; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    bytes: Option<Number>,
    /// Nodes of the whole tree; +N is so many more
    #[arg(long, value_name = "[+]N", value_parser = number)]
    nodes: Option<Number>,
    /// Minutes from now until the run must be over; +N is so many more than it has
    #[arg(long, value_name = "[+]N", value_parser = number)]
    minutes: Option<Number>,
}

/// A limit, or how much more of it.
#[derive(Debug, Clone, Copy)]
struct Number {
    value: u64,
    is_more: bool,
}

impl Number {
    fn of(text: &str, read: impl Fn(&str) -> Option<u64>) -> Result<Self, String> {
        let (is_more, digits) = text.strip_prefix('+').map_or((false, text), |digits| (true, digits));
        let value = read(digits).ok_or_else(|| format!("{text:?} is not a number"))?;
        Ok(Self { value, is_more })
    }

    /// What it makes of `now`. Where there is no limit, so many more are no limit, either.
    fn on(self, now: Option<u64>) -> Option<u64> {
        match (self.is_more, now) {
            (true, now) => now.map(|now| now.saturating_add(self.value)),
            (false, _) => Some(self.value),
        }
    }
}

fn number(text: &str) -> Result<Number, String> {
    Number::of(text, |digits| digits.parse().ok())
}

fn dollars(text: &str) -> Result<Number, String> {
    Number::of(text, micro_usd)
}

/// Carries out `folio approve`.
pub(crate) async fn approve(context: &Context<'_>, approve: Approve) -> Result<Exit, Failure> {
    let always = approve.always.map(|always| match always {
        AlwaysArgument::Tool => Always::Tool,
        AlwaysArgument::Arguments => Always::Arguments,
    });
    let runner = runner(context).await?;
    let (row, node) = waiting(&runner, &approve.target).await?;
    runner.approve(row.id, node, always, &who(context)).await?;
    said(context, &runner, &row).await
}

/// Carries out `folio reject`.
pub(crate) async fn reject(context: &Context<'_>, reject: Reject) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let (row, node) = waiting(&runner, &reject.target).await?;
    runner.reject(row.id, node, &reject.reason, &who(context)).await?;
    said(context, &runner, &row).await
}

fn who(context: &Context<'_>) -> Actor {
    context.actor()
}

async fn said(context: &Context<'_>, runner: &Runner, row: &RunRow) -> Result<Exit, Failure> {
    driven_later(context, row);
    context
        .output
        .report(&RunLine::of(&runner.row(Ref::Id(row.id)).await?))?;
    Ok(Exit::Done)
}

/// The run and the node that `target` means.
async fn waiting(runner: &Runner, target: &Target) -> Result<(RunRow, NodeId), Failure> {
    let row = runner.row(target.run).await?;
    if let Some(name) = &target.node {
        let node = node_called(runner, &row, name).await?;
        return Ok((row, node));
    }
    let run = runner.load(row.id).await?;
    match run.waiting().as_slice() {
        [] => Err(Failure::new(
            Exit::NotFound,
            "no_approval",
            format!("in run {} nothing waits for a yes", row.handle),
        )
        .hint("`folio questions` lists what waits for a yes")),
        [(node, _)] => Ok((row, *node)),
        more => Err(Failure::usage(
            "question_not_named",
            format!("in run {} {} things wait for a yes", row.handle, more.len()),
        )
        .hint(format!("name one; `folio questions {}` lists them", row.handle))),
    }
}

/// Limits, and what of them is used up.
#[derive(Debug, Serialize)]
struct BudgetShape {
    run: String,
    run_id: String,
    path: String,
    limits: Vec<LimitShape>,
    nodes: Option<LimitShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<folio::Timestamp>,
}

#[derive(Debug, Serialize)]
struct LimitShape {
    what: &'static str,
    limit: Option<u64>,
    used: u64,
    /// Of how many calls of models nobody knows what they used up of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<u64>,
}

impl LimitShape {
    fn of(dimension: Dimension, purse: &Purse) -> Self {
        Self {
            what: dimension.as_str(),
            limit: purse.limit.of(dimension),
            used: purse.used(dimension),
            unknown: Some(purse.spent.unpriced_calls).filter(|calls| dimension == Dimension::MicroUsd && *calls > 0),
        }
    }
}

impl Report for BudgetShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let gap = if self.path.is_empty() { "" } else { " " };
        writeln!(out, "{}{gap}{}", style.strong(&self.run), self.path)?;
        for limit in self.limits.iter().chain(&self.nodes) {
            let most = limit.limit.map_or("no limit".to_owned(), |limit| limit.to_string());
            let unknown = match limit.unknown {
                None => String::new(),
                Some(1) => ", and 1 call of which nobody knows what it cost".to_owned(),
                Some(calls) => format!(", and {calls} calls of which nobody knows what they cost"),
            };
            writeln!(out, "  {:<13} {} of {most}{unknown}", limit.what, limit.used)?;
        }
        if let Some(deadline) = self.deadline {
            writeln!(out, "  {:<13} {deadline}", "deadline")?;
        }
        Ok(())
    }
}

/// Refuses to add to a limit that there is none of: it would change nothing, and look as if it had.
async fn nothing_to_add_to(runner: &Runner, row: &RunRow, node: NodeId, budget: &Budget) -> Result<(), Failure> {
    let run = runner.load(row.id).await?;
    let purse = run.node(node).and_then(|view| view.purse.copied()).unwrap_or_default();
    let wanted = [
        (budget.tokens, Dimension::Tokens),
        (budget.tokens_in, Dimension::TokensIn),
        (budget.tokens_cached, Dimension::TokensCached),
        (budget.tokens_out, Dimension::TokensOut),
        (budget.usd, Dimension::MicroUsd),
        (budget.model_calls, Dimension::ModelCalls),
        (budget.tool_calls, Dimension::ToolCalls),
        (budget.bytes, Dimension::Bytes),
    ];
    let missing = wanted
        .iter()
        .find(|(number, dimension)| number.is_some_and(|n| n.is_more) && purse.limit.of(*dimension).is_none());
    match missing {
        None => Ok(()),
        Some((_, dimension)) => {
            let message = format!(
                "there is no limit in {} that anything could be added to",
                dimension.as_str()
            );
            Err(Failure::new(Exit::Refused, "limit_unusable", message)
                .hint("a number without + is the limit itself; the limits of the run hold for its parts, too"))
        }
    }
}

/// Whether hardly anybody limits `dimension`: it is shown only if somebody did.
fn is_seldom(dimension: Dimension) -> bool {
    matches!(
        dimension,
        Dimension::TokensIn | Dimension::TokensCached | Dimension::TokensOut
    )
}

/// Carries out `folio budget`.
pub(crate) async fn budget(context: &Context<'_>, budget: Budget) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let row = runner.row(budget.run).await?;
    let node = match &budget.node {
        Some(name) => Some(node_called(&runner, &row, name).await?),
        None => None,
    };
    let root = NodeId::root(row.id);
    let changes = [
        budget.tokens,
        budget.tokens_in,
        budget.tokens_cached,
        budget.tokens_out,
        budget.usd,
        budget.model_calls,
        budget.tool_calls,
        budget.bytes,
        budget.nodes,
        budget.minutes,
    ];
    let now = runner.workspace().now();
    nothing_to_add_to(&runner, &row, node.unwrap_or(root), &budget).await?;
    if changes.iter().any(Option::is_some) {
        let limits = |run: &Run| {
            let purse = run.node(node.unwrap_or(root)).and_then(|view| view.purse.copied());
            let of = |dimension: Dimension| purse.and_then(|purse| purse.limit.of(dimension));
            let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
            NewLimits {
                tokens: budget.tokens.and_then(|n| n.on(of(Dimension::Tokens))),
                tokens_in: budget.tokens_in.and_then(|n| n.on(of(Dimension::TokensIn))),
                tokens_cached: budget.tokens_cached.and_then(|n| n.on(of(Dimension::TokensCached))),
                tokens_out: budget.tokens_out.and_then(|n| n.on(of(Dimension::TokensOut))),
                micro_usd: budget.usd.and_then(|n| n.on(of(Dimension::MicroUsd))),
                model_calls: budget.model_calls.and_then(|n| n.on(of(Dimension::ModelCalls))),
                tool_calls: budget.tool_calls.and_then(|n| n.on(of(Dimension::ToolCalls))),
                bytes: budget.bytes.and_then(|n| n.on(of(Dimension::Bytes))),
                nodes: budget
                    .nodes
                    .and_then(|n| n.on(Some(run.limits().nodes_max.into())))
                    .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
                deadline: budget.minutes.map(|n| {
                    let from = run.deadline().filter(|_| n.is_more).unwrap_or(now);
                    from.plus(minutes(n.value))
                }),
            }
        };
        runner.change_limits(row.id, node, limits, &who(context)).await?;
        driven_later(context, &row);
    }
    let run = runner.load(row.id).await?;
    let view = run.node(node.unwrap_or(root));
    let purse = view.and_then(|view| view.purse.copied());
    let limits = purse.iter().flat_map(|purse| {
        let shown = Dimension::ALL
            .into_iter()
            .filter(|dimension| !is_seldom(*dimension) || purse.limit.of(*dimension).is_some());
        shown.map(|dimension| LimitShape::of(dimension, purse))
    });
    context.output.report(&BudgetShape {
        run: row.handle.to_string(),
        run_id: row.id.to_string(),
        path: view.map_or("", |view| view.path).to_owned(),
        limits: limits.collect(),
        nodes: node.is_none().then(|| LimitShape {
            what: "nodes",
            limit: Some(run.limits().nodes_max.into()),
            used: run.planned_nodes() as u64,
            unknown: None,
        }),
        deadline: run.deadline().filter(|_| node.is_none()),
    })?;
    Ok(Exit::Done)
}
