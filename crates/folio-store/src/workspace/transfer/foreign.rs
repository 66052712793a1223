//! Brings in memory that other programs keep.

use std::collections::HashMap;

use folio_memory::entry::ImportedTimes;
use folio_memory::foreign::{Foreign, ForeignItem};
use folio_memory::id::{EntryHandle, PageHandle};
use folio_memory::roles::Operation;
use folio_memory::transfer::{EntryLine, PageLine};
use folio_memory::{Actor, EntryId, NewEntry, NewPage};

use super::super::{Workspace, WorkspaceError, long_text, redact};
use super::difference;
use super::incoming::{ImportOptions, Incoming};
use super::lines::Lines;
use super::report::Imported;

impl Workspace {
    /// Brings in the contents of a file of another program. Entries whose id already exists stay as they are, so
    /// bringing in the same file twice adds nothing; everything is redacted by the policy of this space. `progress`
    /// receives the report so far.
    ///
    /// # Errors
    ///
    /// `Refused` unless the actor is a person; otherwise as [`Workspace::record`].
    pub async fn import_foreign(
        &self,
        actor: &Actor,
        mut foreign: Foreign,
        options: ImportOptions,
        progress: &mut (dyn FnMut(&Imported) + Send),
    ) -> Result<Imported, WorkspaceError> {
        self.authorise(
            actor,
            Operation::Import,
            "memory of another program",
            ("transfer", "import"),
        )?;
        let mut incoming = Incoming::new(actor, options);
        for (name, invalid) in &foreign.refused {
            incoming.report.refuse(name, invalid);
        }
        if self.came_by_an_earlier_version(&foreign).await? {
            foreign.take_earlier_ids();
        }
        let now = self.now();
        for NewPage { id, fields } in foreign.pages {
            let line = PageLine {
                id,
                handle: PageHandle(0),
                created_at: now,
                updated_at: now,
                fields,
            };
            self.import_page(&mut incoming, id.to_string(), line, self.space())
                .await?;
            self.write_full_batch(&mut incoming, progress).await?;
        }
        let mut none = Lines::none();
        let mut renamed = HashMap::new();
        for item in foreign.items {
            let id = self.id_here(&item).await?;
            renamed.extend((id != item.new.id).then(|| (item.new.id.to_string(), id.to_string())));
            let ForeignItem { name, new, changed, .. } = item;
            let NewEntry { page, kind, fields, .. } = new;
            let (created_at, updated_at) = ImportedTimes::times(fields.brought, now);
            let line = EntryLine {
                id,
                handle: EntryHandle(0),
                page,
                kind,
                version: 1,
                created_at,
                updated_at,
                fields,
            };
            let present = incoming.report.present;
            self.import_entry(&mut incoming, name.clone(), line, &mut none).await?;
            if incoming.report.present == present {
                incoming.report.adapted(&name, &changed);
            }
            self.write_full_batch(&mut incoming, progress).await?;
        }
        for (name, mut link) in foreign.links {
            for end in [&mut link.src, &mut link.dst] {
                if let Some(here) = renamed.get(end) {
                    end.clone_from(here);
                }
            }
            incoming.take_link(name, link);
            self.write_full_batch(&mut incoming, progress).await?;
        }
        self.write_batch(&mut incoming).await?;
        progress(&incoming.report);
        Ok(incoming.report)
    }

    /// Whether the entries here under the ids of an earlier version are these, and not those of another project with
    /// the same names: most of them have the same content.
    async fn came_by_an_earlier_version(&self, foreign: &Foreign) -> Result<bool, WorkspaceError> {
        let Some(earlier) = &foreign.earlier else {
            return Ok(false);
        };
        let mode = self.redaction().await?;
        let (mut known, mut same) = (0_usize, 0_usize);
        for item in &foreign.items {
            let ids = earlier
                .entries
                .get(&item.new.id)
                .copied()
                .into_iter()
                .chain(item.earlier);
            let page = earlier.pages.get(&item.new.page);
            for id in ids {
                let Some(existing) = self
                    .stored_entry_if_there(id)
                    .await?
                    .filter(|existing| Some(&existing.page) == page)
                else {
                    continue;
                };
                let mut cleaned = item.new.clone();
                redact::clean_new(&mut cleaned, None, mode);
                long_text::shorten(&mut cleaned.fields);
                let differs = difference::between(&cleaned.fields, &existing.fields);
                known += 1;
                same += usize::from(!differs.contains(&"title") && !differs.contains(&"body"));
                break;
            }
        }
        Ok(known > 0 && 2 * same >= known)
    }

    /// The id of `item` here: the one that an earlier version gave it, if that brought it in.
    async fn id_here(&self, item: &ForeignItem) -> Result<EntryId, WorkspaceError> {
        let Some(earlier) = item.earlier else {
            return Ok(item.new.id);
        };
        let existing = self.stored_entry_if_there(earlier).await?;
        Ok(existing
            .filter(|existing| item.is_same_item(existing))
            .map_or(item.new.id, |existing| existing.id))
    }
}
