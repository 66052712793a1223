//! The paths of a run: those of its inputs, and the folder that it was submitted from.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use folio_engine::plan::{InputKind, Plan};
use serde_json::{Value, json};

use crate::error::RunnerError;
use crate::grants::open_roots;

/// Why the path of an input cannot be used.
#[derive(Debug)]
pub struct PathInputError {
    /// The name of the input.
    pub input: String,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub problem: PathProblem,
}

/// What is wrong with a path.
#[derive(Debug)]
pub enum PathProblem {
    /// There is nothing at this path, it cannot be looked at, or it may not be named.
    Unusable(PathBuf, io::Error),
    /// It is not valid UTF-8.
    NotText(PathBuf),
}

/// Resolves the inputs of kind `path`, those that were given and the defaults of `plan`: relative to `folder`, without
/// `..` and symbolic links. Tools compare them with the folder that is granted, and results that carry them are found
/// again under the same name.
///
/// # Errors
///
/// The first input that names nothing, or whose path is not valid UTF-8.
pub fn resolve_path_inputs(
    plan: &Plan,
    inputs: BTreeMap<String, Value>,
    folder: &Path,
) -> Result<BTreeMap<String, Value>, PathInputError> {
    with_path_inputs(plan, inputs, |path| resolve(&folder.join(path)))
}

/// The same for a caller who may name only what lies in `folder`; without a folder, nothing.
///
/// # Errors
///
/// As [`resolve_path_inputs`]; the first input that lies outside.
pub fn resolve_path_inputs_within(
    plan: &Plan,
    inputs: BTreeMap<String, Value>,
    folder: Option<&Path>,
) -> Result<BTreeMap<String, Value>, PathInputError> {
    with_path_inputs(plan, inputs, |path| {
        let outside = || PathProblem::Unusable(path.into(), io::ErrorKind::PermissionDenied.into());
        let folder = resolve(folder.ok_or_else(outside)?)?;
        let found = resolve(&folder.join(path))?;
        if found.starts_with(&folder) {
            Ok(found)
        } else {
            Err(outside())
        }
    })
}

fn resolve(path: &Path) -> Result<PathBuf, PathProblem> {
    path.canonicalize()
        .map_err(|error| PathProblem::Unusable(path.to_owned(), error))
}

fn with_path_inputs(
    plan: &Plan,
    mut inputs: BTreeMap<String, Value>,
    resolve: impl Fn(&str) -> Result<PathBuf, PathProblem>,
) -> Result<BTreeMap<String, Value>, PathInputError> {
    for (name, spec) in plan.inputs.iter().filter(|(_, spec)| spec.kind == InputKind::Path) {
        let Some(Value::String(path)) = inputs.get(name).or(spec.default.as_ref()) else {
            continue;
        };
        // An empty path is refused with the other inputs that do not fit; here it would become the whole folder.
        if path.trim().is_empty() {
            continue;
        }
        let text = resolve(path).and_then(|path| path.into_os_string().into_string().map_err(to_not_text));
        let text = text.map_err(|problem| PathInputError {
            input: name.clone(),
            value: path.clone(),
            problem,
        })?;
        inputs.insert(name.clone(), Value::String(text));
    }
    Ok(inputs)
}

fn to_not_text(path: std::ffi::OsString) -> PathProblem {
    PathProblem::NotText(path.into())
}

