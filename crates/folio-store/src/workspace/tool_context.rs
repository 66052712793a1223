//! What a tool asks about the scratch page before it works (seed 004).

use folio_memory::tool_exchange::{ContextItem, ContextQuery, ToolRequest, context_query};
use folio_memory::trace::FAILED;
use folio_memory::{Actor, Entry, EntryQuery, Tag};
use serde_json::{Value, json};

use super::operation_notes::error_detail;
use super::{Workspace, WorkspaceError};

/// How many observations are read at most to find those with a tag that the tool may see.
const LOOKED_AT: usize = 10_000;

impl Workspace {
    /// Returns what `request` asks about the scratch page, as far as `actor` may see it by its manifest.
    ///
    /// Never fails: an invalid query or an unreadable store gives an empty answer and a line in the trace (M7.2.19),
    /// because a tool can work without it.
    pub async fn tool_context(&self, actor: &Actor, request: &ToolRequest) -> Vec<ContextItem> {
        self.try_tool_context(actor, request).await.unwrap_or_default()
    }

    /// Like [`Workspace::tool_context`], for callers that need the error: people and their programs. The error is a
    /// line in the trace as well.
    ///
    /// # Errors
    ///
    /// `Invalid` for a field that is not a filter; `Unavailable` or `Corrupt`.
    pub async fn try_tool_context(
        &self,
        actor: &Actor,
        request: &ToolRequest,
    ) -> Result<Vec<ContextItem>, WorkspaceError> {
        let Some(query_json) = &request.scratch_page_query else {
            return Ok(Vec::new());
        };
        let found = self.answer_tool(actor, query_json).await;
        found.inspect_err(|error| {
            let as_actor = self.asked_by(actor);
            let note = as_actor.noted("scratch_page", "list_observations").with_status(FAILED);
            let mut detail = error_detail(error);
            detail.insert("filters".to_owned(), query_json.clone());
            as_actor.note(note.with_detail(detail));
        })
    }

    async fn answer_tool(&self, actor: &Actor, query_json: &Value) -> Result<Vec<ContextItem>, WorkspaceError> {
        let scope = self.policy().await?.manifests.of(&actor.name).reads;
        let query = match context_query(query_json, &scope)? {
            ContextQuery::Asks(query) => *query,
            ContextQuery::Nothing => {
                let note = self.asked_by(actor).noted("scratch_page", "list_observations");
                self.note(note.with_detail(json!({"filters": query_json, "returned": 0, "total": 0})));
                return Ok(Vec::new());
            }
        };
        let as_actor = self.asked_by(actor);
        let found = if scope.tags.is_empty() {
            as_actor.observations(query).await?.items
        } else {
            as_actor.tagged(query, &scope.tags).await?
        };
        Ok(found.iter().map(ContextItem::of).collect())
    }

    /// The observations that match `query` and have one of `tags`.
    async fn tagged(&self, query: EntryQuery, tags: &[Tag]) -> Result<Vec<Entry>, WorkspaceError> {
        let limit = query.limit() as usize;
        let mut query = EntryQuery {
            limit: folio_memory::query::MAX_LIMIT,
            ..query
        };
        if query.tags_any.is_empty() {
            query.tags_any = tags.to_vec();
        }
        let (mut found, mut looked_at) = (Vec::new(), 0);
        loop {
            let answer = self.observations(query.clone()).await?;
            looked_at += answer.returned;
            let seen = answer.items.into_iter();
            found.extend(seen.filter(|entry| entry.fields.tags.iter().any(|tag| tags.contains(tag))));
            match answer.next {
                Some(next) if found.len() < limit && looked_at < LOOKED_AT => query.cursor = Some(next),
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}
