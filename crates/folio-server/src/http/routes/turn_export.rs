//! The export of a turn, sent while it is read: its manifest may list any number of entries.

use std::io;

use aide::axum::routing::{ApiMethodRouter, get_with};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use folio::memory::turn::export::Export;
use folio::store::WorkspaceError;
use folio::store::workspace::{ExportReader, ExportedEntries};
use folio::{Timestamp, Workspace};
use futures_util::StreamExt as _;
use futures_util::stream::{iter, unfold};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::turns::GROUP;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::describe::{JSON_LINES, describe_media_type, describe_operation};
use crate::http::guard::{LONG_RESPONSE_TIMEOUT, declare_response_time};
use crate::http::problem::Problem;
use crate::http::query::{Fields, QueryParams};
use crate::wire::{manifest_line, touched_line};

/// The size from which on a chunk is sent, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// The method of the route.
pub(super) fn method() -> ApiMethodRouter<App> {
    let export = describe_media_type(
        describe_operation(
            "turn_export",
            GROUP,
            "Returns the export of a turn, as JSON lines if they are accepted",
        ),
        JSON_LINES,
    );
    let export_time = middleware::from_fn_with_state(LONG_RESPONSE_TIMEOUT, declare_response_time);
    get_with(export_of, move |operation| {
        export(operation.response::<200, axum::Json<ExportShape>>())
    })
    .layer(export_time)
}

/// The extent of an export.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct HowMuch {
    /// Whether to include the texts of all entries as they were then, not only of those that the turn touched.
    full: bool,
}

impl Fields for HowMuch {}

/// The export of a turn.
#[derive(Debug, serde::Serialize, JsonSchema)]
struct ExportShape {
    turn_id: String,
    at: Timestamp,
    as_of: u64,
    /// The entries that the turn touched, as they were then, with the versions that it found.
    touched: Vec<Value>,
    /// Every entry of the space by version and hash (M7.6.47).
    manifest: Vec<Value>,
}

async fn export_of(
    caller: Caller,
    QueryParams(params): QueryParams<HowMuch>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let export = caller.workspace.turn_export(caller.path_param("turn")?).await?;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let is_lines = accept.is_some_and(|accept| accept.contains(JSON_LINES));
    let mut outgoing = Outgoing::begin(caller.workspace, &export, params.full, is_lines).await?;
    // As long as nothing was sent, an error becomes a regular problem response.
    let first = outgoing.next().await?;
    let media_type = if is_lines { JSON_LINES } else { "application/json" };
    if outgoing.stage == Stage::End {
        let whole = first.unwrap_or_default();
        return Ok(([(header::CONTENT_TYPE, media_type)], whole).into_response());
    }
    let rest = unfold(Some(outgoing), |outgoing| async {
        let mut outgoing = outgoing?;
        match outgoing.next().await {
            Ok(Some(chunk)) => Some((Ok(chunk), Some(outgoing))),
            Ok(None) => None,
            Err(error) => Some((Err(io::Error::other(error.to_string())), None)),
        }
    });
    let body = Body::from_stream(iter(first.map(Ok::<_, io::Error>)).chain(rest));
    Ok(([(header::CONTENT_TYPE, media_type)], body).into_response())
}

/// An export that is being sent.
struct Outgoing {
    workspace: Workspace,
    now: Timestamp,
    full: bool,
    is_lines: bool,
    /// What is written and not sent yet.
    chunk: Vec<u8>,
    touched: ExportReader,
    manifest: ExportReader,
    stage: Stage,
    /// Whether the list that is being written has an item.
    has_item: bool,
}

/// What of an export is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Touched,
    Manifest,
    End,
}

impl Outgoing {
    async fn begin(workspace: Workspace, export: &Export, full: bool, is_lines: bool) -> Result<Self, WorkspaceError> {
        let entries = if full {
            ExportedEntries::All
        } else {
            ExportedEntries::Manifest
        };
        let touched = workspace.read_exported(export, ExportedEntries::Touched).await?;
        let manifest = workspace.read_exported(export, entries).await?;
        let (turn, at, as_of) = (export.turn.to_string(), export.at, export.as_of);
        let head = if is_lines {
            let head = json!({
                "record": "turn",
                "turn_id": turn,
                "at": at,
                "as_of": as_of,
                "entries": manifest.left(),
                "touched": touched.left(),
            });
            format!("{head}\n")
        } else {
            format!(
                "{{\"turn_id\":{},\"at\":{},\"as_of\":{},\"touched\":[",
                json!(turn),
                json!(at),
                json!(as_of)
            )
        };
        Ok(Self {
            now: workspace.now(),
            workspace,
            full,
            is_lines,
            chunk: head.into_bytes(),
            touched,
            manifest,
            stage: Stage::Touched,
            has_item: false,
        })
    }

    /// The next chunk; `None` if all was returned.
    async fn next(&mut self) -> Result<Option<Bytes>, WorkspaceError> {
        while self.chunk.len() < CHUNK_BYTES && self.stage != Stage::End {
            let reader = match self.stage {
                Stage::Touched => &mut self.touched,
                _ => &mut self.manifest,
            };
            match self.workspace.next_exported(reader).await? {
                Some(exported) => {
                    for one in &exported {
                        let line = match self.stage {
                            Stage::Touched => touched_line(one, self.now),
                            _ => manifest_line(one, self.full, self.now),
                        };
                        self.write(&line);
                    }
                }
                None => self.end_list(),
            }
        }
        let chunk = std::mem::take(&mut self.chunk);
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }

    fn write(&mut self, line: &Value) {
        if !self.is_lines && self.has_item {
            self.chunk.push(b',');
        }
        self.chunk.extend_from_slice(line.to_string().as_bytes());
        if self.is_lines {
            self.chunk.push(b'\n');
        }
        self.has_item = true;
    }

    fn end_list(&mut self) {
        let (next, between) = match self.stage {
            Stage::Touched => (Stage::Manifest, "],\"manifest\":["),
            Stage::Manifest | Stage::End => (Stage::End, "]}"),
        };
        if !self.is_lines {
            self.chunk.extend_from_slice(between.as_bytes());
        }
        (self.stage, self.has_item) = (next, false);
    }
}
