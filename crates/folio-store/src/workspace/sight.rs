//! What of the space the asker may read (M7.7). Everything else is left out of lists, and refused if it is named.

use std::collections::{HashMap, hash_map};

use folio_memory::id::{EntryRef, Ref};
use folio_memory::query::MAX_LIMIT;
use folio_memory::roles::{self, Denied, Operation, Visibility};
use folio_memory::text::MAX_QUERY_TERMS;
use folio_memory::{
    Actor, Entry, EntryId, EntryQuery, Invalid, ListAnswer, Page, PageFields, PageId, RunId, TextMatch, ThreadKey,
    Timestamp, Turn,
};

use super::{Workspace, WorkspaceError};
use crate::cursor::Snapshot;

/// How many entries are read at most to count those that may be seen.
const MAX_COUNTED: usize = 10_000;

impl Workspace {
    /// Returns the same space as seen from `thread`, the one that was named when the connection was made. The
    /// scratchbook that a client or a compactor may use is that thread's; by default the main one.
    #[must_use]
    pub fn in_thread(&self, thread: &ThreadKey) -> Self {
        Self {
            thread: std::sync::Arc::new(thread.clone()),
            ..self.clone()
        }
    }

    /// The thread that it is seen from.
    #[must_use]
    pub fn thread(&self) -> &ThreadKey {
        &self.thread
    }

    pub(super) async fn visibility(&self) -> Result<Visibility, WorkspaceError> {
        // Roles that may read the whole space need no manifest.
        if roles::reach(self.asker.role, Operation::Read) == roles::Reach::Yes {
            return Ok(Visibility::Space);
        }
        let policy = self.policy().await?;
        let scope = || policy.manifests.of(&self.asker.name).reads;
        Ok(Visibility::of(&self.asker, &self.thread, scope))
    }

    /// Refuses askers that may not read the whole space.
    pub(super) fn require_space_read(&self, target: &str) -> Result<(), WorkspaceError> {
        self.authorise(&self.asker, Operation::Read, target, ("memory", "read"))
    }

    /// Refuses `entry` if the asker may not read it.
    pub(super) async fn check_entry(&self, entry: &Entry) -> Result<(), WorkspaceError> {
        self.check_entry_for("get", entry).await
    }

    /// The same, with the operation `verb` for the trace.
    async fn check_entry_for(&self, verb: &str, entry: &Entry) -> Result<(), WorkspaceError> {
        let handle = entry.handle;
        let (operation, what) = match attempted(verb) {
            Operation::Read => (Operation::Read, handle.to_string()),
            change => (change, format!("{handle}, which it may not read")),
        };
        let sight = self.visibility().await?;
        if sight == Visibility::Space {
            return Ok(());
        }
        let page = self.inner.store.page(self.space(), Ref::Id(entry.page)).await?;
        if sight.includes_entry(entry, &page.fields) {
            return Ok(());
        }
        let refused = self.denied(operation, what);
        self.note_refusal(&self.asker, verb, Some(entry), &refused);
        Err(refused)
    }

    /// Refuses a change of `entry` by an actor that neither wrote it nor may read it: the outcome of a change shows the
    /// entry.
    pub(super) async fn check_change(&self, actor: &Actor, verb: &str, entry: &Entry) -> Result<(), WorkspaceError> {
        match roles::is_own(actor, entry) {
            true => Ok(()),
            false => self.check_entry_for(verb, entry).await,
        }
    }

    /// Refuses `page` if the asker may not read it.
    pub(super) async fn check_page(&self, page: &Page) -> Result<(), WorkspaceError> {
        if self.visibility().await?.includes_page(&page.fields) {
            return Ok(());
        }
        Err(self.refused(page.handle.to_string()))
    }

    /// Refuses the run `run` if the asker belongs to another.
    pub(super) async fn check_run(&self, run: RunId) -> Result<(), WorkspaceError> {
        match self.visibility().await? {
            Visibility::Space => Ok(()),
            Visibility::Run(own) if own == Some(run) => Ok(()),
            _ => Err(self.refused(run.to_string())),
        }
    }

