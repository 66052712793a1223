//! From an observation as its writer sends it to the fields of an entry (M7.1, M7.3): clamp, default, warn, refuse.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ttl::{TtlInput, lifetime};
use super::types::{Class, MAX_TYPE_BYTES, ObservationType, TypeRegistry};
use crate::actor::{Role, Source, Trust};
use crate::entry::{Confidence, EntryFields, EntryKind, Family, Owner, Status, Tag, check_text, without_nul};
use crate::excerpt::one_line;
use crate::nesting::depth_exceeds;
use crate::numbers::normalize_numbers;
use crate::policy::{MAX_TYPES, SpacePolicy, TypePolicy};
use crate::scratchbook::check_title;
use crate::time::Timestamp;
use crate::view::is_blank;
use crate::warning::{Invalid, Warning};

const MAX_CONTEXT_BYTES: usize = 16 * 1024;
const MAX_CONTEXT_DEPTH: usize = 8;
/// The limit for metadata, that of a text that is kept in the entry itself: every listing of entries reads it.
const MAX_METADATA_BYTES: usize = 64 * 1024;

/// An observation as a tool, a model or a person writes it. Numbers are read as raw JSON, so that they can be corrected
/// with a warning instead of refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservationInput {
    /// The registered type; `observation` if left out.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The text of the observation.
    pub content: String,
    /// The title: one line above the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The confidence: a number from 0 to 1, or `low`, `medium`, `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Value>,
    /// Tags to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The lifetime in minutes. `null` means forever; if left out, the default of the type applies.
    #[serde(default, skip_serializing_if = "TtlInput::is_absent")]
    #[schemars(with = "Option<f64>")]
    pub ttl_minutes: TtlInput,
    /// The end of the lifetime, instead of `ttl_minutes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Who should act; `agent` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// `active`, `pending_review` or `resolved`; `active` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What the observation is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Any other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The source that the writer claims. Kept only as a claim: the actual source is that of the connection (M7.3.31).
    #[serde(
        default,
        rename = "source",
        alias = "claimed_source",
        skip_serializing_if = "Option::is_none"
    )]
    pub claimed_source: Option<Value>,
    /// The id that the writer uses. Kept with the claimed source, because the space assigns its own ids.
    #[serde(default, rename = "observation_id", skip_serializing_if = "Option::is_none")]
    pub claimed_id: Option<String>,
}

/// The result of reading an input: the fields of an entry, and warnings about corrected values.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The fields of the entry.
    pub fields: EntryFields,
    /// Warnings about corrected values.
    pub warnings: Vec<Warning>,
    /// A type that has to be registered together with the entry.
    pub registers: Option<TypePolicy>,
}

/// What happens to an input with an unregistered type (M7.3.22).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownType {
    /// The input is refused.
    Refused,
    /// The input is refused, because the space has as many types as it can register.
    TooMany,
    /// The type is registered with the class that `observation` has.
    Registered,
}

impl UnknownType {
    /// What `policy` says for `role`.
    #[must_use]
    pub fn under(policy: &SpacePolicy, role: Role) -> Self {
        if policy.strict_types.holds_for(role) {
            Self::Refused
        } else if policy.types.is_full() {
            Self::TooMany
        } else {
            Self::Registered
        }
    }
}

/// The types that several observations of one commit register. Together with those of the policy, they are no more than
/// a space registers (M7.3.22).
#[derive(Debug, Clone, Default)]
pub struct NewTypes(BTreeSet<String>);

impl NewTypes {
    /// What happens to `input` of `role` under `policy`, beside the observations before it, if its type is unknown.
    #[must_use]
    pub fn unknown_type(&self, policy: &SpacePolicy, role: Role, input: &ObservationInput) -> UnknownType {
        let is_among = input.type_name.as_ref().is_some_and(|name| self.0.contains(name));
        let is_full = policy.types.len() + self.0.len() >= MAX_TYPES;
        match UnknownType::under(policy, role) {
            UnknownType::Registered if is_full && !is_among => UnknownType::TooMany,
            unknown => unknown,
        }
    }

