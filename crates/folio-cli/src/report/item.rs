//! An item of a scratchbook as people read it.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::memory::EntryKind;
use folio::memory::counted::percent;
pub(crate) use folio::memory::scratchbook::ScratchItem;
use folio::memory::view::beyond_title;
use serde::Serialize;

use super::{erased_text, first_line, instant, printable, shortened_note};
use crate::output::{Report, Style};

/// How many characters of its text a line shows.
const LINE_CHARS: usize = 120;

/// The progress of `item` in percent. A todo is either open or done, so it has none.
fn progress(item: &ScratchItem) -> Option<String> {
    let progress = item.progress.filter(|_| item.kind != EntryKind::Todo.as_str());
    progress.map(percent)
}

impl Report for ScratchItem {
    /// One line: `e42 [task/in_progress] title (phase, 60%) — body… #tag`.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let status = match self.status {
            "done" | "resolved" => style.good(self.status),
            "blocked" => style.warning(self.status),
            status => status.to_owned(),
        };
        write!(out, "{} [{}/{status}]", style.strong(&self.handle), self.kind)?;
        if self.pinned {
            write!(out, " {}", style.warning("pinned"))?;
        }
        if !self.title.is_empty() {
            write!(out, " {}", printable(&self.title))?;
        }
        let progress = progress(self);
        let stage: Vec<_> = self
            .phase
            .iter()
            .map(|phase| printable(phase))
            .chain(progress)
            .collect();
        if !stage.is_empty() {
            write!(out, " ({})", stage.join(", "))?;
        }
        let body = first_line(&beyond_title(&self.title, &self.body), LINE_CHARS);
        match (body.is_empty(), self.title.is_empty()) {
            (true, _) => {}
            (false, true) => write!(out, " {body}")?,
            (false, false) => write!(out, " — {body}")?,
        }
        if let Some(why) = self.erased {
            write!(out, " {}", style.faint(erased_text(why)))?;
        }
        for tag in &self.tags {
            write!(out, " {}", style.faint(format_args!("#{tag}")))?;
        }
        out.push('\n');
        Ok(())
    }
}

/// Everything about one item.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct InFull {
    item: ScratchItem,
    #[serde(skip)]
    now: Timestamp,
}

impl InFull {
    /// Shows `item` as it is at `now`.
    pub(crate) fn at(item: ScratchItem, now: Timestamp) -> Self {
        Self { item, now }
    }

    /// Who does the work, and until when it is theirs.
    fn owner(&self) -> Option<String> {
        let owner = printable(self.item.owner.as_ref()?);
        Some(match self.item.lease_until {
            Some(until) if until > self.now => format!("{owner} (until {})", instant(until)),
            Some(until) => format!("{owner} (the claim ended {}; anybody may claim it)", instant(until)),
            None => owner,
        })
    }
}

impl Report for InFull {
    /// Its fields, then its text.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let item = &self.item;
        let mut line = |name: &str, value: String| writeln!(out, "{} {value}", style.faint(format_args!("{name:<11}")));
        line("handle", format!("{} {}", style.strong(&item.handle), item.item_id))?;
        line("kind", item.kind.to_owned())?;
        let pinned = if item.pinned { " (pinned)" } else { "" };
        line("status", format!("{}{pinned}", item.status))?;
        if let Some(owner) = self.owner() {
            line("owner", owner)?;
        }
        if let Some(phase) = &item.phase {
            line("phase", printable(phase))?;
        }
        if let Some(progress) = progress(item) {
            line("progress", progress)?;
        }
        if !item.tags.is_empty() {
            line("tags", item.tags.join(" "))?;
        }
        let at = |nanos| instant(Timestamp::from_nanos(nanos));
        line("created", at(item.created_at_nanoseconds))?;
        let updated = at(item.updated_at_nanoseconds);
        line("updated", format!("{updated} (version {})", item.version))?;
        if let Some(why) = item.erased {
            return writeln!(out, "\n{}", style.faint(erased_text(why)));
        }
        write!(out, "\n{}\n", style.strong(printable(&item.title)))?;
        if !item.body.trim().is_empty() {
            writeln!(out, "\n{}", printable(item.body.trim_end()))?;
        }
        if let Some(notice) = shortened_note(item.body_ref.as_ref(), &item.body) {
            writeln!(out, "\n{}", style.faint(format_args!("{notice}; --whole shows all")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use folio::memory::actor::Trust;
    use folio::memory::entry::{EntryFields, Owner, Status};
    use folio::memory::id::{EntryHandle, EntryId, PageId, Seq};
    use folio::memory::{Entry, NewEntry};

    use super::*;

    #[test]
    fn item_in_full_says_who_claimed_it_and_whether_the_claim_has_ended() {
        let at = Timestamp::from_millis;
        let owner_at = |claim: Option<Option<Timestamp>>, now| {
            let mut fields = EntryFields::new(EntryKind::Task, Owner::agent(), Trust::User);
            if let Some(until) = claim {
                fields.owner = Owner::parse("ada").unwrap();
                (fields.status, fields.lease_until) = (Status::InProgress, until);
            }
            let new = NewEntry {
                id: EntryId::from_bytes([1; 16]),
                page: PageId::from_bytes([2; 16]),
                kind: EntryKind::Task,
                fields,
            };
            let entry = Entry::added(new, EntryHandle(1), Seq(1), at(0));
            InFull::at(ScratchItem::of(&entry), now).owner()
        };
        let owner = |claim| owner_at(claim, at(60_000)).unwrap_or_default();
        assert_eq!(owner(None), "");
        assert_eq!(owner(Some(None)), "ada");
        assert_eq!(
            owner(Some(Some(at(61_000)))),
            format!("ada (until {})", instant(at(61_000)))
        );
        assert_eq!(
            owner(Some(Some(at(60_000)))),
            format!("ada (the claim ended {}; anybody may claim it)", instant(at(60_000)))
        );
    }
}
