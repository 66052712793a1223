//! Exporting and importing a space as JSON lines, and forgetting.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use aide::axum::ApiRouter;
use aide::axum::routing::{get_with, post_with};
use axum::body::{Body as Sent, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use folio::memory::entry::Owner;
use folio::memory::{EntryKind, EntryQuery, Tag};
use folio::store::WorkspaceError;
use folio::store::workspace::{ForgetFilter, ImportOptions, Imported};
use folio::{ThreadKey, Workspace};
use futures_util::stream::unfold;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::http::answer::Answer;
use crate::http::app::App;
use crate::http::caller::{Caller, thread_called};
use crate::http::describe::{JSON_LINES, describe_media_type, describe_operation};
use crate::http::guard::{LONG_RESPONSE_TIMEOUT, declare_response_time};
use crate::http::input::{Body, Kinds, Text, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Fields, Nothing, QueryParams};
use crate::http::transfers::{self, Upload};
use crate::one_or_more::one_or_more;
use crate::wire::{Forgot, Received};

/// The size of a chunk, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// The number of chunks that may wait for the reader.
const CHUNKS_AHEAD: usize = 4;
const GROUP: &str = "keeping";

pub(super) fn routes() -> ApiRouter<App> {
    let lines = describe_media_type(
        describe_operation("export_space", GROUP, "Exports the whole space as JSON lines"),
        JSON_LINES,
    );
    let time = middleware::from_fn_with_state(LONG_RESPONSE_TIMEOUT, declare_response_time);
    ApiRouter::new()
        .api_route("/export", get_with(export, lines))
        .api_route(
            "/import",
            post_with(
                import,
                describe_operation(
                    "import_space",
                    GROUP,
                    "Imports an export; existing entries change only with `merge`",
                ),
            ),
        )
        .api_route(
            "/forget",
            post_with(
                forget,
                describe_operation(
                    "forget",
                    GROUP,
                    "Erases the content of entries and of whole runs permanently",
                ),
            ),
        )
        .layer(time)
}

/// Streams the space line by line, as fast as the client reads.
async fn export(caller: Caller, State(app): State<App>, _: QueryParams<Nothing>) -> Result<Response, Problem> {
    let place = app.transfers.acquire_place().await?;
    let (sender, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
    let (workspace, standstill) = (caller.workspace, app.transfers.limits.standstill);
    // The thread that writes the lines waits for the client to read them.
    transfers::run_on_thread("export", place, move || async move {
        let mut out = Chunks {
            sender,
            standstill,
            chunk: Vec::with_capacity(CHUNK_BYTES),
        };
        let written = workspace.export_space(&mut out, &mut |_| {}).await;
        let ended = match written.and_then(|_| out.flush().map_err(WorkspaceError::Output)) {
            Ok(()) => Chunk::End,
            Err(error) => Chunk::Failed(error),
        };
        // Sending fails only if the client has left.
        let _unheard = out.send(ended);
    })?;
    // As long as nothing was sent, an error becomes a regular problem response.
    let first = match chunks.recv().await {
        Some(Chunk::Lines(bytes)) => Some(bytes),
        Some(Chunk::Failed(error)) => return Err(error.into()),
        Some(Chunk::End) | None => None,
    };
    let rest = unfold(Some(chunks), |chunks| async {
        let mut chunks = chunks?;
        match chunks.recv().await {
            Some(Chunk::Lines(bytes)) => Some((Ok(bytes), Some(chunks))),
            Some(Chunk::End) => None,
            Some(Chunk::Failed(error)) => Some((Err(io::Error::other(error.to_string())), None)),
            // A client that read too slowly must not take the part that it got for the whole.
            None => Some((Err(io::ErrorKind::TimedOut.into()), None)),
        }
    });
    let first = futures_util::stream::iter(first.map(Ok::<_, io::Error>));
    let body = Sent::from_stream(futures_util::StreamExt::chain(first, rest));
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], body).into_response())
}

/// A message from the exporting thread.
enum Chunk {
    Lines(Bytes),
    Failed(WorkspaceError),
    /// The export is complete.
    End,
}