    /// Refuses the links of `end` if the asker may not read what it names.
    pub(super) async fn check_end(&self, end: &str) -> Result<(), WorkspaceError> {
        if self.visibility().await? == Visibility::Space {
            return Ok(());
        }
        if let Ok(entry) = end.parse::<EntryRef>() {
            let entry = self.read_entry(entry).await?;
            return self.check_entry(&entry).await;
        }
        if let Ok(page) = end.parse() {
            let page = self.inner.store.page(self.space(), page).await?;
            return self.check_page(&page).await;
        }
        Err(self.refused(end.to_owned()))
    }

    /// Refuses `turn` if the asker may not read it. An asker within a run may read the turn in which the run began,
    /// which its runner states. An asker outside a run states its own turn, and that alone does not let it read the
    /// turn.
    pub(super) async fn check_turn(&self, turn: &Turn) -> Result<(), WorkspaceError> {
        let sight = self.visibility().await?;
        let is_own = matches!(sight, Visibility::Run(Some(_))) && self.asker.turn == Some(turn.begun.id);
        if is_own || sight.includes_turn(&turn.begun) {
            return Ok(());
        }
        Err(self.refused(turn.handle.to_string()))
    }

    /// Returns `turn` as the asker may see it: decisions neither name entries that it may not read, nor give reasons
    /// that may reveal them.
    pub(super) async fn as_seen(&self, mut turn: Turn) -> Result<Turn, WorkspaceError> {
        if self.visibility().await? == Visibility::Space {
            return Ok(turn);
        }
        let after = turn.ended.iter_mut().flat_map(|ended| &mut ended.end.decisions);
        for decision in turn.begun.decisions.iter_mut().chain(after) {
            let mut seen = Vec::with_capacity(decision.used.len());
            for used in &decision.used {
                if self.is_visible(used.id).await? {
                    seen.push(*used);
                }
            }
            if seen.len() < decision.used.len() {
                decision.used = seen;
                decision.reasons.clear();
            }
        }
        Ok(turn)
    }

    /// Whether the asker may read the entry `id`. An entry that does not exist is never visible.
    pub(super) async fn is_visible(&self, id: EntryId) -> Result<bool, WorkspaceError> {
        let Some(entry) = self.stored_entry_if_there(id).await? else {
            return Ok(false);
        };
        let sight = self.visibility().await?;
        if sight == Visibility::Space {
            return Ok(true);
        }
        let page = self.inner.store.page(self.space(), Ref::Id(entry.page)).await?;
        Ok(sight.includes_entry(&entry, &page.fields))
    }

    fn denied(&self, operation: Operation, what: String) -> WorkspaceError {
        WorkspaceError::Refused(Denied {
            role: self.asker.role,
            operation,
            what,
            is_of_other_thread: false,
        })
    }

    fn refused(&self, target: String) -> WorkspaceError {
        let refused = self.denied(Operation::Read, target);
        self.note_refusal_of(&self.asker, "memory", "read", &refused);
        refused
    }

    /// Returns the entries that match `query` and that the asker may read. Others are not counted either; for askers
    /// that may not read everything, at most the first 10,000 matches are counted.
    ///
    /// # Errors
    ///
    /// `Invalid` if all words of a text must match and it has more words than are searched for: ignoring the rest would
    /// let more through.
    pub(super) async fn visible_entries(&self, query: &EntryQuery) -> Result<ListAnswer<Entry>, WorkspaceError> {
        if query.text_match == TextMatch::All && query.text_query().is_some_and(|words| words.is_cut()) {
            let message = format!("has more than {MAX_QUERY_TERMS} words, too many to require all of them");
            return Err(Invalid::new("text_too_long", "text", message).into());
        }
        let sight = self.visibility().await?;
        if sight == Visibility::Space {
            return self.read_entries(query).await;
        }
        let mut pages = HashMap::new();
        let mut answer = self.part_in_sight(&sight, query, &mut pages).await?;
        let mut all = EntryQuery {
            limit: MAX_LIMIT,
            cursor: None,
            ..query.clone()
        };
        // Later pages show memory as it was at the first one, and so they count it (M7.2.15).
        let mut now = self.now();
        if let Some(cursor) = &query.cursor {
            all.as_of = Some(answer.as_of);
            now = Snapshot::in_cursor(cursor).map_or(now, |first| first.at);
        }
        answer.total = Box::pin(self.count_visible(&sight, all, now, &mut pages)).await?;
        Ok(answer)
    }

