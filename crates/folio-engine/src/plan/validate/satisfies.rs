//! Which step serves which criterion (E9.6).

use std::collections::HashSet;

use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::nearest::listed;
use crate::plan::reads::Segment;
use crate::plan::{Criterion, Step, Task, Work, criterion_meant};

use super::{Validator, every_step};

impl<'a> Validator<'a> {
    /// Each id in `satisfies` has to be a criterion of the plan or of a task around it.
    pub(super) fn satisfies(&mut self, task: &Task, origin: &At<'a>) {
        let satisfies_at = origin.follow_near(&[Segment::Key("satisfies")]);
        for id in task.satisfies.iter().filter(|_| self.is_whole) {
            if criterion_meant(id, self.visible_criteria.iter().map(String::as_str)).is_some() {
                continue;
            }
            let item = satisfies_at.find_item_equal_to(id);
            let known = || self.visible_criteria.iter().map(String::as_str);
            let hint = self
                .suggest_name(id, known())
                .unwrap_or_else(|| match self.visible_criteria.len() {
                    0 => "there are no criteria here; leave it out".to_owned(),
                    _ => {
                        let mut seen = HashSet::new();
                        format!("the criteria are {}", listed(known().filter(|id| seen.insert(*id))))
                    }
                });
            let at = item.unwrap_or_else(|| satisfies_at.clone());
            let message = format!("satisfies names {id:?}, which is not a criterion");
            self.faults.add(&at, code::UNKNOWN_CRITERION, message).with_hint(hint);
        }
    }

    /// In a plan that a model makes for a task, every step that a model does has to say how one can tell that it is
    /// done.
    pub(super) fn check_has_criteria(&mut self, task: &Task, origin: &At<'a>) {
        let has_some = !task.criteria.is_empty() || !task.satisfies.is_empty();
        if self.known.to_meet.is_some() && !has_some && task.work == Work::Model {
            let task = self.origins.display_name(&task.id);
            let message = format!("{task} has no criteria; say how to tell that it is done");
            self.faults.add(origin, code::MISSING, message);
        }
    }

    /// In a plan that a model makes for a task, some step has to satisfy each of the `criteria`.
    pub(super) fn all_assigned<'c>(
        &mut self,
        criteria: impl Iterator<Item = (&'c str, &'c str)> + Clone,
        steps: &[Step],
        at: &At<'a>,
    ) {
        let mut assigned: Vec<String> = Vec::new();
        every_step(steps, &mut |step| {
            if let Step::Task(task) = step {
                assigned.extend(task.satisfies.iter().cloned());
            }
        });
        let ids = criteria.clone().map(|(id, _)| id);
        let assigned: Vec<&str> = assigned
            .iter()
            .filter_map(|name| criterion_meant(name, ids.clone()))
            .collect();
        for (id, text) in criteria {
            if !assigned.contains(&id) {
                self.faults
                    .add(at, code::MISSING, format!("no step satisfies {id} ({text})"));
            }
        }
    }
}

/// The criteria that have to be met: ids and texts.
pub(super) fn required(criteria: &[Criterion]) -> impl Iterator<Item = (&str, &str)> + Clone {
    let required = criteria.iter().filter(|criterion| criterion.required);
    required.map(|criterion| (criterion.id.as_str(), criterion.text.as_str()))
}