    /// Notes the type that `draft` registers, if it does.
    pub fn note(&mut self, draft: &Draft) {
        let name = draft.registers.as_ref().and(draft.fields.type_name.as_ref());
        self.0.extend(name.cloned());
    }
}

/// Makes the fields of an observation that is recorded at `now`.
///
/// Numbers out of range are corrected with a warning. A text that cannot be kept, and a malformed type, tag, owner or
/// context, is refused. `unknown` says what happens to an unknown but well-formed type.
///
/// # Errors
///
/// The first field that is wrong.
pub fn draft(
    input: ObservationInput,
    types: &TypeRegistry,
    unknown: UnknownType,
    trust: Trust,
    source: Source,
    now: Timestamp,
) -> Result<Draft, Invalid> {
    let mut warnings = Vec::new();
    let type_name = input.type_name.unwrap_or_else(|| "observation".to_owned());
    let mut registers = None;
    let default_ttl = match types.get(&type_name) {
        Some(known) => known.default_ttl,
        None if !TypeRegistry::is_well_formed(&type_name) => {
            return Err(type_invalid(&type_name));
        }
        None if unknown == UnknownType::Refused => {
            let message = format!(
                "{type_name:?} is not registered in this space; there are {}",
                types.listed()
            );
            return Err(Invalid::new("type_unknown", "type", message));
        }
        None if unknown == UnknownType::TooMany => {
            let message = format!(
                "{type_name:?} is not registered in this space, and {MAX_TYPES} types are the most that it registers; \
                 use one of them with a tag"
            );
            return Err(Invalid::new("type_unknown", "type", message));
        }
        None => {
            let message = "the type was not registered; it is now, as an observation";
            warnings.push(Warning::new("type_unknown", message, type_name.as_str(), "observation"));
            let new = registers.insert(TypePolicy::of(Class::Insight));
            ObservationType::from(&*new).default_ttl
        }
    };

    let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), trust);
    fields.source = source;
    fields.body = content(input.content, &mut warnings)?;
    fields.title = title(input.title.unwrap_or_default(), &mut warnings)?;
    fields.confidence = Some(confidence(input.confidence.as_ref(), &mut warnings)?);
    fields.tags = Tag::parse_all(input.tags.iter().map(String::as_str))?;
    fields.lifetime = lifetime(
        &input.ttl_minutes,
        input.expires_at.as_deref(),
        default_ttl,
        now,
        &mut warnings,
    )?;
    if let Some(owner) = input.owner {
        fields.owner = Owner::parse(&owner)?;
    }
    if let Some(status) = input.status {
        fields.status = Status::parse_in(&status, Family::Knowledge)
            .filter(|status| *status != Status::Archived)
            .ok_or_else(|| {
                Invalid::new(
                    "status_invalid",
                    "status",
                    format!("{status:?} is not active, pending_review or resolved"),
                )
            })?;
    }
    fields.context = input.context.map(check_context).transpose()?;
    fields.metadata = input.metadata.map(check_metadata).transpose()?;
    let claimed = add_claimed_id(input.claimed_source, input.claimed_id, &mut warnings);
    fields.claimed_source = claimed.and_then(|claimed| claim(claimed, &mut warnings));
    fields.type_name = Some(type_name);
    Ok(Draft {
        fields,
        warnings,
        registers,
    })
}

pub(super) fn type_invalid(name: &str) -> Invalid {
    let message = match name.len() {
        bytes if bytes > MAX_TYPE_BYTES => {
            format!("{name:?} has {bytes} bytes; a type name has at most {MAX_TYPE_BYTES}")
        }
        _ => format!("{name:?} is not a type name: a-z, 0-9 and _, beginning with a letter"),
    };
    Invalid::new("type_invalid", "type", message)
}

