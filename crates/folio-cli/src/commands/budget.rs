//! `folio budget`: shows and changes the limits of a run.

use std::fmt::{self, Write as _};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use folio::Timestamp;
use folio::engine::event::NewLimits;
use folio::engine::run::{LimitKind, micro_usd};
use folio::engine::spend::{Allowance, Dimension, LimitUse, Purse, in_dollars};
use folio::engine::{NodeId, Run, StopReason};
use folio::memory::id::RunRef;
use folio::runner::Runner;
use folio::store::RunRow;
use serde::Serialize;

use super::Context;
use super::cancel::node_called;
use super::people::{hint_if_not_driven, runner};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::{instant, printable};

/// At how many per cent of a limit people are told of it, the highest first.
const WARNING_STEPS: [u64; 2] = [80, 50];
/// The smallest limit of which people are told.
const WARNED_LIMIT_MIN: u64 = 10;
/// The most tasks without a plan that are named when a run has ended.
const UNPLANNED_SHOWN: usize = 5;
/// The longest time that a run may be given, in minutes: ten years.
const MINUTES_MAX: u64 = 10 * 365 * 24 * 60;

/// `folio budget`.
#[derive(Debug, Args)]
pub(crate) struct Budget {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Node whose limits to use: the path of its step names, such as survey/files, or its id
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
    #[command(flatten)]
    raised: Raised,
}

/// Limits to change.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Raised {
    /// Tokens that models may read and write; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens: Option<Number>,
    /// Tokens that models may read; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens_in: Option<Number>,
    /// Tokens that models may read from a provider's cache; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens_cached: Option<Number>,
    /// Tokens that models may write; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tokens_out: Option<Number>,
    /// US dollars that models may cost; +USD adds to the limit
    #[arg(long, value_name = "[+]USD", value_parser = dollars)]
    usd: Option<Number>,
    /// Model calls; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    model_calls: Option<Number>,
    /// Tool calls; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    tool_calls: Option<Number>,
    /// Bytes of the journal and of pages; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    bytes: Option<Number>,
    /// Nodes in the run, or below the node; +N adds to the limit
    #[arg(long, value_name = "[+]N", value_parser = number)]
    nodes: Option<Number>,
    /// Minutes from now until the run or node must end; +N adds to the time it has
    #[arg(long, value_name = "[+]N", value_parser = number)]
    minutes: Option<Number>,
}

