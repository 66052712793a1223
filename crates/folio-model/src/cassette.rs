//! Replies of a real model, kept in a file and replayed.
//!
//! A reply is found by the SHA-256 of the canonical JSON of its request, without the idempotency key. If a request was
//! made more than once, its replies are replayed in order, and the last one from then on. A request of another run of
//! the same plan differs in the ids of the run, its nodes and pages: if there is no reply to exactly this request, one is
//! found that differs only in them, in the order in which such replies were recorded. A request that was never recorded is an error that names the most similar one, and
//! where they first differ.
//!
//! The file contains what was asked and answered, word for word, and no API keys, which are not part of a request.
//! Passing it on passes on the content. A [setting](Cassette::setting) may be stored with it: what has to be known to
//! make the same requests again.

mod difference;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use folio_memory::{canonical, canonical_json};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Model, Place, Reply, Request, Worker};

/// The version of the file format. In the first one, takes had no places.
const VERSION: u32 = 2;
/// The maximum size of a cassette in bytes.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How many names are tried for the temporary file beside a cassette.
const TEMP_NAMES_MAX: u32 = 1_000;

/// Recorded replies by their requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cassette {
    /// By the hash of the request.
    takes: BTreeMap<String, Take>,
    /// What the recorder stored with the replies.
    setting: Option<Value>,
}

/// One request and its replies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Take {
    request: Value,
    replies: Vec<Reply>,
    /// The place of each reply among all that were recorded, counted from 0. Unknown in files of the first version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    setting: Option<Value>,
    takes: BTreeMap<String, Take>,
}

/// Why a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the cassette {path} cannot be used: {reason}")]
pub struct CassetteError {
    path: PathBuf,
    reason: String,
    is_missing: bool,
}

impl CassetteError {
    /// Whether the file does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }
}

impl Cassette {
    /// Checks that a recording can be written to `path`. An existing cassette keeps its content; if there is none, an
    /// empty one is written.
    ///
    /// # Errors
    ///
    /// As [`Cassette::read`] and [`Cassette::write`].
    pub fn prepare(path: &Path) -> Result<(), CassetteError> {
        let is_recorded = std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
        match is_recorded && reason_to_keep(path).is_none() {
            true => Self::read(path)?.write(path),
            false => Self::default().write(path),
        }
    }

    /// Whether nothing is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.takes.is_empty()
    }

    /// Reads a file that [`Cassette::write`] wrote.
    ///
    /// # Errors
    ///
    /// With the path and what is wrong with it; also if a request was edited by hand, so that it would not be found.
    pub fn read(path: &Path) -> Result<Self, CassetteError> {
        let error = |reason: String| CassetteError {
            path: path.to_owned(),
            reason,
            is_missing: false,
        };
        let file = std::fs::File::open(path).map_err(|e| CassetteError {
            is_missing: e.kind() == std::io::ErrorKind::NotFound,
            ..error(e.to_string())
        })?;
        let too_large = || error(format!("it has more than {BYTES_MAX} bytes"));
        if file.metadata().is_ok_and(|about| about.len() > BYTES_MAX) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        let read_result = file.take(BYTES_MAX + 1).read_to_end(&mut bytes);
        read_result.map_err(|e| error(e.to_string()))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(too_large());
        }
        let written: Written = serde_json::from_slice(&bytes).map_err(|e| error(e.to_string()))?;
        if !(1..=VERSION).contains(&written.version) {
            let reason = format!(
                "its version is {}, and only versions up to {VERSION} are supported",
                written.version
            );
            return Err(error(reason));
        }
        for (key, take) in &written.takes {
            let has_places = take.places.is_empty() || take.places.len() == take.replies.len();
            if !has_places || take.replies.is_empty() || hash(&canonical(take.request.clone()).to_string()) != *key {
                return Err(error(format!("the request under {key} was changed; record it again")));
            }
        }
        Ok(Self {
            takes: written.takes,
            setting: written.setting,
        })
    }

    /// Writes the file atomically. The same replies give the same bytes.
    ///
    /// # Errors
    ///
    /// With the path and the reason; also if it would be too large to be read.
    pub fn write(&self, path: &Path) -> Result<(), CassetteError> {
        self.write_within(path, BYTES_MAX)
    }

    fn write_within(&self, path: &Path, bytes_max: u64) -> Result<(), CassetteError> {
        let error = |reason: String| CassetteError {
            path: path.to_owned(),
            reason,
            is_missing: false,
        };
        // A file that is not a cassette is not overwritten because of a typo.
        if let Some(reason) = reason_to_keep(path) {
            return Err(error(format!("the file exists and {reason}, so it is not overwritten")));
        }
        let written = Written {
            version: VERSION,
            setting: self.setting.clone(),
            takes: self.takes.clone(),
        };
        let value = serde_json::to_value(&written).map_err(|e| error(e.to_string()))?;
        let text = serde_json::to_string_pretty(&canonical(value)).map_err(|e| error(e.to_string()))?;
        if text.len() as u64 >= bytes_max {
            return Err(error(format!(
                "it would have more than {bytes_max} bytes, and nothing reads a larger one; record fewer runs in one file"
            )));
        }
        // A symbolic link is kept: its target is written.
        let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let may = std::fs::metadata(path).map(|about| about.permissions());
        let mut options = std::fs::OpenOptions::new();
        // It holds what was said, word for word.
        options.write(true).create_new(true).mode(0o600);
        let (mut file, beside) = create_temp_beside(path, &options).map_err(|e| error(e.to_string()))?;
        let mut write = || {
            if let Ok(may) = &may {
                // Keeps the permissions of the previous file.
                file.set_permissions(may.clone())?;
            }
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().map_err(|e| {
            let _not_left_behind = std::fs::remove_file(&beside);
            error(e.to_string())
        })
    }

    /// What the recorder stored with the replies; `None` if nothing.
    #[must_use]
    pub fn setting(&self) -> Option<&Value> {
        self.setting.as_ref()
    }

    /// Stores `setting` with the replies. The recorder defines its form.
    #[must_use]
    pub fn with_setting(mut self, setting: Value) -> Self {
        self.setting = Some(setting);
        self
    }

    /// All replies, for removing something from them.
    pub fn replies_mut(&mut self) -> impl Iterator<Item = &mut Reply> {
        self.takes.values_mut().flat_map(|take| &mut take.replies)
    }

    /// Adds `reply` as the next one to `request`.
    fn add(&mut self, request: &Request, reply: Reply) {
        let request_json = request_as_json(request);
        let place = self.takes.values().map(|take| take.replies.len() as u64).sum();
        let take = self
            .takes
            .entry(hash(&request_json.to_string()))
            .or_insert_with(|| Take {
                request: request_json,
                replies: Vec::new(),
                places: Vec::new(),
            });
        take.replies.push(reply);
        take.places.push(place);
    }
}

