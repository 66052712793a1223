//! A policy as people write it: the whole document, or changes of single keys. All mistakes are found at once.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use serde_json::{Map, Value};

use super::SpacePolicy;
use crate::query::{keys_of, path_of};
use crate::warning::Invalid;
use crate::wrong_field::in_plain_words;

/// How many mistakes a message names.
const NAMED_MAX: usize = 20;
/// The section with a key for each tool.
const MANIFESTS: &str = "manifests";
/// What a mistake adds that may come from a dot in the name of a tool.
const DOTTED_NAME: &str = "; a dot in the name of a tool is written `\\.`";

/// Changes of single keys. A key is a path with dots: `retention.purge_after_minutes`, `types.weather`. A dot in a name
/// is written `\.`, and a backslash `\\`: `manifests.mail\.send.max_per_call`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyEdit {
    /// The keys to set, with their values. An object takes the place of everything below its key.
    pub set: Vec<(String, Value)>,
    /// The keys to reset to their built-in values.
    pub unset: Vec<String>,
}

/// What is wrong with a policy that somebody wrote: every mistake, with the key that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyMistakes(Vec<Invalid>);

impl PolicyMistakes {
    /// The stable code, which each of the mistakes has, too.
    pub const CODE: &str = "policy_invalid";

    fn check(mistakes: Vec<Invalid>) -> Result<(), Self> {
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(Self(mistakes)),
        }
    }

    /// The mistakes; at least one.
    #[must_use]
    pub fn all(&self) -> &[Invalid] {
        &self.0
    }
}

impl fmt::Display for PolicyMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the policy cannot be read: ")?;
        for (at, one) in self.0.iter().take(NAMED_MAX).enumerate() {
            write!(f, "{}{one}", if at == 0 { "" } else { "; " })?;
        }
        match self.0.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl Error for PolicyMistakes {}

impl SpacePolicy {
    /// Reads a policy from its document, which has what differs from the built-in values.
    ///
    /// # Errors
    ///
    /// All mistakes.
    pub fn from_document(document: &Map<String, Value>) -> Result<Self, PolicyMistakes> {
        match read(document) {
            Ok(policy) => {
                PolicyMistakes::check(policy.mistakes())?;
                Ok(policy)
            }
            Err(error) => {
                let mut mistakes = Vec::new();
                for (name, value) in document {
                    collect_mistakes(&mut vec![name], value, &mut mistakes);
                }
                if mistakes.is_empty() {
                    // Each key can be read alone, but not all of them together.
                    mistakes.push(mistake("policy", &error));
                }
                Err(PolicyMistakes(mistakes))
            }
        }
    }

    /// The policy after `edit`.
    ///
    /// # Errors
    ///
    /// All mistakes: of the keys, or else of the policy with them.
    pub fn edited(&self, edit: &PolicyEdit) -> Result<Self, PolicyMistakes> {
        let mut document = match serde_json::to_value(self) {
            Ok(Value::Object(document)) => document,
            _ => Map::new(),
        };
        let set = edit
            .set
            .iter()
            .map(|(key, value)| put(&mut document, key, value.clone()));
        let mut mistakes: Vec<Invalid> = set.filter_map(Result::err).collect();
        for key in &edit.unset {
            let is_set = edit.set.iter().any(|(set, _)| keys_of(set).eq(keys_of(key)));
            let removed = match is_set {
                true => Err(refused(key, "is both set and reset")),
                false => check_known_key(key).and_then(|()| remove(&mut document, key)),
            };
            mistakes.extend(removed.err());
        }
        PolicyMistakes::check(mistakes)?;
        Self::from_document(&document)
    }
}

fn read(document: &Map<String, Value>) -> serde_json::Result<SpacePolicy> {
    serde_json::from_value(Value::Object(document.clone()))
}

fn refused(key: &str, reason: impl Into<String>) -> Invalid {
    Invalid::new(PolicyMistakes::CODE, key, reason.into())
}

fn mistake(key: &str, error: &serde_json::Error) -> Invalid {
    refused(key, in_plain_words(error, "an object"))
}

/// Why a policy with nothing but `value` at `path` cannot be read.
fn error_at(path: &[&String], value: Value) -> Option<serde_json::Error> {
    let mut document = value;
    for name in path.iter().rev() {
        document = Value::Object(Map::from_iter([((*name).clone(), document)]));
    }
    serde_json::from_value::<SpacePolicy>(document).err()
}

