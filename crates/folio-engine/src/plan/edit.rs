//! From the text of an edited plan to its steps (E9.14): YAML, JSON or markdown, checked in the plan that they belong
//! to.

use serde_json::Value;

use super::decode::decode;
use super::errors::{PlanError, PlanErrors, code};
use super::markdown::{self, ShownStep};
use super::parse::{check, without_mark};
use super::spanned::{self, Entry, Node, Tree};
use super::{Known, Place, Plan, Step, keys};

/// One part of the path to the steps that are edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The value of a key.
    Key(&'static str),
    /// An item of a list.
    At(usize),
}

/// The plan that the edited steps belong to.
pub(crate) struct EditTarget<'a> {
    /// The plan in its authored form.
    pub(crate) plan: Value,
    /// The path in it to the steps.
    pub(crate) at: Vec<Part>,
    /// The steps as they are now.
    pub(crate) steps: &'a [ShownStep],
    /// The plan of the run, of which everything but the steps stays.
    pub(crate) run_plan: &'a Plan,
    /// Fills in the inputs of the run in a title, because the run's own title is filled in already.
    pub(crate) fill_inputs: &'a dyn Fn(&str) -> String,
}

impl EditTarget<'_> {
    /// Whether `edited` agrees in `key` with the plan of the run, or with the part of it that contains the steps.
    fn agrees_with_plan(&self, key: &str, edited: &Plan) -> bool {
        let plan = self.run_plan;
        match key {
            "title" => edited.title == plan.title || (self.fill_inputs)(&edited.title) == plan.title,
            "goal" => edited.goal == plan.goal,
            "description" => edited.description == plan.description,
            "inputs" => edited.inputs == plan.inputs,
            "budget" => edited.budget == plan.budget,
            "report" => edited.report == plan.report,
            "output" => match self.part() {
                Some(part) => edited.output.as_ref() == part.get("output"),
                None => edited.output == plan.output,
            },
            key if key == "criteria" || keys::aliases("criteria").any(|alias| alias == key) => {
                edited.criteria == plan.criteria
            }
            // The version of the language; and keys that no plan has, which were reported already.
            _ => true,
        }
    }

    /// Removes from `errors` those mistakes that the plan also has without the edit to `edited`: rules may have become
    /// stricter since it was stored, and steps that have begun cannot be corrected. A mistake in a step is removed only
    /// if the step did not change.
    fn drop_preexisting_errors(&self, errors: &mut Vec<PlanError>, edited: &[Step], known: &Known) {
        let Err(before) = check(&Node::of_json(&self.plan), Vec::new(), Some(known)) else {
            return;
        };
        let edited = ShownStep::from_plan_steps(edited);
        let before: Vec<_> = before.iter().map(|error| self.identity(error, self.steps)).collect();
        errors.retain(|error| !before.contains(&self.identity(error, &edited)));
    }

    /// Whether `steps` are, without a mistake in their form, those of the plan as they are now, whatever state they are
    /// in.
    fn has_steps(&self, steps: &Node) -> bool {
        let draft = decode(steps);
        let now = self.steps.iter().map(|shown| &shown.step);
        draft.faults.errors.is_empty() && draft.plan.steps.iter().eq(now)
    }

    /// What identifies a mistake: where it is, with the step out of `steps` that contains it in place of a position.
    fn identity<'e>(&self, error: &'e PlanError, steps: &[ShownStep]) -> (&'e str, &'e str, &'e str, Option<Step>) {
        let inside = error.path.strip_prefix(&path_of(&self.at)).and_then(|inside| {
            let (position, rest) = inside.strip_prefix('[')?.split_once(']')?;
            Some((steps.get(position.parse::<usize>().ok()?)?.step.clone(), rest))
        });
        let (step, path) = inside.map_or((None, error.path.as_str()), |(step, rest)| (Some(step), rest));
        (error.code, path, error.message.as_str(), step)
    }

    /// The plan inside the plan that contains the steps.
    fn part(&self) -> Option<&Value> {
        let (_, parent_path) = self.at.split_last()?;
        let mut value = (!parent_path.is_empty()).then_some(&self.plan)?;
        for part in parent_path {
            value = match part {
                Part::Key(key) => value.get(key)?,
                Part::At(position) => value.get(position)?,
            };
        }
        Some(value)
    }
}

/// The version of the plan that the text of an edit is based on, if it says: in a comment, or as `plan_version`.
pub(crate) fn version_in(text: &str) -> Option<u32> {
    let text = without_mark(text);
    let as_key = || {
        let reading = (!markdown::is_markdown(text)).then(|| spanned::read(text).ok())??;
        let version = reading.root.get("plan_version")?.to_json().as_u64()?;
        u32::try_from(version).ok()
    };
    markdown::version_of(text).or_else(as_key)
}

/// Reads the steps of an edited plan and checks the plan with them.
///
/// A text is a list of steps, an object with `steps`, or markdown as [`markdown::to_markdown`] writes it. Of a whole
/// plan only the steps can be edited: another part that differs in meaning from the plan, however it is written, is a
/// mistake.
pub(crate) fn read_edit(text: &str, target: EditTarget<'_>, known: &Known) -> Result<Vec<Step>, PlanErrors> {
    let text = without_mark(text);
    let mut errors = Vec::new();
    let steps = if markdown::is_markdown(text) {
        markdown::read(text, target.steps).map_err(PlanErrors::first_of)?
    } else {
        let reading = spanned::read(text).map_err(|error| PlanErrors::first_of(vec![error]))?;
        errors.extend(reading.errors);
        match steps_of(reading.root, &target, &mut errors) {
            Some(steps) => steps,
            None => return Err(PlanErrors::first_of(errors)),
        }
    };
    let mut full_plan = Node::of_json(&target.plan);
    graft(&mut full_plan, &target.at, steps.clone());
    // The whole plan is checked, because other steps may refer to a step that is gone.
    let checked = check(&full_plan, errors, Some(known));
    let steps = decode(&steps).plan.steps;
    if let Err(mut errors) = checked {
        target.drop_preexisting_errors(&mut errors, &steps, known);
        if !errors.is_empty() {
            return Err(PlanErrors::first_of(errors));
        }
    }
    Ok(steps)
}

