//! Finding patterns without a model (M7.9): what was noticed repeatedly, over several turns.
//!
//! Observations are grouped by class, tags and context, and within a group by near-duplicate text. Three in two turns
//! are a pattern. Its confidence is the lower Wilson bound of "seen in a turn", among the turns in which its group
//! occurred, multiplied by the mean confidence of its members. So a rival with the same tags lowers the confidence of a
//! pattern.

mod group;
mod shingles;

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use self::group::{Group, News};
use self::shingles::{Clusters, Sketch, numbers_in};
use crate::actor::{Source, Trust};
use crate::canonical::canonical;
use crate::counted::counted;
use crate::entry::{Confidence, Entry, EntryFields, EntryKind, Outcome, Owner, State, Status, Tag};
use crate::keeping::ErasedFor;
use crate::observation::{Class, TypeRegistry};
use crate::time::Timestamp;
use crate::turn::{Used, is_clarification};

/// The type of a pattern.
pub const PATTERN: &str = "pattern_detected";
/// The type of a fact that was derived from a pattern.
pub const FACT: &str = "learning";
/// The channel that marks patterns and facts, so that they do not become members of other patterns.
pub const CHANNEL: &str = "reflection";
/// The minimum number of members of a pattern.
pub const MEMBERS_MIN: usize = 3;
/// The minimum number of turns in which the members of a pattern were seen.
pub const TURNS_MIN: usize = 2;
/// The minimum number of turns in which a pattern was seen before a fact is derived from it.
pub const FACT_TURNS_MIN: usize = 3;
/// The z-score of 95 % confidence.
const Z: f64 = 1.96;

/// Context keys that differ from one time to the next and do not say what an entry is about.
const VOLATILE_KEYS: &[&str] = &["pending_action_id", "request_id", "run_id", "timestamp", "turn_id"];

/// Words that can make similar texts say the opposite: negations, and one word of each pair of opposites (*red* of
/// *red* and *green*). Contractions (*doesn't*) count as *not*.
const NEGATIONS: &[&str] = &[
    "against",
    "avoid",
    "avoids",
    "broken",
    "closed",
    "closes",
    "cold",
    "declined",
    "declines",
    "decreased",
    "decreases",
    "denied",
    "denies",
    "disabled",
    "disconnected",
    "dislike",
    "dislikes",
    "down",
    "empty",
    "fail",
    "failed",
    "failing",
    "fails",
    "falling",
    "falls",
    "false",
    "fewer",
    "forbidden",
    "hate",
    "hates",
    "impossible",
    "incorrect",
    "invalid",
    "kein",
    "keine",
    "keinen",
    "late",
    "less",
    "loses",
    "lost",
    "low",
    "lower",
    "neither",
    "never",
    "nicht",
    "no",
    "nobody",
    "none",
    "nor",
    "not",
    "nothing",
    "off",
    "offline",
    "optional",
    "red",
    "refuse",
    "refused",
    "refuses",
    "rejected",
    "rejects",
    "removed",
    "slow",
    "slower",
    "stopped",
    "stops",
    "unable",
    "unavailable",
    "unhealthy",
    "unsafe",
    "unstable",
    "without",
    "worse",
    "wrong",
];

/// A pattern in the current observations.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FoundPattern")]
pub struct FoundPattern {
    /// The name of the group: class, tags and context.
    pub group: String,
    /// The observations, oldest first.
    pub members: Vec<Used>,
    /// The number of turns in which they were seen.
    pub turns: usize,
    /// The number of turns in which the group occurred.
    pub of_turns: usize,
    /// When the pattern was first seen.
    pub first_at: Timestamp,
    /// When the pattern was last seen.
    pub last_at: Timestamp,
    /// The most recent wording.
    pub text: String,
    /// The tags that all members have.
    pub tags: Vec<Tag>,
    /// The context that all members share.
    pub context: Option<Value>,
    /// The confidence of the pattern.
    pub confidence: Confidence,
    /// The lowest trust among the members.
    pub trust: Trust,
    /// The entries that recorded this pattern so far, as they were read; a new entry supersedes them. There are several
    /// if two turns ended at the same moment.
    pub replaces: Vec<Used>,
    /// The facts that were derived from it so far, as they were read.
    pub replaces_facts: Vec<Used>,
    /// Whether the members have the same numbers. If not, what the last one says is only the latest of several
    /// readings, and no fact.
    pub has_same_numbers: bool,
    /// Whether the pattern says something that no entry records yet.
    pub is_news: bool,
}

/// Which observations are searched for patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// All that there are: a member that is no longer among them is lost.
    All,
    /// The newest ones: members older than these still count.
    Newest,
}

