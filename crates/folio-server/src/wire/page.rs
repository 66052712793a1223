//! Pages, and what is on them.

use folio::Timestamp;
use folio::memory::entry::BodyRef;
use folio::memory::{Entry, Page};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A page, with the properties that seed 000 names.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PageShape {
    /// For ever.
    pub page_id: String,
    /// For people and models: `e42`, `p7`, `r3`, `t5`.
    pub handle: String,
    /// As seed 000 names it.
    pub type_key: &'static str,
    /// What the page is for.
    pub role: &'static str,
    /// What it is called.
    pub title: String,
    /// The page that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The run that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homework_run_id: Option<String>,
    /// The path of the task whose branch it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// The version of the plan in which it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The thread that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Whose page it is.
    pub owner: String,
    /// Where its work stands.
    pub status: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The properties that seed 000 names.
    pub props: Value,
    /// Counts its revisions, from 1; what `If-Match` takes.
    pub version: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl PageShape {
    /// `page` as programs read it.
    pub fn of(page: &Page) -> Self {
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
}

/// What is on a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EntryShape {
    /// For people and models: `e42`, `p7`, `r3`, `t5`.
    pub handle: String,
    /// For ever.
    pub entry_id: String,
    /// What sort of content it holds.
    pub kind: &'static str,
    /// The registered type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// Where its work stands.
    pub status: &'static str,
    /// What it is called.
    pub title: String,
    /// The text; of a long one the beginning.
    pub body: String,
    /// Where the whole is of a long text, of which `body` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<BodyRef>,
    /// The parts of a structured block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Value>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The version of the plan in which it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// Counts its revisions, from 1; what `If-Match` takes.
    pub version: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl EntryShape {
    /// `entry` as programs read it.
    pub fn of(entry: &Entry) -> Self {
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

/// An edge of the tree.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LinkShape {
    /// Where it begins.
    pub src: String,
    /// What it says: `document_has_document`.
    pub relation: &'static str,
    /// Where it ends.
    pub dst: String,
}