/// Adds the mistakes of `value`, which stands at `path`, to `mistakes`: those of the keys in it or, if each of them is
/// right, its own.
fn collect_mistakes<'d>(path: &mut Vec<&'d String>, value: &'d Value, mistakes: &mut Vec<Invalid>) {
    let Some(error) = error_at(path, value.clone()) else {
        return;
    };
    let before = mistakes.len();
    if let Value::Object(inside) = value
        && !is_unknown(path)
    {
        for (name, value) in inside {
            path.push(name);
            collect_mistakes(path, value, mistakes);
            path.pop();
        }
    }
    if mistakes.len() == before {
        let key = path_of(path.iter().map(|name| name.as_str()));
        let mut mistake = mistake(&key, &error);
        if path.len() > 2 && path[0] == MANIFESTS && is_unknown(path) {
            mistake.message.push_str(DOTTED_NAME);
        }
        mistakes.push(mistake);
    }
}

/// Whether no policy has a key at `path`.
fn is_unknown(path: &[&String]) -> bool {
    error_at(path, Value::Null).is_some_and(|error| error.to_string().starts_with("unknown field"))
}

/// Puts `value` at a dotted path.
fn put(document: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), Invalid> {
    let mut parts: Vec<_> = keys_of(key).collect();
    let last = parts.pop().unwrap_or_default();
    let mut target = document;
    for part in parts {
        let inner = target.entry(&*part).or_insert_with(|| Value::Object(Map::new()));
        target = inner.as_object_mut().ok_or_else(|| no_keys_inside(&part, key))?;
    }
    target.insert(last.into_owned(), value);
    Ok(())
}