/// Finds the patterns among `observations`, oldest groups first.
///
/// Superseded, erased and refuted entries do not count as members, nor do patterns and facts themselves, nor what Folio
/// asks about an input. Patterns and facts among `observations` are compared with the result: a pattern that says nearly what an entry records is not news (see
/// [`growth_that_is_news`]), and any other is to be replaced.
#[must_use]
pub fn find(observations: &[Entry], types: &TypeRegistry, among: Among) -> Vec<FoundPattern> {
    let mut groups: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    let mut known: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in observations {
        let fields = &entry.fields;
        if entry.kind != EntryKind::Observation || !may_count(entry) {
            continue;
        }
        if is_reflection(entry) {
            if fields.status != Status::Archived {
                known.entry(recorded_group(entry)).or_default().push(entry);
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
        let all_turns: BTreeSet<String> = entries.iter().filter_map(|entry| turn_or_run_id(entry)).collect();
        let mut clusters = Clusters::default();
        for (index, entry) in entries.iter().enumerate() {
            clusters.add(index, Sketch::of(&entry.fields.body, NEGATIONS));
        }
        let mut group_patterns = Vec::new();
        for members in clusters.into_members() {
            let members: Vec<_> = members.into_iter().map(|index| entries[index]).collect();
            if let Some(pattern) = of_members(&group, &members, all_turns.len()) {
                group_patterns.push(PatternMatch::of(pattern, &members));
            }
        }
        found.extend(match_known_entries(
            group_patterns,
            known.get(&group).map_or(&[][..], Vec::as_slice),
            among,
        ));
    }
    found.sort_by_key(|pattern| pattern.members.first().map(|first| first.handle));
    found
}

impl FoundPattern {
    /// The fields of the observation that records the pattern, with `source` as its source.
    #[must_use]
    pub fn fields(&self, source: Source) -> EntryFields {
        self.said(PATTERN, source)
    }

    /// The fields of the fact that follows from the pattern, if the pattern was seen often enough, and its members say
    /// the same.
    #[must_use]
    pub fn fact(&self, source: Source) -> Option<EntryFields> {
        (self.turns >= FACT_TURNS_MIN && self.has_same_numbers).then(|| self.said(FACT, source))
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

/// Whether `entry` still says what it said: nobody replaced, erased or refuted it.
fn may_count(entry: &Entry) -> bool {
    entry.fields.erased.is_none() && !was_withdrawn(entry) && !is_clarification(entry)
}

/// Whether somebody refuted or forgot what `entry` says, or replaced it. An entry whose time is over still counts.
fn was_withdrawn(entry: &Entry) -> bool {
    let fields = &entry.fields;
    let is_refuted = fields.outcome == Some(Outcome::Refuted) && fields.status.state() != State::Live;
    is_refuted || fields.superseded_by.is_some() || fields.erased == Some(ErasedFor::Forgotten)
}

/// Whether a pattern of `members`, as they are now, no longer holds: some were withdrawn, and too few are left. `None`
/// is a member that is not there any more because of its age: what was forgotten keeps its tombstone.
#[must_use]
pub fn is_withdrawn(members: &[Option<Entry>]) -> bool {
    let withdrawn = members.iter().flatten().filter(|member| was_withdrawn(member)).count();
    withdrawn > 0 && members.len() - withdrawn < MEMBERS_MIN
}

/// Whether `entry` is a pattern or a fact that was found here.
#[must_use]
pub fn is_reflection(entry: &Entry) -> bool {
    entry.fields.source.channel.as_deref() == Some(CHANNEL)
}

/// How often and when what a pattern or a fact says was seen: `seen 7× in 5 turns, last on 2026-02-06`. `None` for
/// other entries, and for those that do not say.
#[must_use]
pub fn seen_often(entry: &Entry) -> Option<String> {
    let recorded = entry.fields.metadata.as_ref().filter(|_| is_reflection(entry))?;
    let number = |key: &str| recorded.get(key).and_then(Value::as_u64);
    let mut seen = format!("seen {}× in {}", number("count")?, counted(number("turns")?, "turn"));
    let last_at = recorded.get("last_at").and_then(Value::as_str);
    if let Some(last) = last_at.and_then(|at| Timestamp::parse(at).ok()) {
        let day = last.to_string();
        seen.push_str(&format!(", last on {}", day.split('T').next().unwrap_or(&day)));
    }
    Some(seen)
}

/// The lower bound, with 95 % confidence, of the share of which `seen` out of `total` is a sample.
#[must_use]
pub fn wilson_lower(seen: usize, total: usize) -> f64 {
    if total == 0 {
        return 0.0;
    }
    let (seen, n) = (count(seen), count(total));
    let share = seen / n;
    let z2 = Z * Z;
    let middle = share + z2 / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - spread) / (1.0 + z2 / n)).clamp(0.0, 1.0)
}

fn of_members(group: &str, members: &[&Entry], of_turns: usize) -> Option<FoundPattern> {
    let turns: BTreeSet<_> = members.iter().filter_map(|entry| turn_or_run_id(entry)).collect();
    let (first, last) = (members.first()?, members.last()?);
    if members.len() < MEMBERS_MIN || turns.len() < TURNS_MIN {
        return None;
    }
    let confidence_of = |entry: &&Entry| entry.fields.confidence.map_or(0.0, Confidence::value);
    let mean = members.iter().map(confidence_of).sum::<f64>() / count(members.len());
    Some(FoundPattern {
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
        has_same_numbers: {
            let mut numbers = members.iter().map(|entry| numbers_in(&entry.fields.body));
            let first = numbers.next();
            numbers.all(|other| Some(other) == first)
        },
        is_news: true,
    })
}

/// A pattern with the texts of its members and the entries that recorded it earlier.
struct PatternMatch<'e> {
    pattern: FoundPattern,
    texts: BTreeSet<&'e str>,
    sketch: Sketch,
    earlier: Vec<&'e Entry>,
}

impl<'e> PatternMatch<'e> {
    fn of(pattern: FoundPattern, members: &[&'e Entry]) -> Self {
        Self {
            texts: members.iter().map(|entry| entry.fields.body.trim()).collect(),
            sketch: Sketch::of(&pattern.text, NEGATIONS),
            pattern,
            earlier: Vec::new(),
        }
    }

    fn compared(self, among: Among) -> FoundPattern {
        let Self {
            mut pattern, earlier, ..
        } = self;
        let of_type = |name: &str| -> Vec<&Entry> {
            let matching = earlier
                .iter()
                .filter(|entry| entry.fields.type_name.as_deref() == Some(name));
            matching.copied().collect()
        };
        pattern.replaces_facts = of_type(FACT).into_iter().map(Used::of).collect();
        let patterns = of_type(PATTERN);
        if let [earlier_pattern] = patterns[..] {
            pattern.is_news = is_news_beside(&pattern, earlier_pattern, among);
        }
        pattern.replaces = patterns.into_iter().map(Used::of).collect();
        pattern
    }
}

/// Whether `pattern` says something that `earlier`, which records it, does not.
fn is_news_beside(pattern: &FoundPattern, earlier: &Entry, among: Among) -> bool {
    let recorded = |key: &str| earlier.fields.metadata.as_ref().and_then(|metadata| metadata.get(key));
    // That it was looked for once more, and not seen, is no news: it would be written with every turn.
    if recorded("members") == Some(&json!(members_hash(&pattern.members))) {
        return false;
    }
    let members = pattern.members.len();
    let before = recorded("count").and_then(Value::as_u64).unwrap_or(0);
    let before = usize::try_from(before).unwrap_or(usize::MAX);
    match among {
        Among::All => members <= before || members - before >= growth_that_is_news(before),
        Among::Newest => {
            let newer = pattern.members.iter().filter(|member| member.handle > earlier.handle);
            newer.count() >= growth_that_is_news(members)
        }
    }
}

/// By how many members a recorded pattern of `members` has to grow to be recorded again: by one, or by an eighth if it
/// has many. Each record links to all members, so that recording every single one would cost more with each.
#[must_use]
pub fn growth_that_is_news(members: usize) -> usize {
    (members / 8).max(1)
}

/// Matches `patterns` with the `known` entries of their group that were found earlier. Each known entry recorded one of
/// the patterns: the one with a member of the same text, or else the first with a similar text. Each entry is replaced
/// by only one pattern.
fn match_known_entries<'e>(
    mut patterns: Vec<PatternMatch<'e>>,
    known: &[&'e Entry],
    among: Among,
) -> Vec<FoundPattern> {
    for entry in known {
        let text = entry.fields.body.trim();
        let position = patterns.iter().position(|one| one.texts.contains(text)).or_else(|| {
            let sketch = Sketch::of(text, NEGATIONS);
            patterns.iter().position(|one| one.sketch.is_like(&sketch))
        });
        if let Some(at) = position {
            patterns[at].earlier.push(*entry);
        }
    }
    patterns.into_iter().map(|found| found.compared(among)).collect()
}

fn recorded_group(entry: &Entry) -> String {
    let group = entry
        .fields
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.get("group"));
    group.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The name of the group of an entry: entries with the same class, tags and context have the same name.
fn group_of(entry: &Entry, types: &TypeRegistry) -> String {
    let class = types.class_of(entry.fields.type_name.as_deref());
    name_of(class, &sorted_tags(entry), common_context(entry).as_ref())
}

/// The name of the group of the entries with this class, these sorted tags, and this common context.
fn name_of(class: Class, tags: &[Tag], context: Option<&Value>) -> String {
    let tags: Vec<_> = tags.iter().map(ToString::to_string).collect();
    let content = json!([format!("{class:?}"), tags, context]);
    digest(&canonical(content).to_string())
}

fn sorted_tags(entry: &Entry) -> Vec<Tag> {
    let tags: BTreeSet<_> = entry.fields.tags.iter().cloned().collect();
    tags.into_iter().collect()
}

/// The texts, numbers and booleans at the top level of a context, without those that differ every time.
fn common_context(entry: &Entry) -> Option<Value> {
    let Some(Value::Object(context)) = &entry.fields.context else {
        return None;
    };
    let kept: BTreeMap<_, _> = context
        .iter()
        .filter(|(key, value)| !VOLATILE_KEYS.contains(&key.as_str()) && !value.is_object() && !value.is_array())
        .collect();
    (!kept.is_empty()).then(|| json!(kept))
}

/// The turn in which an entry was written, or the run if there was no turn.
fn turn_or_run_id(entry: &Entry) -> Option<String> {
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
