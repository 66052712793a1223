//! Pages, what is on them, and the tree that they make.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::memory::entry::BodyRef;
use folio::memory::{Entry, Page};
use folio::store::workspace::TreeNode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::printable;
use crate::output::{Report, Style};

/// A page, with the properties and links that seed 000 names.
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
}

impl Report for PageShape {
    /// One line.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let status = match self.status.as_str() {
            "failed" => style.bad(&self.status),
            "partial" | "cancelled" => style.warning(&self.status),
            "ok" => style.good(&self.status),
            status => style.faint(status),
        };
        let (handle, role) = (style.strong(&self.handle), style.faint(self.role));
        writeln!(out, "{handle} {} {role} {status}", printable(&self.title))
    }
}

/// A page with what is on it.
#[derive(Debug, Serialize)]
pub(crate) struct PageInFull {
    #[serde(flatten)]
    page: PageShape,
    entries: Vec<EntryShape>,
    links: Vec<LinkShape>,
    /// The page as people read it.
    markdown: String,
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
    /// Of a long text, `body` is the beginning, or all of it if that was asked for.
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

/// An edge of the tree.
#[derive(Debug, Serialize)]
struct LinkShape {
    src: String,
    relation: &'static str,
    dst: String,
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

impl Report for EntryShape {
    /// One line that says that it was written.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let text = if self.title.is_empty() { &self.body } else { &self.title };
        writeln!(
            out,
            "{} [{}] {}",
            style.strong(&self.handle),
            self.kind,
            super::first_line(text, 120)
        )
    }
}

impl PageInFull {
    /// `page` with `entries`, the pages that it contains, and the page as markdown.
    pub(crate) fn of(page: &Page, entries: &[Entry], children: &[Page], markdown: String) -> Self {
        let contains = |src: String, dst: String| LinkShape {
            src,
            relation: "document_has_document",
            dst,
        };
        let parent = page
            .fields
            .parent
            .map(|parent| contains(parent.to_string(), page.id.to_string()));
        let children = children
            .iter()
            .map(|child| contains(page.id.to_string(), child.id.to_string()));
        Self {
            page: PageShape::of(page),
            entries: entries.iter().map(EntryShape::of).collect(),
            links: parent.into_iter().chain(children).collect(),
            markdown,
        }
    }
}

impl Report for PageInFull {
    /// The markdown.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&printable(&self.markdown));
        Ok(())
    }
}

/// A tree of pages.
#[derive(Debug, Serialize)]
pub(crate) struct PageTree {
    roots: Vec<PageNode>,
    total: usize,
}

/// A page with the pages that it contains.
#[derive(Debug, Serialize)]
struct PageNode {
    #[serde(flatten)]
    page: PageShape,
    children: Vec<Self>,
}

impl PageTree {
    /// `nodes`, each before those below it, as they are nested.
    pub(crate) fn of(nodes: &[TreeNode]) -> Self {
        let mut rest = nodes;
        Self {
            roots: nested(&mut rest, 0),
            total: nodes.len(),
        }
    }
}

/// Takes the nodes of `depth` and those below them from the front of `rest`.
fn nested(rest: &mut &[TreeNode], depth: usize) -> Vec<PageNode> {
    let mut level = Vec::new();
    while let Some((node, after)) = rest.split_first().filter(|(node, _)| node.depth >= depth) {
        *rest = after;
        let children = nested(rest, node.depth + 1);
        level.push(PageNode {
            page: PageShape::of(&node.page),
            children,
        });
    }
    level
}

impl Report for PageTree {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let mut below = Vec::new();
        for root in &self.roots {
            root.page.text(out, style)?;
            branch(out, style, &root.children, &mut below)?;
        }
        Ok(())
    }
}

/// Draws `children` under the ancestors in `above`: whether each of them has more to come.
fn branch(out: &mut String, style: Style, children: &[PageNode], above: &mut Vec<bool>) -> fmt::Result {
    for (position, child) in children.iter().enumerate() {
        let more = position + 1 < children.len();
        let mut lead: String = above.iter().map(|more| if *more { "│  " } else { "   " }).collect();
        lead.push_str(if more { "├─ " } else { "└─ " });
        out.push_str(&style.faint(lead));
        child.page.text(out, style)?;
        above.push(more);
        branch(out, style, &child.children, above)?;
        above.pop();
    }
    Ok(())
}