/// Returns a title that can be kept: one line, without NUL, and no longer than an item's title, because every listing
/// of entries reads it.
pub(super) fn title(text: String, warnings: &mut Vec<Warning>) -> Result<String, Invalid> {
    let line = one_line(&without_nul(text, warnings));
    check_title(&line)?;
    Ok(line)
}

/// Returns text that can be kept: NUL is removed with a warning, and the rest stays byte for byte.
pub(super) fn content(text: String, warnings: &mut Vec<Warning>) -> Result<String, Invalid> {
    let kept = without_nul(text, warnings);
    if is_blank(&kept) {
        return Err(Invalid::new("content_empty", "content", "is empty"));
    }
    check_text(&kept, "content")?;
    Ok(kept)
}

pub(super) fn confidence(raw: Option<&Value>, warnings: &mut Vec<Warning>) -> Result<Confidence, Invalid> {
    let number = match raw {
        None | Some(Value::Null) => return Ok(Confidence::DEFAULT),
        Some(Value::Number(number)) => number.as_f64().unwrap_or(f64::NAN),
        Some(Value::String(word)) => match Confidence::from_word(word) {
            Some(confidence) => return Ok(confidence),
            None => word.trim().parse().map_err(|_| confidence_invalid(raw))?,
        },
        Some(_) => return Err(confidence_invalid(raw)),
    };
    let (confidence, warning) = Confidence::clamped(number);
    // What is not finite is no number in JSON, so it was sent as a text: the warning repeats that.
    let given = raw.filter(|raw| raw.is_string() && !number.is_finite());
    warnings.extend(warning.map(|warning| match given {
        Some(given) => Warning::new(&warning.code, warning.message, given.clone(), warning.used),
        None => warning,
    }));
    Ok(confidence)
}

fn confidence_invalid(raw: Option<&Value>) -> Invalid {
    let raw_text = raw.map(Value::to_string).unwrap_or_default();
    Invalid::new(
        "confidence_invalid",
        "confidence",
        format!("{raw_text} is not a number from 0 to 1, low, medium or high"),
    )
}

/// Checks that a context is neither too deep nor too large, and brings its numbers into the one form by which they are
/// found.
pub(crate) fn check_context(context: Value) -> Result<Value, Invalid> {
    small_enough(context).map(normalize_numbers)
}

fn small_enough(context: Value) -> Result<Value, Invalid> {
    if depth_exceeds(&context, MAX_CONTEXT_DEPTH) {
        return Err(Invalid::new(
            "context_too_deep",
            "context",
            format!("is deeper than {MAX_CONTEXT_DEPTH} levels"),
        ));
    }
    within(context, MAX_CONTEXT_BYTES).map_err(|message| Invalid::new("context_too_large", "context", message))
}

/// Checks that metadata is not too large.
pub(crate) fn check_metadata(metadata: Value) -> Result<Value, Invalid> {
    within(metadata, MAX_METADATA_BYTES).map_err(|message| Invalid::new("metadata_too_large", "metadata", message))
}

/// Returns `value`, or a message if it has more than `max_bytes` bytes as JSON.
fn within(value: Value, max_bytes: usize) -> Result<Value, String> {
    match value.to_string().len() {
        bytes if bytes > max_bytes => Err(format!("has {bytes} bytes; the maximum is {max_bytes}")),
        _ => Ok(value),
    }
}

/// The claimed source, together with the id that was sent, if any.
fn add_claimed_id(claimed: Option<Value>, id: Option<String>, warnings: &mut Vec<Warning>) -> Option<Value> {
    let Some(id) = id else { return claimed };
    let message = "the space assigns its own ids; the one that was sent is kept in claimed_source";
    warnings.push(Warning::new("id_claimed", message, id.as_str(), "an id of the space"));
    let mut parts = match claimed {
        Some(Value::Object(parts)) => parts,
        None | Some(Value::Null) => Map::new(),
        Some(other) => Map::from_iter([("source".to_owned(), other)]),
    };
    parts.insert("observation_id".to_owned(), id.into());
    Some(parts.into())
}

