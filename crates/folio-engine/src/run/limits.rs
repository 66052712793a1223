//! The limits of a run, each with its default (E9.10). None of them can be infinite.

use std::time::Duration;

use crate::plan::{self, Budget, Plan};
use crate::spend::Allowance;

/// The default limit on tokens that the models of one run may read and write (E9.10).
const TOKENS_DEFAULT: u64 = 2_000_000;

/// The default limit on bytes of the journal and the pages of one run: 4 GiB, which is some ten thousand for each of
/// several hundred thousand nodes (E9.10).
const BYTES_DEFAULT: u64 = 4 * 1024 * 1024 * 1024;

/// The limits of a run. `0` means zero, not that there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most levels of nested plans; the root's own plan is level 1.
    pub depth_max: u32,
    /// The most nodes in the whole tree.
    pub nodes_max: u32,
    /// The most members of one group, or steps of one plan.
    pub children_max: u32,
    /// The most results that a model combines at once; at least two.
    pub fan_in_max: u32,
    /// The most items of one `for_each`, if that is to be lower than its own limit.
    pub items_max: Option<u32>,
    /// The most calls under way at the same time.
    pub concurrency: u32,
    /// The longest time that the run may take.
    pub deadline: Duration,
    /// The most bytes of one result.
    pub output_bytes_max: u64,
    /// How many times one task may plan anew.
    pub replans_max: u32,
    /// How many times all tasks together may plan anew.
    pub replans_in_run_max: u32,
    /// What may be used.
    pub allowance: Allowance,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth_max: 8,
            nodes_max: 200,
            children_max: 64,
            fan_in_max: 12,
            items_max: None,
            concurrency: 4,
            deadline: Duration::from_secs(30 * 60),
            output_bytes_max: 8 * 1024 * 1024,
            replans_max: 2,
            replans_in_run_max: 6,
            allowance: Allowance {
                tokens: Some(TOKENS_DEFAULT),
                bytes: Some(BYTES_DEFAULT),
                ..Allowance::default()
            },
        }
    }
}

impl Limits {
    /// The limits that `plan` sets for itself, with defaults for the others. Nodes that are written in the plan do not
    /// count against the default number, because somebody wrote each of them down.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let Budget {
            depth,
            nodes,
            children,
            items,
            fan_in,
            concurrency,
            replans,
            deadline,
            output_bytes,
            tokens,
            tokens_in,
            tokens_cached,
            tokens_out,
            micro_usd,
            model_calls,
            tool_calls,
            bytes,
        } = plan.budget.clone();
        let default = Self::default();
        Self {
            depth_max: depth.unwrap_or(default.depth_max),
            nodes_max: nodes.unwrap_or_else(|| default.nodes_max.saturating_add(plan::count_nodes(&plan.steps))),
            children_max: children.unwrap_or(default.children_max),
            fan_in_max: fan_in.unwrap_or(default.fan_in_max).max(2),
            items_max: items,
            concurrency: concurrency.unwrap_or(default.concurrency),
            deadline: deadline.unwrap_or(default.deadline),
            output_bytes_max: output_bytes.unwrap_or(default.output_bytes_max),
            replans_max: replans.unwrap_or(default.replans_max),
            replans_in_run_max: default.replans_in_run_max.max(replans.unwrap_or(0)),
            allowance: Allowance {
                tokens: tokens.or(default.allowance.tokens),
                tokens_in,
                tokens_cached,
                tokens_out,
                micro_usd,
                model_calls,
                tool_calls,
                bytes: bytes.or(default.allowance.bytes),
            },
        }
    }
}