/// Removes what is at a dotted path, and what is empty without it: an empty type or manifest would be one that is set.
fn remove(document: &mut Map<String, Value>, key: &str) -> Result<(), Invalid> {
    fn remove_in(inside: &mut Map<String, Value>, path: &[Cow<'_, str>], key: &str) -> Result<bool, Invalid> {
        let (part, rest) = match path {
            [] => return Ok(false),
            [last] => return Ok(inside.remove(&**last).is_some()),
            [part, rest @ ..] => (&**part, rest),
        };
        let Some(value) = inside.get_mut(part) else {
            return Ok(false);
        };
        let inner = value.as_object_mut().ok_or_else(|| no_keys_inside(part, key))?;
        let is_removed = remove_in(inner, rest, key)?;
        if is_removed && inner.is_empty() {
            inside.remove(part);
        }
        Ok(is_removed)
    }
    let path: Vec<_> = keys_of(key).collect();
    remove_in(document, &path, key).map(drop)
}

fn no_keys_inside(part: &str, key: &str) -> Invalid {
    refused(key, format!("{part} has no keys of its own"))
}

/// Refuses a key that no policy has: otherwise removing it would look like a success.
fn check_known_key(key: &str) -> Result<(), Invalid> {
    let mut probe = Map::new();
    put(&mut probe, key, Value::Null)?;
    let unknown = ["unknown field", "unknown variant", "invalid type: map"];
    match read(&probe) {
        Err(error) if unknown.iter().any(|start| error.to_string().starts_with(start)) => Err(mistake(key, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn keys_of_mistakes(mistakes: &PolicyMistakes) -> Vec<&str> {
        mistakes.all().iter().map(|one| &*one.field).collect()
    }

    fn edit(set: Value, unset: &[&str]) -> PolicyEdit {
        PolicyEdit {
            set: document(set).into_iter().collect(),
            unset: unset.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    #[test]
    fn every_mistake_of_a_document_is_named_by_its_key() {
        let mistakes = SpacePolicy::from_document(&document(json!({
            "strict_types": "perhaps",
            "typs": {"x": {"y": 1}},
            "types": {"weather": {"class": "storm", "priority": -1}, "tide": {"class": "alert"}, "wind": []},
            "retention": {"purge_after_minutes": "long", "tombstone_minutes": 5},
        })))
        .unwrap_err();
        let mut keys = keys_of_mistakes(&mistakes);
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "retention.purge_after_minutes",
                "strict_types",
                "types.weather.class",
                "types.weather.priority",
                "types.wind",
                "typs"
            ]
        );
        let told = mistakes.to_string();
        assert!(keys.iter().all(|key| told.contains(&format!("{key}: "))), "{told}");
        assert!(mistakes.all().iter().all(|one| one.code == PolicyMistakes::CODE));
    }

    #[test]
    fn values_that_can_be_read_but_not_used_are_named_together() {
        let mistakes = SpacePolicy::from_document(&document(json!({
            "quota": {"live_observations": 0},
            "scratchbook": {"view_token_limit": 1_000_000, "max_rendered_items": 0},
            "types": {"No Such": {}},
            "manifests": {"mail": {"max_per_call": 10_001}},
        })))
        .unwrap_err();
        let mut keys = keys_of_mistakes(&mistakes);
        keys.sort_unstable();
        assert_eq!(keys, ["manifests", "quota", "scratchbook", "scratchbook", "types"]);
    }

    #[test]
    fn edit_sets_and_resets_single_keys() {
        let policy = SpacePolicy::default();
        let set = edit(json!({"strict_types": "nobody", "types.tide.class": "alert"}), &[]);
        let with_tide = policy.edited(&set).unwrap();
        let wanted = json!({
            "strict_types": "nobody",
            "types": {"tide": {"class": "alert", "default_ttl_minutes": 10_080}},
        });
        assert_eq!(json!(with_tide), wanted);
        let keys = ["types.tide.class", "types.tide.default_ttl_minutes", "quota"];
        let reset = with_tide
            .edited(&edit(json!({"strict_types": "tools"}), &keys))
            .unwrap();
        assert_eq!(reset, policy, "a type without keys is gone");
    }

    #[test]
    fn escaped_dot_of_a_key_belongs_to_the_name_of_a_tool() {
        let policy = SpacePolicy::default();
        let set = edit(
            json!({r"manifests.mail\.send.max_per_call": 3, "manifests.mail.max_per_call": 2}),
            &[],
        );
        let with_mail = policy.edited(&set).unwrap();
        let document = json!(with_mail);
        let most = |tool: &str| document["manifests"][tool]["max_per_call"].clone();
        assert_eq!((most("mail.send"), most("mail")), (json!(3), json!(2)));
        // What lists each value names it by the key that sets it.
        let listed = with_mail.in_force();
        let key = r"manifests.mail\.send.max_per_call";
        assert!(listed.iter().any(|one| one.key == key && one.is_set), "{listed:?}");
        let reset = with_mail.edited(&edit(json!({}), &[r"manifests.mail\.send", "manifests.mail"]));
        assert_eq!(reset.unwrap(), policy);
        // The same key, also if it is written in another way.
        let both = edit(
            json!({r"manifests.a\b.max_per_call": 1}),
            &[r"manifests.a\\b.max_per_call"],
        );
        assert_eq!(keys_of_mistakes(&policy.edited(&both).unwrap_err()).len(), 1);
    }

    #[test]
    fn mistake_of_a_dotted_tool_name_says_how_to_write_it() {
        let mistakes = SpacePolicy::default()
            .edited(&edit(json!({"manifests.mail.send.max_per_call": 3}), &[]))
            .unwrap_err();
        assert_eq!(keys_of_mistakes(&mistakes), ["manifests.mail.send"]);
        assert!(mistakes.to_string().contains(r"is written `\.`"), "{mistakes}");
        let mistakes = SpacePolicy::default()
            .edited(&edit(json!({r"manifests.mail\.send.max": 3}), &[]))
            .unwrap_err();
        assert_eq!(keys_of_mistakes(&mistakes), [r"manifests.mail\.send.max"]);
    }

    #[test]
    fn every_key_of_an_edit_that_cannot_be_used_is_named() {
        let nobody = SpacePolicy::from_document(&document(json!({"strict_types": "nobody"}))).unwrap();
        let keys = ["strict_type", "strict_types.x.y", "redaction"];
        let set = json!({"strict_types.z": 1, "redaction": "pii"});
        let mistakes = nobody.edited(&edit(set, &keys)).unwrap_err();
        assert_eq!(
            keys_of_mistakes(&mistakes),
            ["strict_types.z", "strict_type", "strict_types.x.y", "redaction"]
        );
        let mistakes = nobody
            .edited(&edit(json!({"types.a.class": "b", "quota.x": 1}), &[]))
            .unwrap_err();
        let mut keys = keys_of_mistakes(&mistakes);
        keys.sort_unstable();
        assert_eq!(keys, ["quota.x", "types.a.class"]);
    }
}