/// The limits of a run that is about to begin, by the names that `folio budget` changes them by.
#[derive(Debug, Default, Args)]
pub(crate) struct FirstLimits {
    /// Tokens that models may read and write; like the other limits, in place of what the plan says [default: 2000000]
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// US dollars that models may cost
    #[arg(long, value_name = "USD", value_parser = dollars_alone)]
    usd: Option<u64>,
    /// Model calls
    #[arg(long, value_name = "N")]
    model_calls: Option<u64>,
    /// Tool calls
    #[arg(long, value_name = "N")]
    tool_calls: Option<u64>,
    /// Nodes in the run
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Minutes until the run must end; the default does not count time in which it only waits for people [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    minutes: Option<u64>,
}

impl FirstLimits {
    /// The limits of a run that begins at `now`.
    pub(crate) fn at(&self, now: Timestamp) -> NewLimits {
        NewLimits {
            allowance: Allowance {
                tokens: self.tokens,
                micro_usd: self.usd,
                model_calls: self.model_calls,
                tool_calls: self.tool_calls,
                ..Allowance::default()
            },
            nodes: self.nodes,
            deadline: self.minutes.map(|minutes| now.plus(Duration::from_secs(minutes * 60))),
            ..NewLimits::default()
        }
    }
}

/// The line on the tasks of `run` that were done without a plan because of a limit; `None` if there are none.
pub(crate) fn unplanned_line(run: &Run) -> Option<String> {
    let unplanned: Vec<(NodeId, StopReason)> = run.unplanned().collect();
    let shown = unplanned.iter().take(UNPLANNED_SHOWN).map(|(node, reason)| {
        let path = run.node(*node).map_or("", |view| view.path);
        let part = if path.is_empty() { "the goal" } else { path };
        format!("{} ({reason})", printable(part))
    });
    let mut parts: Vec<String> = shown.collect();
    if unplanned.len() > UNPLANNED_SHOWN {
        parts.push(format!("{} more", unplanned.len() - UNPLANNED_SHOWN));
    }
    let is_any = !parts.is_empty();
    is_any.then(|| {
        format!(
            "without a plan, because a limit left no room for one: {}",
            parts.join(", ")
        )
    })
}

/// The commands that continue a run in which limits stopped something, or took a plan away, for `reasons`, mostly with
/// more of it, each with what it is for. Empty if they are not limits that can be raised.
pub(crate) fn raise_commands(reasons: &[StopReason], run: &Run, handle: &str) -> Vec<(&'static str, String)> {
    let fork = format!("fork {handle} --before-limit");
    let met = run.limits_met().filter(|(why, _)| reasons.contains(why));
    let kinds: Vec<LimitKind> = met.map(|(_, limit)| limit.what).collect();
    // More dollars would not say what a call costs.
    let is_unpriced = |reason: &StopReason| {
        let met = run.limit_met(*reason);
        met.is_some_and(|limit| limit.what == LimitKind::UnknownPrice)
    };
    if reasons.iter().any(is_unpriced) {
        return vec![
            ("with a price", fork.clone()),
            ("cost unknown", format!("{fork} --allow-unpriced")),
        ];
    }
    let mut options: Vec<&str> = Vec::new();
    for option in kinds.into_iter().map(raise_option) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    match options.is_empty() {
        true => Vec::new(),
        false => vec![("go on with more", format!("{fork} {}", options.join(" ")))],
    }
}

/// The option that raises a limit of that kind.
pub(crate) fn raise_option(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Use(Dimension::Tokens) => "--tokens +N",
        LimitKind::Use(Dimension::TokensIn) => "--tokens-in +N",
        LimitKind::Use(Dimension::TokensCached) => "--tokens-cached +N",
        LimitKind::Use(Dimension::TokensOut) => "--tokens-out +N",
        LimitKind::Use(Dimension::MicroUsd) | LimitKind::UnknownPrice => "--usd +USD",
        LimitKind::Use(Dimension::ModelCalls) => "--model-calls +N",
        LimitKind::Use(Dimension::ToolCalls) => "--tool-calls +N",
        LimitKind::Use(Dimension::Bytes) => "--bytes +N",
        LimitKind::Nodes => "--nodes +N",
        LimitKind::Time => "--minutes N",
    }
}

/// What has to be done before the commands of [`raise_commands`], if anything.
pub(crate) fn before_raising(reason: StopReason, run: &Run) -> Option<&'static str> {
    let is_unpriced = run
        .limit_met(reason)
        .is_some_and(|limit| limit.what == LimitKind::UnknownPrice);
    is_unpriced.then_some("put the price of the model into a price file (docs/models.md), or leave its cost unknown:")
}

/// A new limit, or an increase of one.
#[derive(Debug, Clone, Copy)]
struct Number {
    value: u64,
    is_more: bool,
}

impl Number {
    fn of(text: &str, parse: impl Fn(&str) -> Option<u64>) -> Result<Self, String> {
        let (is_more, digits) = text.strip_prefix('+').map_or((false, text), |digits| (true, digits));
        // Rust would read a second sign as part of the number.
        let value = Some(digits).filter(|digits| !digits.starts_with('+')).and_then(parse);
        let value = value.ok_or_else(|| format!("{text:?} is not a number"))?;
        Ok(Self { value, is_more })
    }

