//! The tools with which a model works on its scratchbook, independent of the transport.

mod history;
mod read;

use folio_memory::entry::State;
use folio_memory::id::{EntryRef, PageRef};
use folio_memory::policy::SCRATCHBOOKS_OFF;
use folio_memory::roles::{Denied, Operation};
use folio_memory::scratchbook::ScratchItem;
use folio_memory::scratchbook::tools::{ANSWER_TOKENS, Call};
use folio_memory::tokens::Tokens;
use folio_memory::view::candidate;
use folio_memory::{Actor, Entry, EntryKind, Invalid, PageRole, ThreadKey, Timestamp, scratchbook};
use serde_json::{Value, json};

use super::{Guard, Workspace, WorkspaceError, Written};

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ScratchAnswer {
    /// The answer for the model: compact, with handles.
    pub text: String,
    /// The same for programs, as JSON.
    pub structured: Value,
    /// The entries that the answer is about, in order of appearance.
    pub entries: Vec<Entry>,
    /// The most tokens that the text and the structured part may have together.
    pub limit: u32,
}

/// The caller of a tool.
#[derive(Debug, Clone)]
pub struct ScratchCaller<'c> {
    /// The actor; its role decides what it may do.
    pub actor: &'c Actor,
    /// The thread whose scratchbook is meant.
    pub thread: &'c ThreadKey,
    /// The counter for the tokens of the caller's model.
    pub tokens: &'c dyn Tokens,
    /// The idempotency key of this call: a second call with the same key adds nothing.
    pub idempotency_key: Option<String>,
}

impl Workspace {
    /// Calls the tool `name` of the scratchbook of a thread with `arguments` as a model wrote them.
    ///
    /// An answer has at most 2,000 tokens unless another budget is given; its cursor leads to what does not fit. A call
    /// changes only items of that scratchbook and other entries that the caller may change; it can read the whole
    /// space.
    ///
    /// # Errors
    ///
    /// `Invalid` names the argument that is wrong and what it could be, or says that scratchbooks are switched off;
    /// `Refused` for an item of another thread's scratchbook; otherwise as the methods of [`Workspace`] that do the
    /// same.
    pub async fn call_scratch_tool(
        &self,
        caller: &ScratchCaller<'_>,
        name: &str,
        arguments: &Value,
    ) -> Result<ScratchAnswer, WorkspaceError> {
        self.check_scratchbooks_are_on().await?;
        let workspace = self.asked_by(caller.actor).in_thread(caller.thread);
        match Call::parse(name, arguments)? {
            Call::Read(read) => workspace.scratch_read(caller, read).await,
            call => workspace.scratch_write(caller, call).await,
        }
    }

    /// Checks that the policy of the space allows scratchbooks for models.
    ///
    /// # Errors
    ///
    /// `scratchbook_off`; `Unavailable` or `Corrupt`.
    pub async fn check_scratchbooks_are_on(&self) -> Result<(), WorkspaceError> {
        if self.policy().await?.scratchbook.enabled {
            return Ok(());
        }
        Err(Invalid::new("scratchbook_off", "tool", SCRATCHBOOKS_OFF).into())
    }

    async fn scratch_write(&self, caller: &ScratchCaller<'_>, call: Call) -> Result<ScratchAnswer, WorkspaceError> {
        let (actor, thread) = (caller.actor, caller.thread);
        let key = caller.idempotency_key.clone();
        let keyed = Guard {
            idempotency_key: key.clone(),
            ..Guard::default()
        };
        let written = match call {
            Call::AddItem(input) => self.add_item(actor, thread, *input, key.clone()).await?,
            Call::AddObservation(input) => self.add_observation(actor, *input, key.clone()).await?,
            Call::Append {
                page,
                title,
                body,
                tags,
            } => {
                let page = page.parse().map_err(|_| {
                    let message = format!("{page:?} is not the handle of a page, such as p7");
                    Invalid::new("arguments_invalid", "page", message)
                })?;
                self.check_not_other_book(actor, thread, page).await?;
                self.append(actor, page, &title, body, &tags, key.clone()).await?
            }
            Call::Update {
                id,
                patch,
                expected_version,
            } => {
                let entry = self.changeable_entry(actor, thread, id, Operation::PatchOthers).await?;
                let guard = Guard {
                    expected_version,
                    ..keyed
                };
                match entry.kind {
                    EntryKind::Observation => {
                        self.update_observation_under(actor, id, (*patch).try_into()?, guard)
                            .await?
                    }
                    _ => self.update_item_under(actor, id, *patch, guard).await?,
                }
            }
            Call::Complete(id) => {
                self.changeable_entry(actor, thread, id, Operation::SetStatusOfOthers)
                    .await?;
                self.complete(actor, id, keyed).await?
            }
            Call::Pin(id) => {
                self.changeable_entry(actor, thread, id, Operation::Pin).await?;
                self.pin_item_under(actor, id, keyed).await?
            }
            Call::Unpin(id) => {
                self.changeable_entry(actor, thread, id, Operation::Pin).await?;
                self.unpin_item_under(actor, id, keyed).await?
            }
            Call::Read(_) => return Err(Invalid::new("arguments_invalid", "tool", "reads only").into()),
        };
        Ok(answer_of(&written, self.now()))
    }

