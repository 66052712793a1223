//! Pages and their entries.

use folio::Timestamp;
use folio::memory::entry::BodyRef;
use folio::memory::{Entry, Page, PageId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A page, with the properties that seed 000 names.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PageShape {
    /// The page's permanent id.
    pub page_id: String,
    /// The page's handle, such as `p7`.
    pub handle: String,
    /// The name that seed 000 has for the page's role.
    pub type_key: &'static str,
    /// The page role, which says what the page is for.
    pub role: &'static str,
    /// The page's title.
    pub title: String,
    /// The id of the page that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The id of the run that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homework_run_id: Option<String>,
    /// The path of the task whose branch this page is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// The version of the plan during which it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The thread that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The page's owner.
    pub owner: String,
    /// The status of the work on it.
    pub status: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The properties that seed 000 names.
    pub props: Value,
    /// The link to this page from the page that contains it; empty for a page that none contains.
    pub links: Vec<LinkShape>,
    /// The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    pub version: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl PageShape {
    /// Returns `page` in its wire form.
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
            links: fields
                .parent
                .map(|parent| LinkShape::contains(parent, page.id))
                .into_iter()
                .collect(),
            version: page.version,
            created_at: page.created_at,
            updated_at: page.updated_at,
        }
    }
}

/// An entry of a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EntryShape {
    /// The entry's handle, such as `e42`.
    pub handle: String,
    /// The entry's permanent id.
    pub entry_id: String,
    /// The entry's kind.
    pub kind: &'static str,
    /// The registered type of an observation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The status of the entry.
    pub status: &'static str,
    /// The entry's title.
    pub title: String,
    /// The text; only the beginning if it is long.
    pub body: String,
    /// Where the whole of a long text is kept, of which `body` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<BodyRef>,
    /// The parts of a structured block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Value>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The version of the plan during which it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    pub version: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl EntryShape {
    /// Returns `entry` in its wire form.
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

/// A link from a page to a page that it contains.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LinkShape {
    /// The id of the containing page.
    pub src: String,
    /// The relation: `document_has_document`.
    pub relation: &'static str,
    /// The id of the contained page.
    pub dst: String,
}

impl LinkShape {
    /// Returns the link that says that the page `parent` contains the page `child`.
    pub fn contains(parent: PageId, child: PageId) -> Self {
        Self {
            src: parent.to_string(),
            relation: "document_has_document",
            dst: child.to_string(),
        }
    }
}
