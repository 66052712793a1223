//! The order in which a tree shows its pages, from nothing but which page contains which.

use std::collections::HashMap;

use crate::id::PageHandle;

/// A page, and the page that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentOf {
    /// The page.
    pub page: PageHandle,
    /// The page that contains it; `None` for one at the top.
    pub parent: Option<PageHandle>,
}

/// The place of a page in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreePlace {
    /// How many ancestors the page has in the tree.
    pub depth: usize,
    /// The page.
    pub page: PageHandle,
}

/// The places of `pages` in their tree: each page before those that it contains, which follow in the order in which they
/// were added. With a `root`, only that page and what is below it; without one, those at the top and what is below them.
#[must_use]
pub fn in_tree_order(pages: &[ParentOf], root: Option<PageHandle>) -> Vec<TreePlace> {
    let mut below: HashMap<Option<PageHandle>, Vec<PageHandle>> = HashMap::new();
    for place in pages {
        below.entry(place.parent).or_default().push(place.page);
    }
    for contained in below.values_mut() {
        // The last one is taken first.
        contained.sort_unstable_by(|a, b| b.cmp(a));
    }
    let at = |depth| move |page| TreePlace { depth, page };
    let top = match root {
        Some(root) => vec![root],
        None => below.remove(&None).unwrap_or_default(),
    };
    let mut waiting: Vec<TreePlace> = top.into_iter().map(at(0)).collect();
    let mut tree = Vec::with_capacity(pages.len());
    while let Some(place) = waiting.pop() {
        let contained = below.remove(&Some(place.page)).unwrap_or_default();
        waiting.extend(contained.into_iter().map(at(place.depth + 1)));
        tree.push(place);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(pages: &[(u64, u64)], root: Option<u64>) -> Vec<(usize, u64)> {
        let of = |(page, parent): &(u64, u64)| ParentOf {
            page: PageHandle(*page),
            parent: (*parent > 0).then_some(PageHandle(*parent)),
        };
        let pages: Vec<_> = pages.iter().map(of).collect();
        let order = in_tree_order(&pages, root.map(PageHandle));
        order.into_iter().map(|place| (place.depth, place.page.0)).collect()
    }

    #[test]
    fn pages_follow_the_page_that_contains_them_in_the_order_of_their_numbers() {
        let pages = [(5, 1), (1, 0), (2, 0), (3, 1), (4, 3), (6, 2)];
        assert_eq!(places(&pages, None), [(0, 1), (1, 3), (2, 4), (1, 5), (0, 2), (1, 6)]);
        assert_eq!(places(&pages, Some(3)), [(0, 3), (1, 4)]);
        assert_eq!(places(&[], None), []);
    }

    #[test]
    fn page_below_one_that_is_not_given_is_in_no_tree() {
        assert_eq!(places(&[(1, 0), (3, 2)], None), [(0, 1)]);
    }
}