/// The request in the form in which it is looked up.
fn request_as_json(request: &Request) -> Value {
    let text = canonical_json(request).unwrap_or_default();
    let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, _| name != "idempotency_key");
    }
    value
}

/// Whether `word` may be an id that differs with every run: that of a node, also in the name of a tag around data, or what
/// follows `page_` and the like in the other ids.
fn is_id(word: &str) -> bool {
    match word.len() {
        16 => word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        26 => word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'Z')),
        _ => false,
    }
}

/// Returns `request_json` with ids replaced by their order of occurrence, so that it is the same for every run of a plan.
fn without_run(request_json: &Value) -> String {
    let text = request_json.to_string();
    let (mut ids, mut renamed) = (Vec::<&str>::new(), String::with_capacity(text.len()));
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_id(word) {
            let at = ids.iter().position(|id| *id == word).unwrap_or_else(|| {
                ids.push(word);
                ids.len() - 1
            });
            let _infallible = write!(renamed, "id {}{}", at + 1, &piece[word.len()..]);
        } else {
            renamed.push_str(piece);
        }
    }
    renamed
}

fn hash(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

/// Asks another model and records what it answers. Errors are passed on and not recorded.
#[derive(Debug)]
pub struct RecordingModel {
    inner: Arc<dyn Model>,
    cassette: Arc<Mutex<Cassette>>,
    /// Tells of each reply that is recorded.
    news: Arc<Notify>,
}

impl RecordingModel {
    /// Creates a recorder for `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Model>) -> Self {
        Self {
            inner,
            cassette: Arc::default(),
            news: Arc::default(),
        }
    }

    /// Records `other` as well, into the same cassette.
    #[must_use]
    pub fn beside(&self, other: Arc<dyn Model>) -> Self {
        Self {
            inner: other,
            cassette: Arc::clone(&self.cassette),
            news: Arc::clone(&self.news),
        }
    }

    /// Waits until a reply was recorded since this was last called.
    pub async fn recorded(&self) {
        self.news.notified().await;
    }

    fn add(&self, request: &Request, reply: Reply) {
        locked(&self.cassette).add(request, reply);
        self.news.notify_one();
    }

    /// What was recorded so far.
    #[must_use]
    pub fn cassette(&self) -> Cassette {
        locked(&self.cassette).clone()
    }
}

#[async_trait]
impl Model for RecordingModel {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let reply = self.inner.reply(request, pieces).await?;
        self.add(request, reply.clone());
        Ok(reply)
    }

    fn worker(&self) -> Option<Worker<'_>> {
        self.inner.worker()
    }

    fn folder(&self) -> Option<&str> {
        self.inner.folder()
    }

    fn left_over(&self) -> Vec<String> {
        self.inner.left_over()
    }

    async fn call_off(&self, question: &str) {
        self.inner.call_off(question).await;
    }

    fn observe_reply(&self, request: &Request, reply: &Reply) {
        self.inner.observe_reply(request, reply);
        self.add(request, reply.clone());
    }

    async fn reply_in(
        &self,
        request: &Request,
        place: &Place,
        pieces: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, ModelError> {
        let reply = self.inner.reply_in(request, place, pieces).await?;
        self.add(request, reply.clone());
        Ok(reply)
    }
}

