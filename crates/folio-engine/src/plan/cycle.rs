//! Finds steps that wait for one another.

use super::{Graph, Slug};

/// A set of steps that wait for one another in a circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cycle {
    /// The graph nodes of the cycle, each once, in the order of waiting.
    pub(super) nodes: Vec<usize>,
    /// Why each one waits for the next: `a needs b`, `b comes after a`.
    pub(super) reasons: Vec<String>,
}

/// A step has two moments: it starts, and it ends. Waiting is between moments: a step starts after those it waits
/// for have ended, and after its group has started; a group ends after everything in it has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Start(usize),
    End(usize),
}

impl Moment {
    fn index(self) -> usize {
        match self {
            Self::Start(node) => 2 * node,
            Self::End(node) => 2 * node + 1,
        }
    }

    fn node(self) -> usize {
        match self {
            Self::Start(node) | Self::End(node) => node,
        }
    }
}

/// All cycles that share no step with one found before, described with the names that `called` gives.
pub(super) fn cycles(graph: &Graph, called: impl Fn(&Slug) -> String) -> Vec<Cycle> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; 2 * graph.nodes.len()];
    let mut found: Vec<Cycle> = Vec::new();
    for root in 0..graph.nodes.len() {
        let mut trail: Vec<(Moment, Vec<Moment>)> = Vec::new();
        let mut enter = Some(Moment::End(root)).filter(|moment| marks[moment.index()] == Mark::New);
        loop {
            if let Some(moment) = enter.take() {
                marks[moment.index()] = Mark::Open;
                trail.push((moment, preceding_moments(graph, moment)));
            }
            let Some((moment, waits)) = trail.last_mut() else {
                break;
            };
            match waits.pop() {
                None => {
                    marks[moment.index()] = Mark::Done;
                    trail.pop();
                }
                Some(next) if marks[next.index()] == Mark::New => enter = Some(next),
                Some(next) if marks[next.index()] == Mark::Open => {
                    let from = trail.iter().position(|(moment, _)| *moment == next).unwrap_or(0);
                    let moments: Vec<Moment> = trail[from..].iter().map(|(moment, _)| *moment).collect();
                    let cycle = describe(graph, &moments, &called);
                    if !found
                        .iter()
                        .any(|other| other.nodes.iter().any(|node| cycle.nodes.contains(node)))
                    {
                        found.push(cycle);
                    }
                }
                Some(_) => {}
            }
        }
    }
    found
}

fn preceding_moments(graph: &Graph, moment: Moment) -> Vec<Moment> {
    match moment {
        Moment::Start(at) => {
            let node = &graph.nodes[at];
            let waits = node.waits.iter().map(|&wait| Moment::End(wait));
            waits.chain(node.parent.map(Moment::Start)).collect()
        }
        Moment::End(at) => {
            let children = graph.nodes[at].children.iter().map(|&child| Moment::End(child));
            children.chain([Moment::Start(at)]).collect()
        }
    }
}

fn describe(graph: &Graph, moments: &[Moment], called: impl Fn(&Slug) -> String) -> Cycle {
    let name = |at: usize| called(&graph.nodes[at].slug);
    let mut nodes: Vec<usize> = Vec::new();
    let mut reasons = Vec::new();
    for (position, &moment) in moments.iter().enumerate() {
        let next = moments[(position + 1) % moments.len()];
        if !nodes.contains(&moment.node()) {
            nodes.push(moment.node());
        }
        let (this, other) = (moment.node(), next.node());
        match (moment, next) {
            (Moment::Start(_), Moment::End(_)) if graph.nodes[this].step.needs().is_some() => {
                reasons.push(format!("{} needs {}", name(this), name(other)));
            }
            (Moment::Start(_), Moment::End(_)) => {
                reasons.push(format!("{} comes after {}", name(this), name(other)));
            }
            (Moment::Start(_), Moment::Start(_)) => {
                reasons.push(format!("{} is in {}", name(this), name(other)));
            }
            (Moment::End(_), Moment::End(_)) => {
                reasons.push(format!("{} ends with {}", name(this), name(other)));
            }
            // That a step ends after it has started goes without saying.
            (Moment::End(_), Moment::Start(_)) => {}
        }
    }
    Cycle { nodes, reasons }
}