/// Makes the paths of a new run absolute, those of its inputs and its `folder`, which is returned as text: what is
/// granted must not depend on where its driver was started. If this process drives the run (`is_here`), they are
/// relative to the current directory, lose `..` and symbolic links, since tools compare them with the folder that is
/// granted, and are checked. Otherwise they are paths of another machine.
///
/// # Errors
///
/// `Folder` if one cannot be used, or is relative on another machine; `Inputs` for such an input.
pub(crate) fn resolve_paths(
    plan: &Plan,
    inputs: &mut BTreeMap<String, Value>,
    folder: Option<&Path>,
    is_here: bool,
) -> Result<Option<String>, RunnerError> {
    let mut problems = Vec::new();
    for (name, spec) in &plan.inputs {
        let Some(Value::String(path)) = inputs.get(name).filter(|_| spec.kind == InputKind::Path) else {
            continue;
        };
        match absolute(Path::new(path), is_here) {
            Ok(path) => drop(inputs.insert(name.clone(), Value::String(path))),
            Err(reason) => problems.push(format!("the input `{name}` is {path:?}, which {reason}")),
        }
    }
    if !problems.is_empty() {
        return Err(RunnerError::Inputs { problems });
    }
    let absolute_folder = |folder: &Path| {
        absolute(folder, is_here).map_err(|reason| RunnerError::Folder {
            path: folder.display().to_string(),
            reason: format!("it {reason}"),
        })
    };
    let folder = folder.map(absolute_folder).transpose()?;
    if is_here {
        open_roots(plan, &json!(inputs), folder.as_deref())?;
    }
    Ok(folder)
}

/// `path` as an absolute path, or why it is none. A path that does not exist stays as it is.
fn absolute(path: &Path, is_here: bool) -> Result<String, String> {
    if !is_here && path.is_relative() {
        return Err("is relative, but another machine may drive the run; give it from the root on".to_owned());
    }
    let absolute = std::path::absolute(path).map_err(|error| format!("cannot be made absolute: {error}"))?;
    let resolved = if is_here { absolute.canonicalize().ok() } else { None };
    let text = resolved.unwrap_or(absolute).into_os_string().into_string();
    text.map_err(|_| "is not valid UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use folio_engine::plan;

    use super::*;

    fn a_plan() -> Plan {
        let plan = json!({
            "version": 1,
            "title": "Read",
            "inputs": {"from": {"type": "path", "default": "notes"}, "name": {"type": "string", "default": "x"}},
            "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}],
        });
        plan::from_value(&plan, &plan::Known::default()).expect("a plan")
    }

    fn inputs(from: Option<&str>) -> BTreeMap<String, Value> {
        from.map(|from| ("from".to_owned(), json!(from))).into_iter().collect()
    }

    fn folder_with_notes() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("here/notes")).unwrap();
        fs::create_dir(path.join("there")).unwrap();
        (folder, path)
    }

    #[test]
    fn given_and_default_path_inputs_become_absolute_and_others_stay() {
        let (_folder, path) = folder_with_notes();
        let here = path.join("here");
        for (given, expected) in [
            (None, path.join("here/notes")),
            (Some("../there"), path.join("there")),
            (Some("notes/.."), here.clone()),
        ] {
            let resolved = resolve_path_inputs(&a_plan(), inputs(given), &here).unwrap();
            assert_eq!(resolved, inputs(expected.to_str()), "{given:?}");
        }
    }

    #[test]
    fn empty_path_input_is_left_to_the_check_of_all_inputs() {
        let (_folder, path) = folder_with_notes();
        let empty = inputs(Some(" "));
        assert_eq!(resolve_path_inputs(&a_plan(), empty.clone(), &path).unwrap(), empty);
        assert_eq!(
            resolve_path_inputs_within(&a_plan(), empty.clone(), None).unwrap(),
            empty
        );
    }

    #[test]
    fn path_input_outside_of_the_only_folder_is_refused() {
        let (_folder, path) = folder_with_notes();
        let here = path.join("here");
        let within = resolve_path_inputs_within(&a_plan(), inputs(None), Some(&here)).unwrap();
        assert_eq!(within, inputs(path.join("here/notes").to_str()));
        for (given, folder) in [
            ("../there", Some(&here)),
            ("missing", Some(&here)),
            ("notes", None),
            ("notes", Some(&path.join("missing"))),
        ] {
            let error =
                resolve_path_inputs_within(&a_plan(), inputs(Some(given)), folder.map(PathBuf::as_path)).unwrap_err();
            assert_eq!((error.input.as_str(), error.value.as_str()), ("from", given));
        }
    }
}