/// A writer that sends lines to the client in chunks.
struct Chunks {
    sender: mpsc::Sender<Chunk>,
    /// How long to wait for a client that reads nothing.
    standstill: Duration,
    chunk: Vec<u8>,
}

impl Chunks {
    fn send(&self, chunk: Chunk) -> io::Result<()> {
        match wait_for(tokio::time::timeout(self.standstill, self.sender.send(chunk))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client has disconnected")),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not read the export",
            )),
        }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        self.send(Chunk::Lines(chunk.into()))
    }
}

/// Blocks this thread until `future` is ready. The thread may block, but it already runs a runtime, which cannot be
/// nested.
///
/// All this happens within one poll of what the thread runs. So what one poll may do is not limited here: the limit
/// would not be renewed before the end of this wait, and nothing that counts against it would ever be ready again.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(tokio::task::coop::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Options of an import.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct How {
    /// The format: `folio` (the default) for an export of Folio, `colony` for the scratchbook of one thread.
    from: Option<Form>,
    /// With `colony`: the thread whose scratchbook it becomes; the main thread if not given.
    thread: Option<String>,
    /// Whether only to report what would happen.
    dry_run: bool,
    /// With `folio`: whether to ignore the trust that the lines state: everything gets the trust `imported`.
    distrust: bool,
    /// With `folio`: apply the changes that somebody made to the lines since they were exported from this space, field
    /// by field, except to fields that changed here since, too. Cannot be combined with `distrust`.
    merge: bool,
}

impl Fields for How {}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Form {
    Folio,
    Colony,
}

/// An export, or the file of a scratchbook.
#[derive(Debug)]
struct Lines;

impl Kinds for Lines {
    const KINDS: &'static [&'static str] = &[JSON_LINES, "application/json", "application/jsonl", "text/plain"];
}

async fn import(
    caller: Caller,
    QueryParams(params): QueryParams<How>,
    Upload { place, text }: Upload<Lines>,
) -> Result<Answer<Received>, Problem> {
    let Text(bytes, _) = text;
    let (sender, receiver) = oneshot::channel();
    let dry_run = params.dry_run;
    // Reading the lines and writing batches takes long; the import continues if the client leaves.
    transfers::run_on_thread("import", place, move || async move {
        // Sending fails only if the client has left.
        let _unheard = sender.send(import_records(&caller, params, bytes).await);
    })?;
    let imported = receiver
        .await
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))??;
    Ok(Answer::of(Received { dry_run, imported }))
}

async fn import_records(caller: &Caller, params: How, bytes: Bytes) -> Result<Imported, Problem> {
    let (workspace, actor) = (&caller.workspace, &caller.actor);
    Ok(match params.from.unwrap_or(Form::Folio) {
        Form::Folio => {
            refuse_ignored("thread", params.thread.is_some(), "colony")?;
            let options = ImportOptions {
                dry_run: params.dry_run,
                distrusted: params.distrust,
                merge: params.merge,
            };
            workspace
                .import_space(actor, Cursor::new(bytes), options, &mut |_| {})
                .await?
        }
        Form::Colony => {
            refuse_ignored("merge", params.merge, "folio")?;
            refuse_ignored("distrust", params.distrust, "folio")?;
            let book = std::str::from_utf8(&bytes).map_err(|_| body_invalid("the body is not valid UTF-8"))?;
            let thread = params.thread.map_or_else(|| Ok(ThreadKey::main()), thread_called)?;
            workspace.import_book(actor, &thread, book, params.dry_run).await?
        }
    })
}

/// Refuses the option `name` if it `is_given`: it has a meaning only for imports from `form`.
fn refuse_ignored(name: &str, is_given: bool, form: &str) -> Result<(), Problem> {
    if !is_given {
        return Ok(());
    }
    Err(Problem::invalid(
        "query_invalid",
        format!("`{name}` has no meaning without `from={form}`"),
    ))
}

