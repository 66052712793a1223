//! Waiting for a run, while its progress is reported and its questions are shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use folio::engine::Run;
use folio::runner::Watch;
use folio::store::RunRow;
use rmcp::model::{ElicitRequestParams, InputRequiredResult, ProgressNotificationParam};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::{Call, invalid_argument};
use super::MAX_WAIT_SECONDS;
use crate::driving::CancelOnDrop;
use crate::http::problem::Problem;
use crate::mcp::asking::{self, Filled, Round};
use crate::mcp::run_text::{ended_and_total, is_held_up, run_line};

/// How a request waits for a run.
pub(super) struct Waiting {
    until: Instant,
    /// Whether the run's questions are put to the person.
    pub(super) shows_questions: bool,
    /// The questions that are not put to the person again: those that were, and those that they declined to answer.
    pub(super) put_off: Vec<String>,
    /// The questions that the person declined to answer. Nobody here answers them.
    pub(super) declined: Vec<String>,
    /// Cancels the run when the request is cancelled.
    pub(super) cancel_on_drop: Option<CancelOnDrop>,
}

impl Waiting {
    /// Creates a wait of `seconds`. A request that does not wait shows no forms either.
    pub(super) fn of(call: &Call<'_>, seconds: u64) -> Result<Self, Problem> {
        if seconds > MAX_WAIT_SECONDS {
            let message = format!("{seconds} is more than {MAX_WAIT_SECONDS}; ask again with run_status");
            return Err(invalid_argument("wait_seconds", message).into());
        }
        let client = call.context.client_capabilities();
        Ok(Self {
            until: Instant::now() + Duration::from_secs(seconds),
            shows_questions: seconds > 0 && asking::shows_forms(client.as_ref()),
            put_off: Vec::new(),
            declined: Vec::new(),
            cancel_on_drop: None,
        })
    }

    /// The forms for questions of `run` that are still to be put to the person.
    fn forms_to_show(&self, run: &Run) -> Forms {
        match self.shows_questions {
            true => asking::forms(run, &self.put_off),
            false => BTreeMap::new(),
        }
    }

    /// Whether nobody here is asked what `run` waits for. Approvals are given elsewhere, by people who learn of them only
    /// from the answer to this request. So are answers to questions, if the client shows no forms.
    fn is_nobody_asked(&self, run: &Run) -> bool {
        !self.shows_questions || asking::forms(run, &self.declined).is_empty()
    }

    /// Lets the run go on whatever becomes of the request.
    fn detach_from_request(&mut self) {
        if let Some(asked_for) = self.cancel_on_drop.take() {
            asked_for.detach();
        }
    }
}

/// How a wait for a run ended.
pub(super) enum Waited {
    /// With forms, which the answer has to show.
    Asks(Box<InputRequiredResult>),
    /// The state of the run is the answer, with the questions that the person declined to answer.
    Tells(Vec<String>),
}

/// Waits until the run ends, the time is over, or the run only waits for people whom nobody here asks, or who declined
/// to answer. Meanwhile reports progress and shows the run's questions.
pub(super) async fn wait_for_run(call: &Call<'_>, row: &RunRow, mut waiting: Waiting) -> Result<Waited, Problem> {
    let is_late = tokio::time::sleep_until(waiting.until);
    let wait = async {
        tokio::select! {
            ended = show_run(call, row, &mut waiting) => ended,
            () = is_late => Ok(None),
            // Nobody would read the answer.
            () = call.mcp.disconnected.cancelled() => {
                let detail = "the client has left";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "cancelled", detail))
            }
        }
    };
    let forms = call
        .slot
        .release_while(std::pin::pin!(wait))
        .await
        .transpose()?
        .flatten();
    waiting.detach_from_request();
    let Some(forms) = forms else {
        return Ok(Waited::Tells(waiting.declined));
    };
    let round = Round {
        run: row.id,
        put_off: waiting.put_off,
    };
    Ok(Waited::Asks(Box::new(round.input_required(forms))))
}

/// Reports the progress of the run and shows its questions, until it ends or only waits for people. Returns the forms
/// that the answer has to show, if the client cannot be shown any before.
async fn show_run(call: &Call<'_>, row: &RunRow, waiting: &mut Waiting) -> Result<Option<Forms>, Problem> {
    let workspace = &call.caller.workspace;
    let mut watch = Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), row.id);
    let mut done_count = 0;
    // The form that is open. It stays open when the wait is over.
    let mut open_form: Option<(String, Filling)> = None;
    loop {
        tokio::select! {
            events = watch.next() => {
                if events?.is_none() {
                    return Ok(None);
                }
            }
            filled_in = wait_for_form(&mut open_form) => {
                if let Some((name, _)) = open_form.take()
                    && filled_in? == Filled::Declined
                {
                    waiting.declined.push(name);
                }
            }
        }
        let run = watch.run();
        let (now, length) = ended_and_total(run);
        if now > done_count {
            done_count = now;
            report_progress(call, done_count, length, &run_line(row, run)).await;
        }
        let forms = waiting.forms_to_show(run);
        if forms.is_empty() {
            if is_held_up(run, waiting.is_nobody_asked(run)) {
                return Ok(None);
            }
            continue;
        }
        waiting.detach_from_request();
        if !asking::has_session(call.context) {
            return Ok(Some(forms));
        }
        if open_form.is_none()
            && let Some((name, params)) = forms.into_iter().next()
        {
            waiting.put_off.push(name.clone());
            let filling = call
                .mcp
                .show_form(&call.context.peer, &call.caller, row.id, name.clone(), params)
                .await;
            open_form = filling.map(|filling| (name, filling));
        }
    }
}

/// Forms for questions, by the names of the questions.
type Forms = BTreeMap<String, ElicitRequestParams>;

/// A form that is being filled in.
type Filling = JoinHandle<Result<Filled, Problem>>;

/// Returns what came of `form`; pending forever if there is none.
async fn wait_for_form(form: &mut Option<(String, Filling)>) -> Result<Filled, Problem> {
    match form {
        // A form whose task failed counts as not filled in.
        Some((_, form)) => form.await.unwrap_or(Ok(Filled::Declined)),
        None => std::future::pending().await,
    }
}

/// Reports progress to the client, if it asked for that. A report that does not arrive is no loss: the answer says the
/// same.
async fn report_progress(call: &Call<'_>, done_count: u32, length: u32, line: &str) {
    let Some(token) = call.context.meta.get_progress_token() else {
        return;
    };
    let progress = ProgressNotificationParam::new(token, f64::from(done_count))
        .with_total(f64::from(length))
        .with_message(line);
    let _unheard = call.context.peer.notify_progress(progress).await;
}
