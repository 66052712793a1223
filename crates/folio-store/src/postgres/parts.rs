//! Writing what comes in parts: one transaction, in which nobody else writes to the space.

use std::sync::Arc;

use folio_memory::{Seq, Timestamp};
use tokio::time::Instant;

use super::Inner;
use super::commit::{self, Fate};
use super::error::Failure;
use super::patience::{Wait, patiently};
use super::session::{Purpose, Unwritten};
use super::writer::outcome_unknown;
use crate::error::StoreError;
use crate::parts::{self, CommittedParts, Parts};
use crate::prepare::Prepared;

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
        let wait = Wait::begin();
        let opened = patiently!(self, wait, {
            let session = self.begin_write(&first.space, true, Purpose::Write, wait).await?;
            let Some(session) = session else { return Ok(None) };
            let committed = Box::pin(commit::add(&session, &first, &self.owners)).await?;
            Ok(Some((session, CommittedParts::begin(committed))))
        });
        let (session, mut committed): (Arc<_>, _) =
            opened.map_err(failed)?.ok_or_else(missing_space).map_err(failed)?;
        if committed.first.replayed {
            return Ok(committed);
        }
        let mut last = (first, committed.head, committed.at);
        while let Some(part) = parts.next().await? {
            parts::of_one_space(&last.0.space, &part.space)?;
            let part = self.prepared(part).await?;
            let wait = session.wait_anew();
            let added = Box::pin(commit::add(&session, &part, &self.owners)).await;
            let added = added.map_err(|failure| failed(failure.after_waiting(wait)))?;
            committed.add(&added);
            if !added.replayed {
                last = (part, added.seq, added.at);
            }
        }
        let wait = session.wait_anew();
        let space = session.space;
        match commit::end(&session, committed.head).await {
            Ok(()) => {}
            Err(Unwritten::Certainly(failure)) => return Err(failed(failure.after_waiting(wait))),
            Err(Unwritten::Perhaps(failure)) => {
                // Its connection is of no use any more.
                drop(session);
                self.drop_useless_connections(&failure);
                self.find_last_part(&last, failure, wait).await.map_err(failed)?;
            }
        }
        self.wake.ring(space, committed.head);
        Ok(committed)
    }

    /// Finds out whether a write in parts was made durable whose connection was lost, as `lost` says, before the server
    /// had answered: then its last part is there. The parts themselves are not there any more to be written again.
    async fn find_last_part(
        &self,
        (last, seq, at): &(Prepared, Seq, Timestamp),
        lost: Failure,
        wait: Wait,
    ) -> Result<(), Failure> {
        self.reach.note_failure(&lost, Instant::now());
        let fate = patiently!(self, wait, {
            match self.begin_write(&last.space, false, Purpose::Write, wait).await? {
                Some(session) => commit::fate_of_last(&session, last, *seq, *at).await,
                None => Ok(Fate::NotWritten),
            }
        });
        match fate? {
            Fate::Written => Ok(()),
            Fate::NotWritten => Err(Failure::Refused(StoreError::Unavailable {
                doing: "write to",
                location: self.target.location.clone(),
                reason: "the connection to the server was lost before everything was written: nothing was written; try again"
                    .to_owned(),
                source: None,
            })),
            Fate::Unknown => Err(Failure::Refused(outcome_unknown(&self.target.location))),
        }
    }
}