    /// Applies the number to `now`. Without a limit, an increase leaves it without one.
    fn applied_to(self, now: Option<u64>) -> Option<u64> {
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

/// An amount of dollars that is not an increase.
fn dollars_alone(text: &str) -> Result<u64, String> {
    micro_usd(text).ok_or_else(|| format!("{text:?} is not an amount of dollars"))
}

impl Raised {
    /// Whether any limit is to change.
    pub(crate) fn is_any(&self) -> bool {
        let numbers = self.numbers_by_dimension().into_iter().map(|(number, _)| number);
        numbers.chain([self.nodes, self.minutes]).any(|number| number.is_some())
    }

    fn numbers_by_dimension(&self) -> [(Option<Number>, Dimension); 8] {
        [
            (self.tokens, Dimension::Tokens),
            (self.tokens_in, Dimension::TokensIn),
            (self.tokens_cached, Dimension::TokensCached),
            (self.tokens_out, Dimension::TokensOut),
            (self.usd, Dimension::MicroUsd),
            (self.model_calls, Dimension::ModelCalls),
            (self.tool_calls, Dimension::ToolCalls),
            (self.bytes, Dimension::Bytes),
        ]
    }

    /// The new limits of `node` of `run`.
    pub(crate) fn limits(&self, run: &Run, node: NodeId, now: Timestamp) -> NewLimits {
        let purse = run.node(node).and_then(|view| view.purse.copied());
        let of = |dimension: Dimension| purse.and_then(|purse| purse.limit.of(dimension));
        let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
        NewLimits {
            allowance: Allowance {
                tokens: self.tokens.and_then(|n| n.applied_to(of(Dimension::Tokens))),
                tokens_in: self.tokens_in.and_then(|n| n.applied_to(of(Dimension::TokensIn))),
                tokens_cached: self
                    .tokens_cached
                    .and_then(|n| n.applied_to(of(Dimension::TokensCached))),
                tokens_out: self.tokens_out.and_then(|n| n.applied_to(of(Dimension::TokensOut))),
                micro_usd: self.usd.and_then(|n| n.applied_to(of(Dimension::MicroUsd))),
                model_calls: self.model_calls.and_then(|n| n.applied_to(of(Dimension::ModelCalls))),
                tool_calls: self.tool_calls.and_then(|n| n.applied_to(of(Dimension::ToolCalls))),
                bytes: self.bytes.and_then(|n| n.applied_to(of(Dimension::Bytes))),
            },
            nodes: self
                .nodes
                .and_then(|n| n.applied_to(run.nodes_within(node).map(|(_, maximum)| maximum.into())))
                .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            deadline: self.minutes.map(|n| {
                let from = run.deadline_of(node, now).filter(|_| n.is_more).unwrap_or(now);
                from.plus(minutes(n.value))
            }),
            ..NewLimits::default()
        }
    }

    /// Makes these the limits of a run, or of `node` of it. Call [`Self::check_can_increase`] first.
    ///
    /// # Errors
    ///
    /// `limit_unusable` if they cannot be used; `run_ended`.
    pub(crate) async fn change(
        &self,
        context: &Context<'_>,
        runner: &Runner,
        row: &RunRow,
        node: Option<NodeId>,
    ) -> Result<(), Failure> {
        let at = node.unwrap_or_else(|| NodeId::root(row.id));
        let now = runner.workspace().now();
        let limits = |run: &Run| self.limits(run, at, now);
        runner
            .change_limits(row.id, node, limits, &context.actor())
            .await
            .map_err(Failure::from)
    }

    /// Refuses to increase a limit that does not exist: it would change nothing, but look as if it had.
    ///
    /// # Errors
    ///
    /// `limit_unusable`.
    pub(crate) fn check_can_increase(&self, run: &Run, node: NodeId) -> Result<(), Failure> {
        let purse = run.node(node).and_then(|view| view.purse.copied()).unwrap_or_default();
        let missing = self
            .numbers_by_dimension()
            .into_iter()
            .find(|(number, dimension)| number.is_some_and(|n| n.is_more) && purse.limit.of(*dimension).is_none());
        match missing {
            None if self.nodes.is_some_and(|n| n.is_more) && run.nodes_within(node).is_none() => {
                Err(nothing_to_add_to("nodes"))
            }
            None => Ok(()),
            Some((_, Dimension::MicroUsd)) => Err(nothing_to_add_to("usd")),
            Some((_, dimension)) => Err(nothing_to_add_to(dimension.as_str())),
        }
    }

    /// The limit of `kind` out of these, alone.
    pub(crate) fn only(&self, kind: LimitKind) -> Self {
        let mut rest = self.clone();
        rest.take(kind)
    }

    /// Takes the limit of `kind` out of these and returns it alone.
    pub(crate) fn take(&mut self, kind: LimitKind) -> Self {
        let mut taken = Self::default();
        let (from, to) = match kind {
            LimitKind::Use(Dimension::Tokens) => (&mut self.tokens, &mut taken.tokens),
            LimitKind::Use(Dimension::TokensIn) => (&mut self.tokens_in, &mut taken.tokens_in),
            LimitKind::Use(Dimension::TokensCached) => (&mut self.tokens_cached, &mut taken.tokens_cached),
            LimitKind::Use(Dimension::TokensOut) => (&mut self.tokens_out, &mut taken.tokens_out),
            LimitKind::Use(Dimension::MicroUsd) | LimitKind::UnknownPrice => (&mut self.usd, &mut taken.usd),
            LimitKind::Use(Dimension::ModelCalls) => (&mut self.model_calls, &mut taken.model_calls),
            LimitKind::Use(Dimension::ToolCalls) => (&mut self.tool_calls, &mut taken.tool_calls),
            LimitKind::Use(Dimension::Bytes) => (&mut self.bytes, &mut taken.bytes),
            LimitKind::Nodes => (&mut self.nodes, &mut taken.nodes),
            LimitKind::Time => (&mut self.minutes, &mut taken.minutes),
        };
        std::mem::swap(from, to);
        taken
    }
}

/// The failure for increasing a limit that does not exist.
fn nothing_to_add_to(unit: &str) -> Failure {
    let message = format!("there is no limit in {unit} to add to");
    Failure::new(Exit::Refused, "limit_unusable", message)
        .hint("use a number without + to set a limit; the limits of the run also apply to its nodes")
}

/// The limits, and how much of them is used up.
#[derive(Debug, Serialize)]
pub(crate) struct BudgetShape {
    run: String,
    run_id: String,
    path: String,
    limits: Vec<LimitShape>,
    nodes: Option<LimitShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct LimitShape {
    what: &'static str,
    /// `None` for the number of nodes.
    #[serde(skip)]
    dimension: Option<Dimension>,
    limit: Option<u64>,
    /// What is used, including what is set aside.
    used: u64,
    /// The part of `used` that is only set aside for calls under way and for members of groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_aside: Option<u64>,
    /// How much was used beyond the limit, because a call used more than was set aside for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<u64>,
    /// For how many model calls the amount used is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<u64>,
}

impl LimitShape {
    fn of(dimension: Dimension, purse: &Purse) -> Self {
        Self {
            what: dimension.as_str(),
            dimension: Some(dimension),
            limit: purse.limit.of(dimension),
            used: purse.used(dimension),
            set_aside: Some(purse.set_aside(dimension)).filter(|amount| *amount > 0),
            over: Some(purse.overrun(dimension)).filter(|over| *over > 0),
            unknown: Some(purse.spent.unpriced_calls).filter(|calls| dimension == Dimension::MicroUsd && *calls > 0),
        }
    }
}

impl Report for BudgetShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let separator = if self.path.is_empty() { "" } else { " " };
        writeln!(out, "{}{separator}{}", style.strong(&self.run), self.path)?;
        self.limits(out)
    }
}

impl BudgetShape {
    /// The limits of `node` of `run`, whose handle is `handle`, at `now`.
    pub(crate) fn of(run: &Run, handle: &str, node: NodeId, now: Timestamp) -> Self {
        let view = run.node(node);
        let purse = view.as_ref().and_then(|view| view.purse);
        let limits = purse.into_iter().flat_map(|purse| {
            let dimensions = Dimension::ALL
                .into_iter()
                .filter(|dimension| !is_rarely_limited(*dimension) || purse.limit.of(*dimension).is_some());
            dimensions.map(|dimension| LimitShape::of(dimension, purse))
        });
        Self {
            run: handle.to_owned(),
            run_id: run.id().to_string(),
            path: view.as_ref().map_or("", |view| view.path).to_owned(),
            limits: limits.collect(),
            nodes: run.nodes_within(node).map(|(used, maximum)| LimitShape {
                what: "nodes",
                dimension: None,
                limit: Some(maximum.into()),
                used: used as u64,
                set_aside: None,
                over: None,
                unknown: None,
            }),
            deadline: run.deadline_of(node, now),
        }
    }

