//! Recording of what models reply in a run (`folio run --record`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio::Workspace;
use folio::model::{Cassette, CassetteError};
use folio::runner::{Recording, RunnerModels};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::{Exit, Failure};

/// The shortest pause between two writes, and how many times as long as the last one it is.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_FACTOR: u32 = 10;

/// Records the replies of models, and writes them while the run goes on and when it has ended.
#[derive(Debug)]
pub(super) struct Recorder {
    file: PathBuf,
    recording: Arc<Recording>,
    /// Ends the task that writes meanwhile, and waits for it.
    writing: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Recorder {
    /// Prepares the recording. That the file cannot be written is found out before any model is asked. The replies
    /// that it already has were paid for, too: they are only overwritten if `is_forced`, and stay until there is
    /// something new.
    pub(super) fn begin(
        file: PathBuf,
        is_forced: bool,
        models: Option<RunnerModels>,
        has_person: bool,
    ) -> Result<(RunnerModels, Self), Failure> {
        let Some(models) = models else {
            let nobody = "there is no model whose replies could be recorded";
            return Err(Failure::usage("no_model", nobody).hint("set one with --model, FOLIO_MODEL or in folio.toml"));
        };
        Cassette::prepare(&file).map_err(|error| cassette_failure(&error))?;
        if !is_forced
            && file.is_file()
            && !Cassette::read(&file)
                .map_err(|error| cassette_failure(&error))?
                .is_empty()
        {
            let message = format!("the cassette {} has replies of another run", file.display());
            return Err(Failure::usage("cassette_unusable", message)
                .hint("name another file; or --force writes over it, when this run has replies"));
        }
        let (models, recording) = Recording::of(models, has_person);
        let recorder = Self {
            file,
            recording: Arc::new(recording),
            writing: None,
        };
        Ok((models, recorder))
    }

    /// Writes the replies meanwhile, too: a process that is killed has no end at which it could.
    pub(super) fn keep_written(mut self, workspace: &Workspace) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (file, workspace, recording) = (self.file.clone(), workspace.clone(), Arc::clone(&self.recording));
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = &mut stopped => return,
                    () = recording.recorded() => {}
                }
                let began = Instant::now();
                let cassette = recording.cassette(&workspace);
                let path = file.clone();
                // If it fails, so does the last time, which tells why.
                let _failure_is_told_at_the_end = tokio::task::spawn_blocking(move || cassette.write(&path)).await;
                // The file is written as a whole, so the larger it is the more seldom.
                let pause = (began.elapsed() * PAUSE_FACTOR).max(PAUSE_MIN);
                tokio::select! {
                    _ = &mut stopped => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
        self.writing = Some((stop, task));
        self
    }

    /// Writes what was recorded, unless that is nothing.
    pub(super) async fn end(self, workspace: &Workspace) -> Result<(), Failure> {
        if let Some((stop, task)) = self.writing {
            drop(stop);
            // Otherwise it could write over what is written now.
            let _ended = task.await;
        }
        let cassette = self.recording.cassette(workspace);
        if cassette.is_empty() {
            return Ok(());
        }
        cassette.write(&self.file).map_err(|error| cassette_failure(&error))
    }
}

/// The failure for a cassette that cannot be read or written.
pub(super) fn cassette_failure(error: &CassetteError) -> Failure {
    let exit = if error.is_missing() {
        Exit::NotFound
    } else {
        Exit::Usage
    };
    Failure::new(exit, "cassette_unusable", error.to_string())
}
