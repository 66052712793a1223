//! Importing a memory bank: a folder of markdown files that a model reads at the start of every task.

use std::collections::HashMap;

use serde_json::{Map, json};

use super::{Collector, Destination, Earlier, Foreign, Said, TextFile};
use crate::change::NewPage;
use crate::entry::{EntryKind, Owner, Status};
use crate::page::{PageFields, PageRole};

/// Reads `files`, whose folder is called `name`: its path from the project's folder if every project uses the same
/// folder name. A file becomes a page, and each of its sections a note with the heading as its title and the text up to
/// the next heading.
///
/// The folder itself becomes the page that contains those of its files. The ids depend on the thread as well, because
/// files and headings have the same names in every project.
#[must_use]
pub fn memory_bank(name: &str, files: &[TextFile], to: &Destination) -> Foreign {
    let mut gathered = Collector::new("memory-bank", to);
    let mut earlier = Earlier::default();
    // The name that an earlier version used, without the thread and the project's folder.
    let folder = name.rsplit('/').next().unwrap_or(name);
    let add_page = |gathered: &mut Collector<'_>, earlier: &mut Earlier, names: [&str; 2], fields| {
        let id = gathered.page_id_in(&to.thread, names[0]);
        earlier.pages.insert(id, gathered.page_id(names[1]));
        gathered.add_page(NewPage { id, fields })
    };
    let bank = PageFields::new(PageRole::Note, name, Owner::agent());
    let bank = add_page(&mut gathered, &mut earlier, [name, folder], bank);
    for TextFile { path, text } in files {
        let sections = sections(text);
        let first = sections.iter().find(|section| section.level == 1);
        let stem = path.strip_suffix(".md").unwrap_or(path);
        let title = first
            .map(|section| section.heading)
            .filter(|heading| !heading.is_empty());
        let mut fields = PageFields::new(PageRole::Note, title.unwrap_or(stem), Owner::agent());
        fields.parent = Some(bank);
        fields.props = Some(json!({"path": path, "brought_from": "memory-bank"}));
        let (file, earlier_file) = (format!("{name}/{path}"), format!("{folder}/{path}"));
        let page = add_page(&mut gathered, &mut earlier, [&file, &earlier_file], fields);
        let mut headings = HashMap::new();
        for (number, section) in (1_u32..).zip(sections) {
            let body = section.body.trim_matches('\n');
            if body.trim().is_empty() && section.heading.is_empty() {
                continue;
            }
            let item = Said {
                name: format!("{path} {number}: {}", section.heading),
                kind: EntryKind::Note,
                page,
                title: section.heading,
                body: body.to_owned(),
                status: Status::Active,
                tags: Vec::new(),
                times: (None, None),
                rest: Map::from_iter([("level".to_owned(), section.level.into())]),
                earlier: Some(gathered.id(&earlier_file, &number.to_string())),
            };
            // A section is identified by its heading and its number among equal headings. So a section that was changed
            // in the file is reported and not added beside the old one, and a section inserted before others is new.
            let occurrence = headings.entry(section.heading).or_insert(0_u32);
            *occurrence += 1;
            let section = format!("{}\n{occurrence}", section.heading);
            let id = gathered.id_in(&to.thread, &file, &section);
            earlier.entries.insert(id, gathered.id(&earlier_file, &section));
            gathered.add(id, item);
        }
    }
    gathered.foreign.earlier = Some(earlier);
    gathered.foreign
}

/// A section of a file: a heading and the text below it.
#[derive(Debug, PartialEq, Eq)]
struct Section<'a> {
    /// The level of the heading, from 1; 0 for the text before the first heading.
    level: usize,
    heading: &'a str,
    body: &'a str,
}

/// The sections of `text`. Lines within a code block are not headings.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found = Vec::new();
    let (mut level, mut heading, mut start) = (0, "", 0);
    let mut fence: Option<&str> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let trimmed = line.trim_end();
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|mark| trimmed.trim_start().starts_with(mark));
        match (fence, marker) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => {
                let depth = trimmed.bytes().take_while(|byte| *byte == b'#').count();
                let is_heading = (1..=6).contains(&depth) && trimmed[depth..].starts_with([' ', '\t']);
                if is_heading {
                    found.push(Section {
                        level,
                        heading,
                        body: &text[start..at],
                    });
                    (level, heading, start) = (depth, trimmed[depth..].trim(), end);
                }
            }
            _ => {}
        }
        at = end;
    }
    found.push(Section {
        level,
        heading,
        body: &text[start..],
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_file_is_split_at_headings_outside_code_fences() {
        let text = "before\n# One\n\n```\n# no heading\n```\n#no heading either\n## Two \nend";
        let cut: Vec<_> = sections(text)
            .into_iter()
            .map(|section| (section.level, section.heading, section.body))
            .collect();
        let below_one = "\n```\n# no heading\n```\n#no heading either\n";
        assert_eq!(cut, [(0, "", "before\n"), (1, "One", below_one), (2, "Two", "end")]);
    }
}