    /// Writes a line for each limit.
    pub(crate) fn limits(&self, out: &mut String) -> fmt::Result {
        if self.limits.is_empty() && self.nodes.is_none() && self.deadline.is_none() {
            writeln!(out, "  no limits of its own; the limits of the nodes above it apply")?;
        }
        for limit in self.limits.iter().chain(&self.nodes) {
            // The name and unit that the flag and plans use.
            let is_money = limit.dimension == Some(Dimension::MicroUsd);
            let amount = |number: u64| match is_money {
                true if number == 0 => "0".to_owned(),
                true => in_dollars(number),
                false => grouped(number),
            };
            let unit = if is_money { "usd" } else { limit.what };
            let set_aside = limit.set_aside.unwrap_or_default();
            let used = amount(limit.used.saturating_sub(set_aside));
            let (used, separator) = match set_aside {
                0 => (used, ""),
                set_aside => (format!("{used} used, {} set aside", amount(set_aside)), ","),
            };
            let most = limit.limit.map_or(", no limit".to_owned(), |most| {
                format!("{separator} of {}", amount(most))
            });
            let unknown = match limit.unknown {
                None => String::new(),
                Some(1) => ", plus 1 call of unknown cost".to_owned(),
                Some(calls) => format!(", plus {calls} calls of unknown cost"),
            };
            let over = limit
                .over
                .map_or_else(String::new, |over| format!(", {} over the limit", amount(over)));
            writeln!(out, "  {unit:<13} {used}{most}{over}{unknown}")?;
        }
        if let Some(deadline) = self.deadline {
            writeln!(out, "  {:<13} {}", "deadline", instant(deadline))?;
        }
        Ok(())
    }
}

/// How much of a limit is used: `52 % of its tokens (104,321 of 200,000)`.
pub(crate) fn use_in_words(used: LimitUse) -> String {
    let (name, amount): (_, fn(u64) -> String) = match used.dimension {
        Dimension::Tokens => ("tokens", grouped),
        Dimension::TokensIn => ("input tokens", grouped),
        Dimension::TokensCached => ("cached input tokens", grouped),
        Dimension::TokensOut => ("output tokens", grouped),
        Dimension::MicroUsd => ("dollars", in_dollars),
        Dimension::ModelCalls => ("model calls", grouped),
        Dimension::ToolCalls => ("tool calls", grouped),
        Dimension::Bytes => ("bytes", grouped),
    };
    let (spent, limit) = (amount(used.spent), amount(used.limit));
    format!("{} % of its {name} ({spent} of {limit})", used.percent())
}

/// The highest of the steps at which people are told how much of a limit is used that `used` has reached. Of a limit of
/// a few calls, each step would come with a single call.
pub(crate) fn warning_step(used: LimitUse) -> Option<u64> {
    let reached = WARNING_STEPS.into_iter().find(|step| used.percent() >= *step);
    reached.filter(|_| used.limit >= WARNED_LIMIT_MIN)
}

/// `number` in groups of three digits, as people read it: `2,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Whether `dimension` is rarely limited: it is shown only if it is limited.
fn is_rarely_limited(dimension: Dimension) -> bool {
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
    if budget.raised.is_any() {
        budget
            .raised
            .check_can_increase(&*runner.load(row.id).await?, node.unwrap_or(root))?;
        budget.raised.change(context, &runner, &row, node).await?;
        hint_if_not_driven(context, &runner, &row).await?;
    }
    let run = runner.load(row.id).await?;
    let now = runner.workspace().now();
    let shown = BudgetShape::of(&run, &row.handle.to_string(), node.unwrap_or(root), now);
    context.output.report(&shown)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_set_aside_is_shown_apart_e9_10() {
        let mut purse = Purse {
            limit: Allowance {
                tokens: Some(150_000),
                ..Allowance::default()
            },
            ..Purse::default()
        };
        purse.spent.tokens_in = 121_058;
        let line = |purse: &Purse| {
            let budget = BudgetShape {
                run: "r1".to_owned(),
                run_id: String::new(),
                path: String::new(),
                limits: vec![LimitShape::of(Dimension::Tokens, purse)],
                nodes: None,
                deadline: None,
            };
            let mut text = String::new();
            budget.text(&mut text, Style::default()).unwrap();
            text.lines().last().map(str::trim).unwrap_or_default().to_owned()
        };
        assert_eq!(line(&purse), "tokens        121,058 of 150,000");
        purse.reserved.tokens_out = 7_072;
        assert_eq!(line(&purse), "tokens        121,058 used, 7,072 set aside, of 150,000");
    }

    #[test]
    fn number_has_one_sign_at_most() {
        assert!(number("+5").is_ok_and(|number| number.value == 5 && number.is_more));
        assert!(number("5").is_ok_and(|number| number.value == 5 && !number.is_more));
        for wrong in ["++5", "+", "", "-5", "+-5"] {
            assert!(number(wrong).is_err() && dollars(wrong).is_err(), "{wrong}");
        }
    }
}
