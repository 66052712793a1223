//! Patterns without a model (M7.9): what was noticed again and again, turn after turn.
//!
//! Observations are grouped by class, tags and context, and within such a group by near-duplicate text. Three in two
//! turns are a pattern. How sure it is: the lower Wilson bound of "seen in a turn", among the turns in which its group was
//! looked at, times the mean confidence of its members. So a rival with the same tags makes a pattern less sure.

mod shingles;

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use self::shingles::{Clusters, Sketch};
use crate::actor::{Source, Trust};
use crate::canonical::canonical;
use crate::entry::{Confidence, Entry, EntryFields, EntryKind, Owner, Status, Tag};
use crate::observation::{Class, TypeRegistry};
use crate::time::Timestamp;
use crate::turn::Used;

/// The type of a pattern.
pub const PATTERN: &str = "pattern_detected";
/// The type of a fact that follows from a pattern.
pub const FACT: &str = "learning";
/// The channel by which patterns and facts are known, so that they are no members of other patterns.
pub const CHANNEL: &str = "reflection";
/// Members that make a pattern.
pub const MEMBERS_MIN: usize = 3;
/// Turns in which its members must have been seen.
pub const TURNS_MIN: usize = 2;
/// Turns in which a pattern must have been seen for a fact to follow from it.
pub const FACT_TURNS_MIN: usize = 3;
/// 95 %.
const Z: f64 = 1.96;

/// Keys of a context that differ from one time to the next and say nothing of what it is about.
const FLEETING: &[&str] = &["pending_action_id", "request_id", "run_id", "timestamp", "turn_id"];

/// Words by which texts that look alike say the opposite.
const NEGATIONS: &[&str] = &[
    "against", "avoid", "avoids", "cannot", "dislike", "dislikes", "failed", "fails", "false", "hate", "hates", "isn",
    "kein", "keine", "never", "nicht", "no", "none", "not", "refuse", "refuses", "without", "wrong",
];

/// A pattern as the observations have it now.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FoundPattern")]
pub struct Found {
    /// Names the group: class, tags and context.
    pub group: String,
    /// The observations, oldest first.
    pub members: Vec<Used>,
    /// In how many turns they were seen.
    pub turns: usize,
    /// Among how many turns in which the group was looked at.
    pub of_turns: usize,
    /// The first sighting.
    pub first_at: Timestamp,
    /// The last sighting.
    pub last_at: Timestamp,
    /// The most recent wording.
    pub text: String,
    /// The tags that all have.
    pub tags: Vec<Tag>,
    /// What all are about.
    pub context: Option<Value>,
    /// How sure it is.
    pub confidence: Confidence,
    /// The least trust of its members.
    pub trust: Trust,
    /// The entries that say so already, as they were read; a new one takes their place. More than one if two turns ended
    /// at the same moment.
    pub replaces: Vec<Used>,
    /// The facts that follow from it already, as they were read.
    pub replaces_facts: Vec<Used>,
    /// Whether it says something that no entry says yet.
    pub is_news: bool,
}

