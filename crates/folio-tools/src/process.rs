//! Runs a program, and reports as a tool error why it could not be run.

use std::io;

use folio_process::{Finished, Limits, ProcessError, Program, Sink};
use tokio_util::sync::CancellationToken;

use crate::response::{FailureKind, ToolError};

/// Runs a program without input to its end, and passes its outputs to the sinks as they arrive.
pub(crate) async fn run(
    program: &Program,
    limits: Limits,
    cancel: &CancellationToken,
    stdout_sink: &mut dyn Sink,
    stderr_sink: &mut dyn Sink,
) -> Result<Finished, ToolError> {
    run_with(program, None, limits, cancel, (stdout_sink, stderr_sink)).await
}

/// The same for a program that reads `input`, if there is any.
pub(crate) async fn run_with(
    program: &Program,
    input: Option<Vec<u8>>,
    limits: Limits,
    cancel: &CancellationToken,
    (stdout_sink, stderr_sink): (&mut dyn Sink, &mut dyn Sink),
) -> Result<Finished, ToolError> {
    folio_process::run(program, input, limits, cancel, stdout_sink, stderr_sink)
        .await
        .map_err(|error| failure(&error))
}

fn failure(error: &ProcessError) -> ToolError {
    let (kind, code) = match (error, error.kind()) {
        (ProcessError::Lost { .. }, _) => (FailureKind::Unknown, "outcome_unknown"),
        (_, io::ErrorKind::NotFound) => (FailureKind::NotFound, "no_such_program"),
        (_, io::ErrorKind::PermissionDenied) => (FailureKind::Denied, "permission_denied"),
        (_, io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong) => {
            (FailureKind::InvalidArgs, "invalid_args")
        }
        _ => (FailureKind::Unavailable, "not_started"),
    };
    ToolError::new(kind, code, error.to_string())
}
