//! Manifests: what a tool may add to the scratch page, and what it may see there. The section `manifests` of a policy
//! (M7.3.23).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::known_tools;
use crate::actor::Trust;
use crate::entry::{EntryFields, Lifetime, Tag};
use crate::from_object::read_from_an_object;
use crate::observation::{ObservationInput, TtlInput, TypeRegistry};
use crate::policy::MAX_TTL_MINUTES;
use crate::time::Timestamp;
use crate::warning::{Invalid, Warning};

/// The types that a tool without a manifest may add (seed 004).
const USUAL: [&str; 4] = [
    "contextual_insight",
    "observation",
    "action_suggestion",
    "pattern_detected",
];
/// Means every registered type.
const ANY: &str = "*";
/// The maximum number of items of one call unless a manifest sets another.
const MAX_PER_CALL: usize = 100;

/// The manifest of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct ToolManifest {
    /// The types of observations that the tool may add; `*` for every type of the space.
    pub observes: Vec<String>,
    /// What the tool may see.
    pub reads: ReadScope,
    /// The maximum number of items of one answer.
    pub max_per_call: usize,
    /// The longest lifetime that the tool may give, in minutes. Also accepted as `ttl_max`.
    #[serde(alias = "ttl_max")]
    pub ttl_max_minutes: Option<u32>,
    /// Whether the tool's observations may hold forever.
    pub may_never_expire: bool,
    /// Whether the tool reads what strangers wrote, so that what it adds is trusted less. If left out, this is true for
    /// tools of servers, which are called `SERVER.TOOL` or `mcp__SERVER__TOOL`, and for tools that are known to read
    /// the web (`http_get`, `WebFetch`), and false for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
}

/// The part of the scratch page that somebody may see. An empty list restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct ReadScope {
    /// Only observations of one of these types.
    pub types: Vec<String>,
    /// Only observations with one of these tags.
    #[serde(deserialize_with = "canonical_tags")]
    pub tags: Vec<Tag>,
}

read_from_an_object!(ToolManifest, ReadScope);

/// Reads tags in the form that entries have them in, each once. A tag that cannot be one is kept for
/// [`ManifestsPolicy::mistakes`] to name: a policy that was set before must stay readable.
fn canonical_tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Tag>, D::Error> {
    let mut tags = Vec::new();
    for written in Vec::<Tag>::deserialize(deserializer)? {
        let tag = Tag::parse(written.as_str()).unwrap_or(written);
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Ok(tags)
}

impl Default for ToolManifest {
    fn default() -> Self {
        Self {
            observes: USUAL.map(str::to_owned).to_vec(),
            reads: ReadScope::default(),
            max_per_call: MAX_PER_CALL,
            ttl_max_minutes: None,
            may_never_expire: false,
            external: None,
        }
    }
}

/// How a lifetime was requested, with the value as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// Not at all: that of the type is used.
    Unsaid,
    /// In minutes.
    Minutes(Value),
    /// As an instant, or in both ways.
    Instant(Value),
}

impl Bound {
    /// How `input` requests its lifetime.
    #[must_use]
    pub fn of(input: &ObservationInput) -> Self {
        match (&input.ttl_minutes, &input.expires_at) {
            (TtlInput::Absent, None) => Self::Unsaid,
            (minutes, None) => Self::Minutes(json!(minutes)),
            (TtlInput::Absent, Some(end)) => Self::Instant(json!(end)),
            (minutes, Some(end)) => Self::Instant(json!({"ttl_minutes": minutes, "expires_at": end})),
        }
    }

    /// The warning that `end` is used instead, in the unit of the request. There is no warning if no lifetime was
    /// requested.
    fn warning(&self, code: &str, message: &str, end: Timestamp, now: Timestamp) -> Option<Warning> {
        let (given, used) = match self {
            Self::Unsaid => return None,
            Self::Minutes(given) => (given, json!(end.since(now).as_secs() / 60)),
            Self::Instant(given) => (given, json!(end.to_string())),
        };
        Some(Warning::new(code, message, given.clone(), used))
    }
}

impl ToolManifest {
    /// How far to believe what the tool adds.
    #[must_use]
    pub fn trust(&self) -> Trust {
        match self.external {
            Some(true) => Trust::ToolExternal,
            Some(false) | None => Trust::ToolInternal,
        }
    }

    /// Whether the tool may add an observation of type `name`.
    #[must_use]
    pub fn observes(&self, name: &str) -> bool {
        self.observes.iter().any(|known| known == name || known == ANY)
    }