/// Finds the patterns among `observations`, oldest groups first.
///
/// What was replaced or erased does not count, nor do patterns and facts themselves. Those that are among `observations` are compared
/// with what is found: a pattern with the same members is no news, one with others is to be replaced.
#[must_use]
pub fn find(observations: &[Entry], types: &TypeRegistry) -> Vec<Found> {
    let mut groups: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    let mut known: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in observations {
        let fields = &entry.fields;
        if entry.kind != EntryKind::Observation || fields.superseded_by.is_some() || fields.erased.is_some() {
            continue;
        }
        if is_reflection(entry) {
            if entry.fields.status != Status::Archived {
                known.entry(said_group(entry)).or_default().push(entry);
            }
        } else if types.class_of(entry.fields.type_name.as_deref()) != Class::Pattern {
            groups.entry(group_of(entry, types)).or_default().push(entry);
        }
    }
    let mut found = Vec::new();
    for (group, mut entries) in groups {
        if entries.len() < MEMBERS_MIN {
            continue;
        }
        entries.sort_by_key(|entry| entry.handle);
        let all_turns: BTreeSet<String> = entries.iter().filter_map(|entry| occasion(entry)).collect();
        let mut clusters = Clusters::default();
        for (index, entry) in entries.iter().enumerate() {
            clusters.add(index, Sketch::of(&entry.fields.body, NEGATIONS));
        }
        let mut of_group = Vec::new();
        for members in clusters.into_members() {
            let members: Vec<_> = members.into_iter().map(|index| entries[index]).collect();
            if let Some(pattern) = of_members(&group, &members, all_turns.len()) {
                of_group.push(Sighted::of(pattern, &members));
            }
        }
        found.extend(compared(of_group, known.get(&group).map_or(&[][..], Vec::as_slice)));
    }
    found.sort_by_key(|pattern| pattern.members.first().map(|first| first.handle));
    found
}

impl Found {
    /// The fields of the observation that says it, from whoever `source` is.
    #[must_use]
    pub fn fields(&self, source: Source) -> EntryFields {
        self.said(PATTERN, source)
    }

    /// The fields of the fact that follows from it, if it was seen often enough.
    #[must_use]
    pub fn fact(&self, source: Source) -> Option<EntryFields> {
        (self.turns >= FACT_TURNS_MIN).then(|| self.said(FACT, source))
    }

    fn said(&self, type_name: &str, source: Source) -> EntryFields {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), self.trust);
        fields.type_name = Some(type_name.to_owned());
        fields.body.clone_from(&self.text);
        fields.tags.clone_from(&self.tags);
        fields.context.clone_from(&self.context);
        fields.confidence = Some(self.confidence);
        fields.source = Source {
            channel: Some(CHANNEL.to_owned()),
            ..source
        };
        fields.metadata = Some(json!({
            "group": self.group,
            "members": members_hash(&self.members),
            "count": self.members.len(),
            "turns": self.turns,
            "of_turns": self.of_turns,
            "first_at": self.first_at,
            "last_at": self.last_at,
        }));
        fields
    }
}

/// Whether `entry` is a pattern or a fact that was found here.
#[must_use]
pub fn is_reflection(entry: &Entry) -> bool {
    entry.fields.source.channel.as_deref() == Some(CHANNEL)
}

/// The lower bound of the share that `seen` of `of` stands for, with 95 % certainty.
#[must_use]
pub fn wilson_lower(seen: usize, of: usize) -> f64 {
    if of == 0 {
        return 0.0;
    }
    let (seen, n) = (count(seen), count(of));
    let share = seen / n;
    let z2 = Z * Z;
    let middle = share + z2 / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - spread) / (1.0 + z2 / n)).clamp(0.0, 1.0)
}

fn of_members(group: &str, members: &[&Entry], of_turns: usize) -> Option<Found> {
    let turns: BTreeSet<_> = members.iter().filter_map(|entry| occasion(entry)).collect();
    let (first, last) = (members.first()?, members.last()?);
    if members.len() < MEMBERS_MIN || turns.len() < TURNS_MIN {
        return None;
    }
    let stated = |entry: &&Entry| entry.fields.confidence.map_or(0.0, Confidence::value);
    let mean = members.iter().map(stated).sum::<f64>() / count(members.len());
    Some(Found {
        group: group.to_owned(),
        members: members.iter().map(|entry| Used::of(entry)).collect(),
        turns: turns.len(),
        of_turns,
        first_at: first.created_at,
        last_at: last.created_at,
        text: last.fields.body.trim().to_owned(),
        tags: sorted_tags(last),
        context: common_context(last),
        confidence: Confidence::clamped(wilson_lower(turns.len(), of_turns) * mean).0,
        trust: members.iter().map(|entry| entry.fields.trust).min()?,
        replaces: Vec::new(),
        replaces_facts: Vec::new(),
        is_news: true,
    })
}

