//! Writing what comes in parts: one transaction, in which nobody else writes to the space.

use std::sync::Arc;

use super::Inner;
use super::commit;
use super::error::Failure;
use super::patience::patiently;
use super::session::{Purpose, Unwritten};
use crate::error::StoreError;
use crate::parts::{self, CommittedParts, Parts};

impl Inner {
    /// Writes the commits that `parts` yields, until their end.
    pub(super) async fn commit_parts(&self, mut parts: Parts) -> Result<CommittedParts, StoreError> {
        let failed = |failure: Failure| failure.into_error("write to", &self.target.location);
        let first = self
            .prepared(parts.next().await?.ok_or_else(parts::no_parts_error)?)
            .await?;
        let missing_space = || Failure::Damaged("a space that was made is not there".to_owned());
        let _alone = self.writer.in_parts.acquire().await;
        // As long as there is only one part, it can be retried.
        let opened = patiently!(self, {
            let session = self.begin_write(&first.space, true, Purpose::Write).await?;
            let Some(session) = session else { return Ok(None) };
            let committed = Box::pin(commit::add(&session, &first, &self.owners)).await?;
            Ok(Some((session, CommittedParts::begin(committed))))
        });
        let (session, mut committed): (Arc<_>, _) =
            opened.map_err(failed)?.ok_or_else(missing_space).map_err(failed)?;
        if committed.first.replayed {
            return Ok(committed);
        }
        while let Some(part) = parts.next().await? {
            parts::of_one_space(&first.space, &part.space)?;
            let part = self.prepared(part).await?;
            let added = Box::pin(commit::add(&session, &part, &self.owners)).await;
            committed.add(&added.map_err(failed)?);
        }
        let ended = commit::end(&session, committed.head).await;
        ended.map_err(|unwritten| match unwritten {
            Unwritten::Certainly(failure) | Unwritten::Perhaps(failure) => failed(failure),
        })?;
        self.wake.ring(session.space, committed.head);
        Ok(committed)
    }
}
