//! Pages, their entries, and the tree that they form.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use folio::memory::page_tree::TreePlace;
use folio::memory::{Entry, Page, PageHandle};
pub(crate) use folio_server::wire::{EntryShape, LinkShape, PageShape};
use serde::Serialize;

use super::for_people;
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
    /// What commands in it have to repeat.
    #[serde(skip)]
    options: String,
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
    /// `page` with `entries`, the pages that it contains, and the page as markdown, in which commands repeat `options`.
    pub(crate) fn of(page: &Page, entries: &[Entry], children: &[Page], markdown: String, options: &str) -> Self {
        let mut shape = PageShape::of(page);
        shape
            .links
            .extend(children.iter().map(|child| LinkShape::contains(page.id, child.id)));
        Self {
            page: shape,
            entries: entries.iter().map(EntryShape::of).collect(),
            markdown,
            options: options.to_owned(),
        }
    }
}

impl Report for PageInFull {
    /// The markdown.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&for_people(&self.markdown, &self.options));
        Ok(())
    }
}

/// A tree of pages.
#[derive(Debug, Serialize)]
pub(crate) struct PageTree {
    roots: Vec<PageNode>,
    total: usize,
    /// How many roots, and pages below them, are left out.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    left_out: usize,
    /// The options that another command needs to use the same space.
    #[serde(skip)]
    again: String,
}

/// How many levels of pages a tree has at most: readers of JSON refuse what is nested much deeper.
pub(crate) const MAX_DEPTH: usize = 50;

/// A page with the pages that it contains.
#[derive(Debug, Serialize)]
struct PageNode {
    #[serde(flatten)]
    page: PageShape,
    children: Vec<Self>,
    /// How many pages below it are left out, apart from those that a page below it counts.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    left_out: usize,
}

impl PageTree {
    /// Returns which of the pages at `places`, parents before children, are in the tree. If a `limit` is given, at most
    /// so many are: those nearer to the top first, then in order.
    pub(crate) fn shown(places: &[TreePlace], limit: Option<u32>) -> Vec<PageHandle> {
        let mut room = within(places, limit);
        let has_room = |place: &&TreePlace| match room.get_mut(place.depth) {
            None | Some(0) => false,
            Some(room) => {
                *room -= 1;
                true
            }
        };
        places.iter().filter(has_room).map(|place| place.page).collect()
    }

    /// Builds the tree from `places` and the `pages` that [`PageTree::shown`] names, in the same order. `again` has the
    /// options that another command repeats.
    pub(crate) fn of(places: &[TreePlace], pages: Vec<Page>, again: &str) -> Self {
        let mut rest = places;
        let mut shown = pages.into_iter().map(|page| (page.handle, page)).collect();
        let (roots, left_out) = nested(&mut rest, 0, &mut shown);
        Self {
            roots,
            total: places.len(),
            left_out,
            again: again.to_owned(),
        }
    }
}

/// Returns for each depth how many pages of it are within `limit`: all, until there is no room, and then the first.
fn within(nodes: &[TreePlace], limit: Option<u32>) -> Vec<usize> {
    let mut counts = vec![0; MAX_DEPTH];
    for node in nodes.iter().filter(|node| node.depth < MAX_DEPTH) {
        counts[node.depth] += 1;
    }
    let mut room = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    for count in &mut counts {
        *count = room.min(*count);
        room -= *count;
    }
    counts
}

/// Takes the nodes of `depth` and those below them from the front of `rest`. Returns those that are among the pages that
/// are `shown`, which it takes as well, and how many of all of them have no place in what is returned.
fn nested(rest: &mut &[TreePlace], depth: usize, shown: &mut HashMap<PageHandle, Page>) -> (Vec<PageNode>, usize) {
    if depth >= MAX_DEPTH {
        let below = rest.iter().take_while(|node| node.depth >= depth).count();
        *rest = &rest[below..];
        return (Vec::new(), below);
    }
    let (mut level, mut without_place) = (Vec::new(), 0);
    while let Some((node, after)) = rest.split_first().filter(|(node, _)| node.depth >= depth) {
        *rest = after;
        let (children, left_out) = nested(rest, node.depth + 1, shown);
        let Some(page) = shown.remove(&node.page) else {
            without_place += 1 + left_out;
            continue;
        };
        level.push(PageNode {
            page: PageShape::of(&page),
            children,
            left_out,
        });
    }
    (level, without_place)
}

impl Report for PageTree {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let mut below = Vec::new();
        // To look at the only root is to look at this tree again.
        let whole = self.roots.len() == 1;
        for root in &self.roots {
            root.page.text(out, style)?;
            branch(out, style, root, &mut below, &self.again)?;
            if root.left_out > 0 {
                let more = counted_more(root.left_out);
                let way = match whole {
                    true => format!("… {more}; --limit shows more"),
                    false => format!("… {more}: folio tree {}{}", root.page.handle, self.again),
                };
                writeln!(out, "{}{}", style.faint("└─ "), style.faint(way))?;
            }
        }
        if self.left_out > 0 {
            let more = format_args!("… {}; --limit shows more", counted_more(self.left_out));
            writeln!(out, "{}", style.faint(more))?;
        }
        Ok(())
    }
}

fn counted_more(left_out: usize) -> String {
    let pages = if left_out == 1 { "page" } else { "pages" };
    format!("{left_out} more {pages}")
}

/// Draws what is below `node`. `above` says for each ancestor whether more siblings follow it.
fn branch(out: &mut String, style: Style, node: &PageNode, above: &mut Vec<bool>, again: &str) -> fmt::Result {
    let lead = |out: &mut String, above: &[bool], more: bool| {
        let mut lead: String = above.iter().map(|more| if *more { "│  " } else { "   " }).collect();
        lead.push_str(if more { "├─ " } else { "└─ " });
        out.push_str(&style.faint(lead));
    };
    for (position, child) in node.children.iter().enumerate() {
        let more = position + 1 < node.children.len() || node.left_out > 0;
        lead(out, above, more);
        child.page.text(out, style)?;
        above.push(more);
        branch(out, style, child, above, again)?;
        if child.left_out > 0 {
            lead(out, above, false);
            let (more, handle) = (counted_more(child.left_out), &child.page.handle);
            writeln!(
                out,
                "{}",
                style.faint(format_args!("… {more}: folio tree {handle}{again}"))
            )?;
        }
        above.pop();
    }
    Ok(())
}