/// A pattern with the texts of its members and the entries that said it earlier.
struct Sighted<'e> {
    pattern: Found,
    texts: BTreeSet<&'e str>,
    sketch: Sketch,
    earlier: Vec<&'e Entry>,
}

impl<'e> Sighted<'e> {
    fn of(pattern: Found, members: &[&'e Entry]) -> Self {
        Self {
            texts: members.iter().map(|entry| entry.fields.body.trim()).collect(),
            sketch: Sketch::of(&pattern.text, NEGATIONS),
            pattern,
            earlier: Vec::new(),
        }
    }

    fn compared(self) -> Found {
        let Self {
            mut pattern, earlier, ..
        } = self;
        let of_type = |name: &str| -> Vec<&Entry> {
            let of_type = earlier
                .iter()
                .filter(|entry| entry.fields.type_name.as_deref() == Some(name));
            of_type.copied().collect()
        };
        pattern.replaces_facts = of_type(FACT).into_iter().map(Used::of).collect();
        let patterns = of_type(PATTERN);
        if let [only] = patterns[..] {
            let metadata = only.fields.metadata.as_ref();
            let same = |key: &str, value: Value| metadata.and_then(|metadata| metadata.get(key)) == Some(&value);
            let known =
                same("members", json!(members_hash(&pattern.members))) && same("of_turns", json!(pattern.of_turns));
            pattern.is_news = !known;
        }
        pattern.replaces = patterns.into_iter().map(Used::of).collect();
        pattern
    }
}

/// `patterns` beside the entries of their group that were found earlier. Each of those said one of them: the one of which a member
/// says the same, or else the first whose text is like it. Two cannot take the place of one entry.
fn compared<'e>(mut patterns: Vec<Sighted<'e>>, known: &[&'e Entry]) -> Vec<Found> {
    for entry in known {
        let text = entry.fields.body.trim();
        let said = patterns.iter().position(|one| one.texts.contains(text)).or_else(|| {
            let sketch = Sketch::of(text, NEGATIONS);
            patterns.iter().position(|one| one.sketch.is_like(&sketch))
        });
        if let Some(at) = said {
            patterns[at].earlier.push(*entry);
        }
    }
    patterns.into_iter().map(Sighted::compared).collect()
}

fn said_group(entry: &Entry) -> String {
    let group = entry
        .fields
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.get("group"));
    group.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Names of class, tags and context, so that what has them in common has one name.
fn group_of(entry: &Entry, types: &TypeRegistry) -> String {
    let class = types.class_of(entry.fields.type_name.as_deref());
    let tags: Vec<_> = sorted_tags(entry).iter().map(ToString::to_string).collect();
    let content = json!([format!("{class:?}"), tags, common_context(entry)]);
    digest(&canonical(content).to_string())
}

fn sorted_tags(entry: &Entry) -> Vec<Tag> {
    let tags: BTreeSet<_> = entry.fields.tags.iter().cloned().collect();
    tags.into_iter().collect()
}

/// The texts, numbers and truths at the top of a context, without what is different every time.
fn common_context(entry: &Entry) -> Option<Value> {
    let Some(Value::Object(context)) = &entry.fields.context else {
        return None;
    };
    let kept: BTreeMap<_, _> = context
        .iter()
        .filter(|(key, value)| !FLEETING.contains(&key.as_str()) && !value.is_object() && !value.is_array())
        .collect();
    (!kept.is_empty()).then(|| json!(kept))
}

/// The turn in which an entry was written, or the run if there was no turn.
fn occasion(entry: &Entry) -> Option<String> {
    let source = &entry.fields.source;
    let turn = source.turn.map(|turn| turn.to_string());
    turn.or_else(|| source.run.map(|run| run.to_string()))
}

fn members_hash(members: &[Used]) -> String {
    let ids: Vec<_> = members.iter().map(|member| member.id.to_string()).collect();
    digest(&ids.join(" "))
}

fn digest(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes())[..8])
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 turns")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