    /// Like [`Workspace::visible_entries`], for a query without a text, but `total` may count more than the asker may
    /// read.
    pub(super) async fn visible_part(&self, query: &EntryQuery) -> Result<ListAnswer<Entry>, WorkspaceError> {
        match self.visibility().await? {
            Visibility::Space => self.read_entries(query).await,
            sight => self.part_in_sight(&sight, query, &mut HashMap::new()).await,
        }
    }

    async fn part_in_sight(
        &self,
        sight: &Visibility,
        query: &EntryQuery,
        pages: &mut HashMap<PageId, PageFields>,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let limit = query.limit() as usize;
        let mut next = query.clone();
        let mut answer = self.read_entries(&next).await?;
        let mut looked_at = answer.items.len();
        self.leave_out(sight, &mut answer, pages).await?;
        while answer.items.len() < limit && answer.next.is_some() && looked_at < MAX_COUNTED {
            // Reads no more than is missing, so that the list continues exactly after the last entry that was checked.
            next.limit = u32::try_from(limit - answer.items.len()).unwrap_or(MAX_LIMIT);
            next.cursor = answer.next.take();
            let mut more = self.read_entries(&next).await?;
            looked_at += more.items.len();
            self.leave_out(sight, &mut more, pages).await?;
            answer.items.append(&mut more.items);
            answer.scores.append(&mut more.scores);
            answer.next = more.next;
        }
        answer.returned = answer.items.len();
        Ok(answer)
    }

    /// How many entries match `query` at `now`.
    async fn count_visible(
        &self,
        sight: &Visibility,
        mut query: EntryQuery,
        now: Timestamp,
        pages: &mut HashMap<PageId, PageFields>,
    ) -> Result<u64, WorkspaceError> {
        let (mut count, mut looked_at) = (0, 0);
        loop {
            let mut answer = self.read_entries_at(&query, now).await?;
            looked_at += answer.items.len();
            self.leave_out(sight, &mut answer, pages).await?;
            count += answer.items.len() as u64;
            query.cursor = answer.next;
            if query.cursor.is_none() || looked_at >= MAX_COUNTED {
                return Ok(count);
            }
        }
    }

    /// Removes from `answer` what `sight` does not include.
    async fn leave_out(
        &self,
        sight: &Visibility,
        answer: &mut ListAnswer<Entry>,
        pages: &mut HashMap<PageId, PageFields>,
    ) -> Result<(), WorkspaceError> {
        let mut kept = Vec::with_capacity(answer.items.len());
        for entry in &answer.items {
            let page = match pages.entry(entry.page) {
                hash_map::Entry::Occupied(known) => known.into_mut(),
                hash_map::Entry::Vacant(place) => {
                    let page = self.inner.store.page(self.space(), Ref::Id(entry.page)).await?;
                    place.insert(page.fields)
                }
            };
            kept.push(sight.includes_entry(entry, page));
        }
        let mut keep = kept.iter();
        answer.items.retain(|_| keep.next() == Some(&true));
        let mut keep = kept.iter();
        answer.scores.retain(|_| keep.next() == Some(&true));
        Ok(())
    }
}

/// The operation that `verb` names in the trace, on an entry of somebody else.
fn attempted(verb: &str) -> Operation {
    match verb {
        "get" => Operation::Read,
        "complete" => Operation::SetStatusOfOthers,
        "confirm" => Operation::Confirm,
        "pin" | "unpin" => Operation::Pin,
        "archive" => Operation::Archive,
        "restore" => Operation::Restore,
        _ => Operation::PatchOthers,
    }
}
