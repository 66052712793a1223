//! The end of a turn: settle goals, evaluate, export, learn and archive, in this order (M7.11.2, M7.5.42).

use std::collections::BTreeSet;
use std::sync::Arc;

use folio_memory::entry::Status;
use folio_memory::goals::{Proposal, proposals};
use folio_memory::id::{Ref, TurnRef};
use folio_memory::patterns::FoundPattern;
use folio_memory::query::MAX_LIMIT;
use folio_memory::turn::export::Export;
use folio_memory::turn::{Ending, Evaluation, Finished, Reflection, Stage, Turn, TurnEnd};
use folio_memory::{Actor, Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, ListAnswer, Role, roles};

use super::super::goals::GoalState;
use super::super::observations::Whose;
use super::super::{Workspace, WorkspaceError, Write};
use super::advisor::with_left;
use super::export::{Made, is_work};
use crate::commit::Expected;
use crate::error::StoreError;
use crate::store::MemoryMark;

/// How often the end is computed because of concurrent changes: to what it archives, or in the turn itself.
const ATTEMPTS: u32 = 16;
/// After so many of these attempts, a turn ends with what was read of it, although it is still being written to.
const ATTEMPTS_FOR_ALL: u32 = 8;

/// A turn that has ended, and its outcome.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    /// The turn.
    pub turn: Turn,
    /// The evaluator's finding: whether anything is left to do.
    pub evaluation: Evaluation,
    /// What the reflector archived.
    pub reflection: Reflection,
    /// Goals and pending actions, with their progress.
    pub goals: Vec<GoalState>,
    /// Observations that could be made goals.
    pub proposals: Vec<Proposal>,
    /// Patterns that were not known before.
    pub patterns: Vec<FoundPattern>,
    /// The export of the turn.
    pub export: Export,
    /// Whether an earlier call with the same idempotency key ended the turn, so that this call did nothing.
    pub replayed: bool,
}

impl Workspace {
    /// Ends a turn.
    ///
    /// Goals get their progress, and pending actions are done if their confirmations are resolved. The evaluator
    /// decides whether anything is left to do. What the turn touched is exported, and patterns are extracted. Only then
    /// the reflector archives resolved observations. The export, the patterns and the archiving are one commit: all of
    /// it is written, or nothing. What is written in the turn meanwhile is in the export, too: the end is then computed
    /// again. A turn that is written to all the time ends nevertheless, and the reason of its end says as of which
    /// commit.
    ///
    /// # Errors
    ///
    /// `Conflict` if the turn has ended already; `NotFound`; `Refused` if the asker may not read the whole space
    /// (M7.7); otherwise as [`Workspace::record`].
    pub async fn end_turn(&self, actor: &Actor, turn: TurnRef) -> Result<Ended, WorkspaceError> {
        self.end_turn_under(actor, turn, None).await
    }