    /// Refuses an observation of a type `name` that the tool, whose manifest this is, has not declared (M7.3.23).
    ///
    /// # Errors
    ///
    /// `type_undeclared`, with what declares it.
    pub fn check_observes(&self, tool: &str, name: &str) -> Result<(), Invalid> {
        if self.observes(name) {
            return Ok(());
        }
        let mut all = self.observes.clone();
        all.push(name.to_owned());
        // A dot in the name would end a key.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let remedy = if !tool.is_empty() && tool.chars().all(is_plain) {
            format!(
                "`folio policy set manifests.{tool}.observes='{}'` declares it",
                json!(all)
            )
        } else {
            let manifest = json!({"manifests": {tool: {"observes": all}}});
            format!("a policy with {manifest} declares it")
        };
        let message = format!("the tool has not declared that it adds observations of type {name:?}; {remedy}");
        Err(Invalid::new("type_undeclared", "type", message))
    }

    /// Limits the lifetime of `fields` to what is declared, with a warning if the request was for more.
    pub fn bound(
        &self,
        fields: &mut EntryFields,
        requested: &Bound,
        default_ttl: Option<Duration>,
        now: Timestamp,
    ) -> Option<Warning> {
        let longest = self.ttl_max_minutes.map(minutes);
        let mut until = fields.lifetime.expires_at();
        let mut notice = None;
        if until.is_none() && !(self.may_never_expire && longest.is_none()) {
            let ttl = default_ttl.unwrap_or_else(|| minutes(MAX_TTL_MINUTES));
            until = Some(now.plus(ttl));
            notice = Some(("ttl_never", "the tool may not add observations that never expire"));
        }
        if let (Some(end), Some(longest)) = (until, longest)
            && end > now.plus(longest)
        {
            until = Some(now.plus(longest));
            notice = Some(("ttl_over_manifest", "longer than the tool may request"));
        }
        let ((code, message), end) = (notice?, until?);
        fields.lifetime = Lifetime::Until(end);
        requested.warning(code, message, end, now)
    }
}

/// Manifests by tool name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ManifestsPolicy(BTreeMap<String, ToolManifest>);

impl ManifestsPolicy {
    /// Whether there is no manifest.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The manifest of `tool`. The tool `observe` adds what a plan wrote down, so without a manifest it may add every
    /// type; any other tool without a manifest may add the usual four. `external` is always set.
    #[must_use]
    pub fn of(&self, tool: &str) -> ToolManifest {
        let mut manifest = match self.0.get(tool) {
            Some(manifest) => manifest.clone(),
            None if tool == "observe" => ToolManifest {
                observes: vec![ANY.to_owned()],
                max_per_call: 1_000,
                may_never_expire: true,
                ..ToolManifest::default()
            },
            None => ToolManifest::default(),
        };
        manifest
            .external
            .get_or_insert_with(|| known_tools::reads_strangers(tool));
        manifest
    }

    /// Whether results of `tool` may be quoted where a model takes them for its own notes: if the manifest says that it
    /// is not external, or if it says nothing and the tool is known to answer from this machine only (M7.8 V11).
    #[must_use]
    pub fn may_be_quoted(&self, tool: &str) -> bool {
        let declared = self.0.get(tool).and_then(|manifest| manifest.external);
        declared.map_or_else(|| known_tools::is_local(tool), |is_external| !is_external)
    }

    /// Refuses an observation of type `name` that `tool` adds by itself against its manifest. Without a manifest every
    /// type is allowed, because whoever let the tool write trusts it; the usual four types limit only what comes along
    /// with an answer (M7.3.23, M7.7).
    ///
    /// # Errors
    ///
    /// `type_undeclared`.
    pub fn check_adds(&self, tool: &str, name: &str) -> Result<(), Invalid> {
        match self.0.get(tool) {
            Some(manifest) => manifest.check_observes(tool, name),
            None => Ok(()),
        }
    }

    /// What is wrong with the manifests: invalid names of types, invalid tags, impossible limits.
    pub(crate) fn mistakes(&self) -> Vec<Invalid> {
        self.0
            .iter()
            .flat_map(|(tool, manifest)| manifest.mistakes_of(tool))
            .map(|message| Invalid::new("policy_invalid", "manifests", message))
            .collect()
    }
}