/// Which entries or runs to forget. An entry has to match all given fields.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Forget {
    /// The entries: `e42` or `obs_…`. Here and in the other lists, a single value may be given instead of a list.
    #[serde(deserialize_with = "one_or_more")]
    entries: Vec<String>,
    /// Runs that have ended: `r3` or `run_…`. They are forgotten as a whole: everything that their journals say, their
    /// titles, what stands on their pages, and what was said in their turns. Beside them only `entries` may be given.
    #[serde(deserialize_with = "one_or_more")]
    runs: Vec<String>,
    /// Only entries that contain this text, or once did. If nothing else is given, also what was said in turns: the
    /// inputs and the reasons of turns that contain it. The answer then names the runs that say it (`runs_saying`).
    text: Option<String>,
    /// Only observations of one of these types.
    #[serde(rename = "type", deserialize_with = "one_or_more")]
    types: Vec<String>,
    /// Only entries of one of these kinds: `observation`, `note`, `todo`, `task`, ….
    #[serde(deserialize_with = "one_or_more")]
    kind: Vec<String>,
    /// Only entries with all of these tags.
    #[serde(deserialize_with = "one_or_more")]
    tags: Vec<String>,
    /// Only entries with these values in their context, by dotted paths.
    context: BTreeMap<String, Value>,
    /// Only entries of one of these owners.
    #[serde(deserialize_with = "one_or_more")]
    owner: Vec<String>,
    /// The reason. It is kept, so it should not repeat what is forgotten.
    reason: String,
    /// Whether only to report what would be forgotten.
    dry_run: bool,
}

impl Forget {
    fn filter(self) -> Result<ForgetFilter, Problem> {
        let kind = |name: &String| {
            EntryKind::parse(name).ok_or_else(|| body_invalid(format!("kind: {name:?} is not a kind of entry")))
        };
        let entry = |name: &String| name.parse().map_err(|error| body_invalid(format!("entries: {error}")));
        let run = |name: &String| name.parse().map_err(|error| body_invalid(format!("runs: {error}")));
        let query = EntryQuery {
            kinds: self.kind.iter().map(kind).collect::<Result<_, _>>()?,
            types: self.types,
            tags: Tag::parse_all(self.tags.iter().map(String::as_str))?,
            owner: self
                .owner
                .iter()
                .map(|owner| Owner::parse(owner))
                .collect::<Result<_, _>>()?,
            context: self.context.into_iter().collect(),
            ..EntryQuery::default()
        };
        query.check_size()?;
        Ok(ForgetFilter {
            entries: self.entries.iter().map(entry).collect::<Result<_, _>>()?,
            runs: self.runs.iter().map(run).collect::<Result<_, _>>()?,
            query,
            text: self.text,
            ..ForgetFilter::default()
        })
    }
}

async fn forget(
    caller: Caller,
    _: QueryParams<Nothing>,
    Body(forget): Body<Forget>,
) -> Result<Answer<Forgot>, Problem> {
    let (dry_run, reason) = (forget.dry_run, forget.reason.clone());
    let filter = forget.filter()?;
    let workspace: &Workspace = &caller.workspace;
    if dry_run {
        return Ok(Answer::of(Forgot::dry_run(workspace, &filter).await?));
    }
    let forgotten = workspace
        .forget_under(&caller.actor, &filter, &reason, caller.own_key())
        .await?;
    let folders = caller.runner.remove_run_folders(&forgotten.of_runs).await;
    let saying = Forgot::runs_saying(workspace, &filter).await?;
    Ok(Answer::of(Forgot::done(forgotten, folders, saying)))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;

    /// As where it is used, other threads keep the time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn wait_ends_also_if_its_poll_may_do_nothing_more() {
        // Awaited in full, the last one would begin another poll, with another budget.
        while has_budget_remaining() {
            let _renewed_with_the_next_poll = consume_budget().now_or_never();
        }
        let (sender, mut chunks) = mpsc::channel(1);
        let mut out = Chunks {
            sender,
            standstill: Duration::from_millis(1),
            chunk: Vec::new(),
        };
        out.write_all(b"a line").unwrap();
        out.flush().unwrap();
        assert!(matches!(chunks.try_recv(), Ok(Chunk::Lines(line)) if &line[..] == b"a line"));
        // Nobody reads the second one.
        out.send(Chunk::End).unwrap();
        assert_eq!(out.send(Chunk::End).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