/// Replays a cassette.
#[derive(Debug)]
pub struct ReplayingModel {
    cassette: Cassette,
    /// The replies to requests that differ only in ids, in the order in which they were recorded, by the hash of what is
    /// left of the requests: each as the hash of its request and its place among the replies to that.
    similar: HashMap<String, Vec<(String, usize)>>,
    /// How often each request was made.
    used: Mutex<HashMap<String, usize>>,
}

impl ReplayingModel {
    /// Replays `cassette` from its beginning.
    #[must_use]
    pub fn new(cassette: Cassette) -> Self {
        let mut similar = HashMap::<String, Vec<(String, usize)>>::new();
        for (key, take) in &cassette.takes {
            let left = hash(&without_run(&take.request));
            let replies = (0..take.replies.len()).map(|at| (key.clone(), at));
            similar.entry(left).or_default().extend(replies);
        }
        for replies in similar.values_mut() {
            replies.sort_by_key(|(key, at)| cassette.takes.get(key).and_then(|take| take.places.get(*at)));
        }
        Self {
            cassette,
            similar,
            used: Mutex::default(),
        }
    }

    /// The replies to a request, at least one, and what their uses are counted under; `None` if it was never made.
    fn recorded(&self, request_json: &Value) -> Option<(String, Vec<&Reply>)> {
        let key = hash(&request_json.to_string());
        if let Some(take) = self.cassette.takes.get(&key) {
            return Some((key, take.replies.iter().collect()));
        }
        let left = hash(&without_run(request_json));
        let places = self.similar.get(&left)?.iter();
        let replies = places.filter_map(|(key, at)| self.cassette.takes.get(key)?.replies.get(*at));
        Some((left, replies.collect()))
    }

    fn not_recorded(&self, request_json: &Value) -> ModelError {
        // Ids of the run differ everywhere, and are never the reason.
        let comparable = |json: &Value| serde_json::from_str(&without_run(json)).unwrap_or_else(|_| json.clone());
        let asked: Value = comparable(request_json);
        let takes = self.cassette.takes.iter();
        let nearest = takes
            .map(|(key, take)| (difference::between(&comparable(&take.request), &asked), key))
            .min_by_key(|(difference, _)| (difference.count, difference.chars));
        let message = match nearest {
            None => "nothing is recorded".to_owned(),
            Some((difference, key)) => format!(
                "this request is not recorded; the nearest one is {}, and they first differ at {}",
                key.get(..12).unwrap_or(key),
                difference.first
            ),
        };
        ModelError::new("cassette", ModelErrorKind::Invalid, message)
    }
}

#[async_trait]
impl Model for ReplayingModel {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let request_json = request_as_json(request);
        let Some((key, replies)) = self.recorded(&request_json) else {
            return Err(self.not_recorded(&request_json));
        };
        let at = {
            let mut used = locked(&self.used);
            let count = used.entry(key).or_default();
            *count += 1;
            (*count - 1).min(replies.len() - 1)
        };
        let reply = replies[at].clone();
        if !reply.text.is_empty() {
            pieces(Delta::Text(reply.text.clone()));
        }
        Ok(reply)
    }
}

/// Creates a new file beside `path`.
fn create_temp_beside(path: &Path, options: &std::fs::OpenOptions) -> std::io::Result<(std::fs::File, PathBuf)> {
    let mut number = 0;
    loop {
        let mut beside = path.as_os_str().to_owned();
        beside.push(if number == 0 {
            ".new".to_owned()
        } else {
            format!(".new{number}")
        });
        match options.open(&beside) {
            Ok(file) => return Ok((file, beside.into())),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < TEMP_NAMES_MAX => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Why what is at `path` is not overwritten: it is a nonempty file that is not a cassette of any version or is too large
/// to tell, or something other than a file, such as a device, which a file cannot replace.
fn reason_to_keep(path: &Path) -> Option<String> {
    let not_one = || Some("is not a cassette".to_owned());
    match std::fs::metadata(path) {
        Ok(about) if !about.is_file() => return not_one(),
        Ok(about) if about.len() > BYTES_MAX => return Some(format!("has more than {BYTES_MAX} bytes")),
        _ => {}
    }
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    match file.take(BYTES_MAX + 1).read_to_end(&mut bytes) {
        Ok(0) => None,
        Ok(_) => match serde_json::from_slice::<Value>(&bytes) {
            Ok(written) if written["takes"].is_object() => None,
            _ => not_one(),
        },
        Err(_) => not_one(),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests;
