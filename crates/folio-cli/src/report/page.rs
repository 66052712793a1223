//! Pages, their entries, and the tree that they form.

use std::fmt::{self, Write as _};

use folio::memory::{Entry, Page};
use folio::store::workspace::TreeNode;
pub(crate) use folio_server::wire::{EntryShape, LinkShape, PageShape};
use serde::Serialize;

use super::printable;
use crate::output::{Report, Style};

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
        writeln!(
            out,
            "{handle} {} {role} {status}",
            folio::memory::view::one_line(&self.title)
        )
    }
}

/// A page with its entries.
#[derive(Debug, Serialize)]
pub(crate) struct PageInFull {
    #[serde(flatten)]
    page: PageShape,
    entries: Vec<EntryShape>,
    /// The page as people read it.
    markdown: String,
}

impl Report for EntryShape {
    /// One line saying that the entry was written.
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
        let mut shape = PageShape::of(page);
        shape
            .links
            .extend(children.iter().map(|child| LinkShape::contains(page.id, child.id)));
        Self {
            page: shape,
            entries: entries.iter().map(EntryShape::of).collect(),
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
    /// Builds the tree from `nodes`, parents before children.
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

/// Draws `children`. `above` says for each ancestor whether more siblings follow it.
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