/// The steps of a text in YAML or JSON.
fn steps_of(root: Node, target: &EditTarget<'_>, errors: &mut Vec<PlanError>) -> Option<Node> {
    let Tree::Object(entries) = root.tree else {
        if matches!(root.tree, Tree::List(_)) {
            return Some(root);
        }
        let message = format!(
            "an edited plan is a list of steps, or an object with `steps`; this is {}",
            root.kind()
        );
        errors.push(mistake(code::WRONG_TYPE, root.place, "", message));
        return None;
    };
    let (mut steps, mut shown) = (None, None);
    let mut others = Vec::new();
    for entry in entries {
        match entry.key.as_str() {
            "steps" => steps = Some(entry.value),
            // What Folio shows of a run beside its steps.
            "run_id" | "run" | "node_id" | "path" | "plan_version" | "editable" | "states" | "difference" => {}
            "markdown" => shown = Some(entry.value),
            _ => others.push(entry),
        }
    }
    let is_missing = steps.is_none() && shown.is_none();
    if let Some(shown) = shown {
        steps = edited_of_two(steps, &shown, target, errors);
    }
    check_other_keys_unchanged(others, target, errors);
    if is_missing {
        errors.push(mistake(
            code::MISSING,
            root.place,
            "",
            "`steps` is missing: a plan is a list of steps".to_owned(),
        ));
    }
    steps.filter(|_| errors.is_empty())
}

/// The steps of a plan that is given both as `steps` and as `markdown`, as Folio shows it: those of the form that was
/// edited.
fn edited_of_two(
    steps: Option<Node>,
    shown: &Node,
    target: &EditTarget<'_>,
    errors: &mut Vec<PlanError>,
) -> Option<Node> {
    let Some(text) = shown.to_json().as_str().map(str::to_owned) else {
        let message = format!("the markdown of a plan is a text; this is {}", shown.kind());
        errors.push(mistake(code::WRONG_TYPE, shown.place, "markdown", message));
        return steps;
    };
    let read = markdown::read(&text, target.steps);
    // A step that began or ended since then has another mark by now, which changes no step.
    let is_edited =
        text != markdown::to_markdown(target.steps) && !read.as_ref().is_ok_and(|steps| target.has_steps(steps));
    match (steps, read) {
        (Some(steps), _) if !is_edited => Some(steps),
        (Some(steps), _) if !target.has_steps(&steps) => {
            let message = "`steps` and `markdown` both differ from the plan; leave out the one that you did not edit";
            errors.push(mistake(code::WRONG_TYPE, shown.place, "markdown", message.to_owned()));
            Some(steps)
        }
        (_, Ok(steps)) => Some(steps),
        (_, Err(mistakes)) => {
            errors.extend(mistakes);
            None
        }
    }
}

/// Reports everything outside the steps that is not part of a plan or has changed.
fn check_other_keys_unchanged(others: Vec<Entry>, target: &EditTarget<'_>, errors: &mut Vec<PlanError>) {
    let edited_keys: Vec<(String, Place)> = others.iter().map(|entry| (entry.key.clone(), entry.place)).collect();
    let mut entries = others;
    entries.push(Entry {
        key: "steps".to_owned(),
        place: spanned::START,
        value: Node {
            place: spanned::START,
            tree: Tree::List(Vec::new()),
        },
    });
    let root = Node {
        place: spanned::START,
        tree: Tree::Object(entries),
    };
    // Plans may be written in short forms, so their meaning is compared, not their text.
    let draft = decode(&root);
    if !draft.faults.errors.is_empty() {
        errors.extend(draft.faults.errors);
        return;
    }
    for (key, place) in edited_keys {
        if !target.agrees_with_plan(&key, &draft.plan) {
            let message = format!("only the steps can be edited during a run, but `{key}` was changed");
            let hint = Some("leave it out: an edit needs only `steps`".to_owned());
            errors.push(PlanError {
                hint,
                ..mistake(code::BAD_VALUE, place, &key, message)
            });
        }
    }
}

fn mistake(code: &'static str, place: Place, path: &str, message: String) -> PlanError {
    PlanError {
        code,
        place,
        path: path.to_owned(),
        message,
        hint: None,
    }
}

/// `at` in the form that mistakes show: `steps[2].plan.steps`.
fn path_of(at: &[Part]) -> String {
    let mut path = String::new();
    for part in at {
        match part {
            Part::Key(key) if path.is_empty() => path.push_str(key),
            Part::Key(key) => path.push_str(&format!(".{key}")),
            Part::At(position) => path.push_str(&format!("[{position}]")),
        }
    }
    path
}

/// Puts `steps` at the place that `at` leads to.
fn graft(node: &mut Node, at: &[Part], steps: Node) {
    let Some((first, rest)) = at.split_first() else {
        *node = steps;
        return;
    };
    let below = match (first, &mut node.tree) {
        (Part::Key(key), Tree::Object(entries)) => entries
            .iter_mut()
            .find(|entry| entry.key == *key)
            .map(|entry| &mut entry.value),
        (Part::At(position), Tree::List(items)) => items.get_mut(*position),
        _ => None,
    };
    if let Some(below) = below {
        graft(below, rest, steps);
    }
}