    /// Like [`Workspace::end_turn`], under a key: a second call with the key returns the outcome of the first, as far
    /// as it is recorded.
    ///
    /// # Errors
    ///
    /// As [`Workspace::end_turn`].
    pub async fn end_turn_under(
        &self,
        actor: &Actor,
        turn: TurnRef,
        idempotency_key: Option<String>,
    ) -> Result<Ended, WorkspaceError> {
        // The outcome shows everything that the turn touched, whoever may read that.
        self.require_space_read("the outcome of a turn")?;
        let turn = self.read_turn(turn).await?;
        let id = turn.begun.id;
        roles::may_end_turn(actor, turn.begun.run, &turn.handle.to_string())?;
        if turn.ended.is_some() {
            if let Some(key) = &idempotency_key
                && self.replayed(actor, key).await?.is_some()
            {
                return self.as_it_ended(turn).await;
            }
            let turn = turn.handle.to_string();
            return Err(StoreError::TurnEnded { turn }.into());
        }
        let goals = self.settle_goals(&acting(actor, Role::Evaluator, &turn), &turn).await?;
        self.settle_offload_of(&acting(actor, Role::Compactor, &turn), &turn)
            .await?;
        let mut attempt = 1;
        // The advisor is asked only once, however often the end is computed.
        let mut left = None;
        loop {
            let mark = self.mark().await?;
            let (ended, mut write) = self.work_out_end(actor, &turn, &goals, mark, &mut left).await?;
            write.idempotency_key.clone_from(&idempotency_key);
            let as_of = ended.export.as_of;
            if attempt <= ATTEMPTS_FOR_ALL {
                write.expected.push(Expected::TurnHead { turn: id, head: as_of });
            } else {
                let why = write.reason.into_iter();
                let since = format!(
                    "others write all the time, so {} ends as of commit {as_of}",
                    turn.handle
                );
                write.reason = Some(why.chain([since]).collect::<Vec<_>>().join("; "));
            }
            match self.record(&acting(actor, Role::Reflector, &turn), write).await {
                Ok(recorded) => {
                    self.keep_parts(mark, &ended.export.parts);
                    // If tidying fails now, it is left to the next one who tidies: the turn has ended either way.
                    let _put_off = self.tidy_unless_done().await;
                    let turn = self.read_turn(Ref::Id(id)).await?;
                    let replayed = recorded.committed.replayed;
                    return Ok(Ended {
                        turn,
                        replayed,
                        ..ended
                    });
                }
                // Something that was to be archived or replaced has changed, or the turn has more to export.
                Err(WorkspaceError::Store(
                    StoreError::StaleVersion { .. } | StoreError::Invalid(_) | StoreError::StaleSpace { .. },
                )) if attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A turn that has ended, with what is recorded of it. Its proposals are not recorded.
    async fn as_it_ended(&self, turn: Turn) -> Result<Ended, WorkspaceError> {
        let ended = turn.ended.as_ref();
        let decision = |stage| {
            let mut decisions = ended.into_iter().flat_map(|ended| &ended.end.decisions);
            decisions.find(|decision| decision.stage == stage).cloned()
        };
        let of = |stage| {
            decision(stage)
                .map(|decision| (decision.reasons, decision.used))
                .unwrap_or_default()
        };
        let (reasons, used) = of(Stage::Evaluator);
        let evaluation = Evaluation {
            complete: ended.is_some_and(|ended| ended.end.complete),
            reasons,
            used,
        };
        let (reasons, used) = of(Stage::Reflector);
        let mut archive = Vec::new();
        for one in &used {
            // One that is gone was archived before.
            let entry = self.entry_if_there(one.id).await?;
            if entry.is_none_or(|entry| entry.fields.status == Status::Archived) {
                archive.push(*one);
            }
        }
        let reflection = Reflection { archive, reasons, used };
        Ok(Ended {
            goals: self.goals(Some(&turn.begun.thread), false).await?,
            export: self.turn_export(Ref::Id(turn.begun.id)).await?,
            turn,
            evaluation,
            reflection,
            proposals: Vec::new(),
            patterns: Vec::new(),
            replayed: true,
        })
    }

    async fn work_out_end(
        &self,
        actor: &Actor,
        turn: &Turn,
        goals: &[GoalState],
        mark: Option<MemoryMark>,
        left: &mut Option<Vec<String>>,
    ) -> Result<(Ended, Write), WorkspaceError> {
        let as_of = match mark {
            Some(mark) => mark.as_of,
            None => self.head().await?,
        };
        let Made {
            export,
            blobs,
            touched,
            news,
        } = match self.cached_export_parts(mark, turn.started_seq) {
            Some(parts) => self.export_without_news(turn, as_of, &parts),
            None => self.make_export(turn, as_of).await?,
        };
        let now = self.now();
        let mut evaluation = self.evaluate(turn, &touched, mark).await?;
        if evaluation.complete {
            let left = match left {
                Some(left) => left,
                None => left.insert(self.advised_in_the_end(turn, &touched, actor).await),
            };
            if !left.is_empty() && self.read_turn(Ref::Id(turn.begun.id)).await?.begun.input != turn.begun.input {
                // It read an input that somebody has had forgotten meanwhile, and may quote it.
                *left = vec!["what the advisor found left to do is forgotten with the input".to_owned()];
            }
            evaluation = with_left(evaluation, left.clone());
        }
        let reflector = acting(actor, Role::Reflector, turn);
        let patterns = self.look_for_patterns(&news).await?;
        let proposals = proposals(&touched, now);
        let reflection = self.stages.reflector.reflect(&Ending {
            resolved: &self.with_status(Status::Resolved, mark).await?.items,
            patterns: &patterns,
            proposals: &proposals,
            now,
        });
        let end = TurnEnd {
            complete: evaluation.complete,
            decisions: vec![evaluation.decision(), reflection.decision()],
            export: blobs.first().map(|blob| blob.hash().0.clone()).unwrap_or_default(),
            touched: export.touched.len() as u64,
            as_of,
        };
        let mut changes = vec![Change::EndTurn {
            turn: turn.begun.id,
            end: Box::new(end),
        }];
        let learned = self.learn(&reflector, &patterns, &news).await?;
        // A resolved observation that is also superseded here has one version more by then.
        let replaced: BTreeSet<EntryId> = learned.iter().filter_map(patched).collect();
        changes.extend(learned);
        changes.extend(reflection.archive.iter().map(|used| Change::PatchEntry {
            entry: used.id,
            fields: vec![FieldChange::Status(Status::Archived)],
            expected_version: Some(used.version + u32::from(replaced.contains(&used.id))),
            base_version: None,
        }));
        let write = Write {
            blobs,
            reason: (!reflection.archive.is_empty()).then(|| format!("resolved before {} ended", turn.handle)),
            ..Write::of(changes)
        };
        let ended = Ended {
            turn: turn.clone(),
            evaluation,
            reflection,
            goals: goals.to_vec(),
            proposals,
            patterns: patterns.into_iter().filter(|found| found.is_news).collect(),
            export,
            replayed: false,
        };
        Ok((ended, write))
    }

    /// Whether a turn that touched `touched` leaves something to do.
    async fn evaluate(
        &self,
        turn: &Turn,
        touched: &[Entry],
        mark: Option<MemoryMark>,
    ) -> Result<Evaluation, WorkspaceError> {
        let run_status = match turn.begun.run {
            Some(run) => Some(self.run(Ref::Id(run)).await?.status),
            None => None,
        };
        let work: Vec<_> = touched.iter().filter(|entry| is_work(entry)).cloned().collect();
        Ok(self.stages.evaluator.assess(&Finished {
            pending_review: &self.with_status(Status::PendingReview, mark).await?.items,
            work: &work,
            run_status: run_status.as_deref(),
            now: self.now(),
        }))
    }

    /// The newest observations with this status, from the cache if memory is still at `mark`. Resolved ones are archived
    /// whether or not something took their place; for review, that is looked at which did.
    async fn with_status(
        &self,
        status: Status,
        mark: Option<MemoryMark>,
    ) -> Result<Arc<ListAnswer<Entry>>, WorkspaceError> {
        let query = EntryQuery {
            kinds: vec![EntryKind::Observation],
            status: vec![status],
            include_superseded: status == Status::Resolved,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        self.cached_entries(mark, Whose::Stages, &query).await
    }
}

fn patched(change: &Change) -> Option<EntryId> {
    match change {
        Change::PatchEntry { entry, .. } => Some(*entry),
        _ => None,
    }
}

/// The actor for a stage of `turn`, on behalf of the one who ends it.
fn acting(actor: &Actor, role: Role, turn: &Turn) -> Actor {
    Actor {
        role,
        name: String::new(),
        turn: Some(turn.begun.id),
        run: actor.run.or(turn.begun.run),
    }
}