impl ToolManifest {
    fn mistakes_of(&self, tool: &str) -> Vec<String> {
        let mut all = Vec::new();
        let names = self.observes.iter().chain(&self.reads.types);
        let wrong_names = names.filter(|name| *name != ANY && !TypeRegistry::is_well_formed(name));
        all.extend(wrong_names.map(|name| format!("{name:?} of {tool} is not a type name")));
        let wrong_tags = self.reads.tags.iter().filter_map(|tag| Tag::parse(tag.as_str()).err());
        all.extend(wrong_tags.map(|invalid| format!("{} (reads.tags of {tool})", invalid.message)));
        if self.max_per_call > 10_000 {
            all.push(format!("{} items of {tool} are more than 10000", self.max_per_call));
        }
        if self.ttl_max_minutes.is_some_and(|minutes| minutes > MAX_TTL_MINUTES) {
            all.push(format!("the lifetime of {tool} is more than {MAX_TTL_MINUTES} minutes"));
        }
        all
    }
}

fn minutes(minutes: u32) -> Duration {
    Duration::from_secs(u64::from(minutes) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{EntryKind, Owner};

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn manifests(value: Value) -> ManifestsPolicy {
        serde_json::from_value(value).unwrap()
    }

    fn bounded(manifest: &ToolManifest, lifetime: Lifetime) -> (Lifetime, Option<String>) {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::ToolInternal);
        fields.lifetime = lifetime;
        let asked = Bound::Minutes(json!("as long as it was sent"));
        let warning = manifest.bound(&mut fields, &asked, Some(minutes(10)), NOW);
        let given = warning.as_ref().map(|warning| &warning.given);
        assert!(given.is_none_or(|given| given == "as long as it was sent"));
        (fields.lifetime, warning.map(|warning| warning.code))
    }

    #[test]
    fn tool_without_a_manifest_may_add_only_the_usual_types_m7_3_23() {
        let manifest = manifests(json!({})).of("wine_search");
        let may = |name| manifest.observes(name);
        assert!(USUAL.into_iter().all(may));
        assert!(!may("risk_alert") && !may("alert") && !may("pending_confirmation"));
        assert_eq!((manifest.max_per_call, manifest.may_never_expire), (100, false));
    }

    #[test]
    fn undeclared_type_is_refused_with_the_command_that_declares_it() {
        let short = manifests(json!({"mail": {"observes": ["alert"]}, "desk.mail": {"observes": ["alert"]}}));
        let refusal = |tool: &str| {
            let refused = short.of(tool).check_observes(tool, "tide").unwrap_err();
            refused.message.split_once("; ").unwrap().1.to_owned()
        };
        let command = r#"`folio policy set manifests.mail.observes='["alert","tide"]'` declares it"#;
        assert_eq!(refusal("mail"), command);
        // A key that is made of names and dots could not say which dot belongs to the name.
        let document = r#"a policy with {"manifests":{"desk.mail":{"observes":["alert","tide"]}}} declares it"#;
        assert_eq!(refusal("desk.mail"), document);
    }

    #[test]
    fn manifest_permits_types_only_for_its_own_tool_m7_3_23() {
        let all = manifests(json!({"email": {"observes": ["alert"]}, "any": {"observes": ["*"]}}));
        assert!(all.of("email").observes("alert") && !all.of("email").observes("observation"));
        assert!(all.of("any").observes("weather") && !all.of("other").observes("alert"));
    }

    #[test]
    fn manifest_limits_the_lifetime_with_a_warning_m7_3_23() {
        let until = |after| Lifetime::Until(NOW.plus(minutes(after)));
        let usual = ToolManifest::default();
        assert_eq!(bounded(&usual, until(5)), (until(5), None));
        assert_eq!(
            bounded(&usual, Lifetime::Unlimited),
            (until(10), Some("ttl_never".to_owned()))
        );
        let short = ToolManifest {
            ttl_max_minutes: Some(7),
            may_never_expire: true,
            ..ToolManifest::default()
        };
        assert_eq!(bounded(&short, until(7)), (until(7), None));
        for long in [until(8), Lifetime::Unlimited] {
            assert_eq!(bounded(&short, long), (until(7), Some("ttl_over_manifest".to_owned())));
        }
        let free = ToolManifest {
            may_never_expire: true,
            ..ToolManifest::default()
        };
        assert_eq!(bounded(&free, Lifetime::Unlimited), (Lifetime::Unlimited, None));
    }

    #[test]
    fn lifetime_warning_gives_both_values_in_the_unit_sent_m7_1_4() {
        let short = manifests(json!({"scan": {"ttl_max": 7}})).of("scan");
        let warned = |item: Value| {
            let input = ObservationInput::from_json(&item).unwrap();
            let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::ToolInternal);
            fields.lifetime = Lifetime::Until(NOW.plus(minutes(60)));
            let warning = short.bound(&mut fields, &Bound::of(&input), None, NOW);
            warning.map(|warning| (warning.given, warning.used))
        };
        let end = NOW.plus(minutes(7)).to_string();
        assert_eq!(
            warned(json!({"content": "x", "ttl_minutes": 60})),
            Some((json!(60), json!(7)))
        );
        assert_eq!(
            warned(json!({"content": "x", "expires_at": "2031-01-01T00:00:00Z"})),
            Some((json!("2031-01-01T00:00:00Z"), json!(end)))
        );
        assert_eq!(warned(json!({"content": "x"})), None);
    }

    #[test]
    fn external_tools_have_less_trust_than_internal_ones_m7_8_v11() {
        let all = manifests(json!({
            "web": {"external": true}, "desk.search": {"external": false}, "desk.read": {"observes": ["*"]}, "email": {},
        }));
        for (tool, trust) in [
            ("web", Trust::ToolExternal),
            ("desk.search", Trust::ToolInternal),
            ("desk.read", Trust::ToolExternal),
            ("maps.find", Trust::ToolExternal),
            ("http_get", Trust::ToolExternal),
            // As agent programs call them.
            ("mcp__gmail__read_email", Trust::ToolExternal),
            ("WebFetch", Trust::ToolExternal),
            ("WebSearch", Trust::ToolExternal),
            ("web_search", Trust::ToolExternal),
            ("google_web_search", Trust::ToolExternal),
            ("Bash", Trust::ToolInternal),
            ("__init__", Trust::ToolInternal),
            ("search", Trust::ToolInternal),
            ("email", Trust::ToolInternal),
            ("observe", Trust::ToolInternal),
            ("", Trust::ToolInternal),
        ] {
            assert_eq!(all.of(tool).trust(), trust, "{tool}");
        }
        let written = serde_json::to_value(&all).unwrap();
        assert!(written["email"].get("external").is_none(), "{written}");
    }

    #[test]
    fn only_known_local_tools_and_those_declared_so_are_quoted_m7_8_v11() {
        let all = manifests(json!({
            "Bash": {"external": true}, "desk.search": {"external": false}, "crawl": {"external": false}, "email": {},
        }));
        for (tool, is_quoted) in [
            ("shell", true),
            ("Read", true),
            ("desk.search", true),
            ("crawl", true),
            ("Bash", false),
            ("email", false),
            ("read_email", false),
            ("WebFetch", false),
            ("mcp__gmail__read_email", false),
            ("", false),
        ] {
            assert_eq!(all.may_be_quoted(tool), is_quoted, "{tool}");
        }
    }

    #[test]
    fn tags_that_a_tool_may_see_are_those_of_entries_m7_3_28() {
        let all = manifests(json!({"x": {"reads": {"tags": [" user  profile", "e\u{301}", "user_profile"]}}}));
        assert_eq!(all.of("x").reads.tags, Tag::parse_all(["user_profile", "é"]).unwrap());
        for wrong in ["sys:x", " ", "a\u{7}"] {
            let refused = manifests(json!({"x": {"reads": {"tags": [wrong]}}}))
                .mistakes()
                .remove(0);
            assert_eq!(
                (refused.code.as_str(), refused.field.as_str()),
                ("policy_invalid", "manifests")
            );
        }
    }

    #[test]
    fn invalid_manifest_is_refused() {
        for (field, wrong) in [
            ("observes", json!(["No Such"])),
            ("max_per_call", json!(10_001)),
            ("ttl_max_minutes", json!(525_601)),
        ] {
            let invalid = manifests(json!({"x": {field: wrong}})).mistakes().remove(0);
            assert_eq!(invalid.field, "manifests", "{field}");
            assert!(invalid.message.contains(" of x "), "{field}: {invalid}");
        }
        assert!(
            manifests(json!({"x": {"reads": {"types": ["alert"], "tags": ["wine"]}}}))
                .mistakes()
                .is_empty()
        );
        let misspelt = serde_json::from_value::<ManifestsPolicy>(json!({"x": {"observe": []}})).unwrap_err();
        assert!(
            misspelt.to_string().starts_with("unknown field `observe`"),
            "{misspelt}"
        );
    }
}
