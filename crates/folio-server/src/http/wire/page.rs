//! Pages, and what is on them.

use folio::Timestamp;
use folio::memory::entry::BodyRef;
use folio::memory::{Entry, Page};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A page, with the properties that seed 000 names.
#[derive(Debug, Serialize)]
pub(crate) struct PageShape {
    page_id: String,
    handle: String,
    type_key: &'static str,
    role: &'static str,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    homework_run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    owner: String,
    status: String,
    tags: Vec<String>,
    props: Value,
    version: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl PageShape {
    /// `page` as programs read it.
    pub(crate) fn of(page: &Page) -> Self {
        let fields = &page.fields;
        let tags: Vec<_> = fields.tags.iter().map(ToString::to_string).collect();
        let run = fields.run.map(|run| run.to_string());
        let mut props = match &fields.props {
            Some(Value::Object(props)) => props.clone(),
            _ => Map::new(),
        };
        props.insert("homework_run_id".to_owned(), json!(run));
        props.insert("doc_role".to_owned(), json!(fields.role.as_str()));
        props.insert("branch_id".to_owned(), json!(fields.branch_id));
        props.insert("iteration".to_owned(), json!(fields.iteration));
        props.insert("owner".to_owned(), json!(fields.owner.as_str()));
        props.insert("tags".to_owned(), json!(tags));
        Self {
            page_id: page.id.to_string(),
            handle: page.handle.to_string(),
            type_key: fields.role.type_key(),
            role: fields.role.as_str(),
            title: fields.title.clone(),
            parent: fields.parent.map(|parent| parent.to_string()),
            homework_run_id: run,
            branch_id: fields.branch_id.clone(),
            iteration: fields.iteration,
            thread: fields.thread.as_ref().map(ToString::to_string),
            owner: fields.owner.to_string(),
            status: fields.status.clone(),
            tags,
            props: Value::Object(props),
            version: page.version,
            created_at: page.created_at,
            updated_at: page.updated_at,
        }
    }

    /// Its handle.
    pub(crate) fn handle(&self) -> &str {
        &self.handle
    }
}

/// What is on a page.
#[derive(Debug, Serialize)]
pub(crate) struct EntryShape {
    handle: String,
    entry_id: String,
    kind: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
    status: &'static str,
    title: String,
    body: String,
    /// Where the whole is of a long text, of which `body` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_ref: Option<BodyRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Value>,
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<u32>,
    version: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl EntryShape {
    /// `entry` as programs read it.
    pub(crate) fn of(entry: &Entry) -> Self {
        let fields = &entry.fields;
        Self {
            handle: entry.handle.to_string(),
            entry_id: entry.id.to_string(),
            kind: entry.kind.as_str(),
            type_name: fields.type_name.clone(),
            status: fields.status.as_str(),
            title: fields.title.clone(),
            body: fields.body.clone(),
            body_ref: fields.body_ref.clone(),
            parts: fields.parts.clone(),
            tags: fields.tags.iter().map(ToString::to_string).collect(),
            iteration: fields.iteration,
            version: entry.version,
            created_at: entry.created_at,
            updated_at: entry.updated_at,
        }
    }
}