/// Returns a claim that is no larger than a context may be. A larger one is dropped rather than refusing the
/// observation.
fn claim(claimed: Value, warnings: &mut Vec<Warning>) -> Option<Value> {
    match small_enough(claimed) {
        Ok(claimed) => Some(claimed).filter(|claimed| !claimed.is_null()),
        Err(invalid) => {
            let message = format!("the claimed source was left out: it {}", invalid.message);
            warnings.push(Warning::new("claimed_source_dropped", message, "source", "nothing"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn drafted(input: Value) -> Result<Draft, Invalid> {
        let input: ObservationInput = serde_json::from_value(input).unwrap();
        draft(
            input,
            &TypeRegistry::default(),
            UnknownType::Registered,
            Trust::ToolInternal,
            Source::default(),
            NOW,
        )
    }

    fn check_ttl(input: Value, end: Option<i64>, warning: Option<&str>) {
        let draft = drafted(input).unwrap();
        let wanted = end.map(|after| Timestamp::from_millis(1_000_000 + after));
        assert_eq!(draft.fields.lifetime.expires_at(), wanted);
        assert_eq!(draft.warnings.first().map(|w| w.code.as_str()), warning);
    }

    #[test]
    fn warning_repeats_a_confidence_that_is_not_finite_as_it_was_given() {
        for given in ["Infinity", "-inf", "NaN", "1e999"] {
            let draft = drafted(json!({"content": "x", "confidence": given})).unwrap();
            assert_eq!(draft.warnings[0].given, given);
        }
    }

    #[test]
    fn observation_has_a_default_owner_status_type_and_confidence_m7_3_22() {
        let draft = drafted(json!({"content": "x"})).unwrap();
        assert_eq!(draft.fields.owner, Owner::agent());
        assert_eq!(draft.fields.status, Status::Active);
        assert_eq!(draft.fields.confidence, Some(Confidence::DEFAULT));
        assert_eq!(draft.fields.type_name.as_deref(), Some("observation"));
        assert_eq!(draft.warnings, []);
    }

    #[test]
    fn overlarge_context_or_metadata_is_refused() {
        let of = |field: &str, bytes: usize| drafted(json!({"content": "x", field: {"a": "b".repeat(bytes - 8)}}));
        for (field, most) in [("context", MAX_CONTEXT_BYTES), ("metadata", MAX_METADATA_BYTES)] {
            assert!(of(field, most).is_ok(), "{field}");
            assert_eq!(of(field, most + 1).unwrap_err().code, format!("{field}_too_large"));
        }
    }

    #[test]
    fn ttl_minutes_accepts_fractions_of_a_minute_m7_1_2() {
        check_ttl(json!({"content": "x", "ttl_minutes": 1}), Some(60_000), None);
        check_ttl(json!({"content": "x", "ttl_minutes": 0.5}), Some(30_000), None);
        check_ttl(json!({"content": "x", "ttl_minutes": 0}), Some(0), None);
        // Exact to a millisecond.
        check_ttl(json!({"content": "x", "ttl_minutes": 0.000_02}), Some(1), None);
        check_ttl(json!({"content": "x", "ttl_minutes": 0.000_008}), Some(0), None);
    }

    #[test]
    fn invalid_ttl_becomes_the_default_with_a_warning_m7_1_4() {
        let (week, year) = (7 * 24 * 60 * 60 * 1000, 365 * 24 * 60 * 60 * 1000);
        check_ttl(json!({"content": "x", "ttl_minutes": 525_600}), Some(year), None);
        for bad in [
            json!(-1),
            json!(-0.001),
            json!(525_600.1),
            json!(576_000),
            json!("soon"),
            json!("NaN"),
            json!("inf"),
            json!([1]),
        ] {
            check_ttl(
                json!({"content": "x", "ttl_minutes": bad}),
                Some(week),
                Some("ttl_invalid"),
            );
        }
    }

    #[test]
    fn expires_at_has_the_same_limits_as_ttl_minutes_m7_1_4() {
        let at = |millis: i64| Timestamp::from_millis(1_000_000 + millis).to_string();
        let (week, year) = (7 * 24 * 60 * 60 * 1000, 365 * 24 * 60 * 60 * 1000);
        let ends = |millis| json!({"content": "x", "expires_at": at(millis)});
        check_ttl(ends(year), Some(year), None);
        check_ttl(ends(year + 1), Some(week), Some("ttl_invalid"));
        check_ttl(ends(0), Some(0), None);
        check_ttl(ends(-1), Some(-1), Some("expires_at_past"));
        // The end that many programs write for "never", and one before every instant that can be represented.
        let never = json!({"content": "x", "expires_at": "9999-12-31T23:59:59Z"});
        check_ttl(never, Some(week), Some("ttl_invalid"));
        let draft = drafted(json!({"content": "x", "expires_at": "0001-01-01T00:00:00Z"})).unwrap();
        assert_eq!(draft.fields.lifetime.expires_at(), Some(Timestamp::MIN));
        assert_eq!(draft.warnings[0].code, "expires_at_past");
    }

    #[test]
    fn omitted_ttl_means_default_and_null_means_unlimited_m7_1_5() {
        check_ttl(json!({"content": "x"}), Some(7 * 24 * 60 * 60 * 1000), None);
        check_ttl(json!({"content": "x", "ttl_minutes": null}), None, None);
        check_ttl(json!({"content": "x", "ttl_minutes": "never"}), None, None);
    }

    #[test]
    fn earlier_of_ttl_and_expires_at_is_used_m7_1_2() {
        let input = json!({"content": "x", "ttl_minutes": 1, "expires_at": "1970-06-01T00:00:00Z"});
        check_ttl(input, Some(60_000), Some("ttl_and_expires_at"));
    }

    #[test]
    fn invalid_observation_fields_are_refused_with_their_codes() {
        let cases = [
            (json!({"content": "  "}), "content_empty"),
            (json!({"content": "\u{200b} \u{feff}"}), "content_empty"),
            (json!({"content": "x", "type": "No Such"}), "type_invalid"),
            (json!({"content": "x", "type": "a".repeat(65)}), "type_invalid"),
            (json!({"content": "x", "confidence": {}}), "confidence_invalid"),
            (json!({"content": "x", "tags": [""]}), "tag_invalid"),
            (json!({"content": "x", "title": "x".repeat(513)}), "title_too_long"),
            (
                json!({"content": "x".repeat(crate::entry::MAX_TEXT_BYTES + 1)}),
                "content_too_large",
            ),
            (
                json!({"content": "x", "context": [[[[[[[[[1]]]]]]]]]}),
                "context_too_deep",
            ),
        ];
        for (input, code) in cases {
            assert_eq!(drafted(input).unwrap_err().code, code);
        }
        assert!(drafted(json!({"content": "x", "title": "x".repeat(512)})).is_ok());
    }

    #[test]
    fn unknown_type_is_registered_with_a_warning_or_refused_m7_3_22() {
        let input = json!({"content": "x", "type": "weather"});
        let open = drafted(input.clone()).unwrap();
        assert_eq!(open.warnings[0].code, "type_unknown");
        assert_eq!(open.fields.type_name.as_deref(), Some("weather"));
        assert_eq!(open.registers, Some(TypePolicy::of(Class::Insight)));
        let (types, strict) = (TypeRegistry::default(), UnknownType::Refused);
        let input = serde_json::from_value(input).unwrap();
        let refused = draft(input, &types, strict, Trust::ToolInternal, Source::default(), NOW);
        assert_eq!(refused.unwrap_err().code, "type_unknown");
    }

    #[test]
    fn no_more_types_are_registered_than_a_policy_may_have_m7_3_22() {
        let mut policy = SpacePolicy::default();
        let under = |policy: &SpacePolicy| UnknownType::under(policy, Role::Human);
        for n in 0..MAX_TYPES {
            assert_eq!(under(&policy), UnknownType::Registered);
            policy
                .types
                .register(&format!("type_{n}"), TypePolicy::of(Class::Insight));
        }
        policy.check().unwrap();
        let types = TypeRegistry::of(&policy);
        let drafted = |name: &str| {
            let input = serde_json::from_value(json!({"content": "x", "type": name})).unwrap();
            draft(input, &types, under(&policy), Trust::User, Source::default(), NOW)
        };
        assert_eq!(drafted("weather").unwrap_err().code, "type_unknown");
        assert!(drafted("type_7").is_ok() && drafted("alert").is_ok());
    }

    #[test]
    fn several_observations_register_no_more_types_together_than_one_by_one_m7_3_22() {
        let mut policy = SpacePolicy::default();
        for n in 2..MAX_TYPES {
            policy
                .types
                .register(&format!("type_{n}"), TypePolicy::of(Class::Insight));
        }
        let (types, mut new) = (TypeRegistry::of(&policy), NewTypes::default());
        let mut drafted = |name: &str| {
            let input: ObservationInput = serde_json::from_value(json!({"content": "x", "type": name})).unwrap();
            let unknown = new.unknown_type(&policy, Role::Human, &input);
            let drafted = draft(input, &types, unknown, Trust::User, Source::default(), NOW);
            drafted
                .inspect(|draft| new.note(draft))
                .map(|_| ())
                .map_err(|invalid| invalid.code == "type_unknown")
        };
        let (fine, refused) = (Ok(()), Err(true));
        let told = ["wind", "rain", "snow", "wind", "type_7", "rain", "hail"].map(&mut drafted);
        assert_eq!(told, [fine, fine, refused, fine, fine, fine, refused]);
    }

    #[test]
    fn source_in_the_input_is_kept_only_as_claimed_source_m7_3_31() {
        let claim = json!({"tool": "bank", "turn_id": "t9"});
        for name in ["source", "claimed_source"] {
            let draft = drafted(json!({"content": "x", name: claim})).unwrap();
            assert_eq!(draft.fields.claimed_source.as_ref(), Some(&claim));
            assert_eq!((draft.fields.source, draft.warnings), (Source::default(), Vec::new()));
        }
        let draft = drafted(json!({"content": "x", "source": "y".repeat(17 * 1024)})).unwrap();
        assert_eq!(draft.fields.claimed_source, None);
        assert_eq!(draft.warnings[0].code, "claimed_source_dropped");
    }

    #[test]
    fn observation_is_accepted_in_the_form_of_seed_002() {
        let draft = drafted(json!({
            "observation_id": "obs_20251105_001", "type": "contextual_insight", "content": "User prefers Burgundy wines",
            "confidence": "HIGH", "tags": ["wine", "preference", "user_profile"],
            "source": {"tool": "wine_search", "turn_id": "turn_20251105_001", "timestamp": "2025-11-05T10:30:00Z"},
            "context": {"goal_id": "find_wine_recommendation", "user_id": "user_123"}, "ttl_minutes": 1440,
        }))
        .unwrap();
        let claimed = draft.fields.claimed_source.unwrap();
        assert_eq!(
            (&claimed["tool"], &claimed["observation_id"]),
            (&json!("wine_search"), &json!("obs_20251105_001"))
        );
        let warned: Vec<_> = draft.warnings.iter().map(|warning| warning.code.as_str()).collect();
        assert_eq!(warned, ["id_claimed"]);
        assert_eq!(draft.fields.confidence, Confidence::from_word("high"));
    }

    #[test]
    fn nul_is_removed_from_observation_content_with_a_warning_m7_3_29() {
        let draft = drafted(json!({"content": "a\u{0}b"})).unwrap();
        assert_eq!(draft.fields.body, "ab");
        assert_eq!(draft.warnings[0].code, "nul_removed");
    }
}