    /// Checks that `page` is not another thread's scratchbook.
    async fn check_not_other_book(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        page: PageRef,
    ) -> Result<(), WorkspaceError> {
        let page = self.page(page).await?;
        let (own, _) = scratchbook::page_of(self.space(), thread);
        if page.id == own || page.fields.role != PageRole::Scratchbook {
            return Ok(());
        }
        let refused = WorkspaceError::Refused(Denied {
            role: actor.role,
            operation: Operation::Add,
            what: format!("to {}, which is another thread's scratchbook", page.handle),
            is_of_other_thread: false,
        });
        self.note_refusal(actor, "add", None, &refused);
        Err(refused)
    }

    /// Returns the named entry, unless it is an item of another thread's scratchbook, which callers in `thread` may not
    /// change.
    pub(super) async fn changeable_entry(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        entry: EntryRef,
        operation: Operation,
    ) -> Result<Entry, WorkspaceError> {
        let entry = self.read_entry(entry).await?;
        let (own, _) = scratchbook::page_of(self.space(), thread);
        if entry.page == own {
            return Ok(entry);
        }
        let page = self.page(folio_memory::id::Ref::Id(entry.page)).await?;
        if page.fields.role != PageRole::Scratchbook {
            return Ok(entry);
        }
        let refused = WorkspaceError::Refused(Denied {
            role: actor.role,
            operation,
            what: format!("{}, which is in another thread's scratchbook", entry.handle),
            is_of_other_thread: false,
        });
        self.note_refusal(actor, "update", Some(&entry), &refused);
        Err(refused)
    }
}

fn answer_of(written: &Written, now: Timestamp) -> ScratchAnswer {
    let entry = &written.entry;
    let mut text = line_of(entry, 1, now);
    if entry.fields.pin_rank.is_some() {
        text.push_str(" (pinned)");
    }
    for warning in &written.warnings {
        text.push_str(&format!("\nwarning: {}", warning.display_line()));
    }
    let mut structured = shape_of(entry, now);
    if let Value::Object(fields) = &mut structured {
        fields.insert("warnings".to_owned(), json!(written.warnings));
        fields.insert("replayed".to_owned(), json!(written.replayed));
        // The caller wrote it and knows it.
        fields.remove("body");
        fields.remove("content");
    }
    ScratchAnswer {
        text,
        structured,
        entries: vec![entry.clone()],
        limit: ANSWER_TOKENS,
    }
}

/// The line of `entry` at one of its lengths. It says if the entry is expired or replaced, which its status does not.
fn line_of(entry: &Entry, length: usize, now: Timestamp) -> String {
    let mut line = candidate(entry).lengths[length].clone();
    if entry.state(now) == State::Expired {
        line.push_str(" (expired)");
    }
    if entry.fields.superseded_by.is_some() {
        line.push_str(" (replaced)");
    }
    line
}

/// The entry in its JSON form: an item, an observation, or another entry of a page.
fn shape_of(entry: &Entry, now: Timestamp) -> Value {
    let mut shape = json!(ScratchItem::of(entry));
    let Value::Object(fields) = &mut shape else {
        return shape;
    };
    if entry.kind == EntryKind::Observation {
        let body = fields.remove("body").unwrap_or_default();
        fields.insert("content".to_owned(), body);
        fields.insert("observation_id".to_owned(), json!(entry.id));
        fields.insert("type".to_owned(), json!(entry.fields.type_name));
        fields.insert("confidence".to_owned(), json!(entry.fields.confidence));
        fields.insert("expires_at".to_owned(), json!(entry.fields.lifetime.expires_at()));
        fields.insert("owner".to_owned(), json!(entry.fields.owner));
        fields.insert("state".to_owned(), json!(entry.state(now)));
    }
    fields.insert("trust".to_owned(), json!(entry.fields.trust));
    if let Some(by) = entry.fields.superseded_by {
        fields.insert("superseded_by".to_owned(), json!(by));
    }
    shape
}
