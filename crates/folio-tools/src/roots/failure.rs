//! Errors of the file system as tool errors, sorted by what the caller can do.

use std::io;

use crate::response::{FailureKind, ToolError};

/// Builds an error that says what was tried on what, and whose kind tells what the caller can do.
pub(crate) fn io_failure(action: &str, path: &str, error: &io::Error) -> ToolError {
    let message = |reason: &str| format!("cannot {action} {path}: {reason}");
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ToolError::new(
            FailureKind::NotFound,
            "not_found",
            message("there is no such file or folder"),
        )
        .hint("use `list` to see what there is"),
        // The handle of the root reports a path that leads out of it without an OS error code.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => ToolError::new(
            FailureKind::Denied,
            "path_outside_root",
            message("it leads out of the folder that was granted"),
        )
        .hint("`..` and symbolic links work only inside the granted folder"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ToolError::new(
            FailureKind::Denied,
            "permission_denied",
            message("the system does not permit it"),
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ToolError::new(FailureKind::Unavailable, "disk_full", message("there is no space left"))
                .hint("free some space; a fork of the run at this step writes it anew")
        }
        io::ErrorKind::IsADirectory => ToolError::invalid(message("it is a folder")),
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => {
            ToolError::invalid(message("the name cannot be used"))
        }
        _ => ToolError::new(FailureKind::Unavailable, "io", message(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_errors_map_to_failure_kinds_and_codes() {
        let check = |kind: io::ErrorKind, expected: FailureKind, code: &str| {
            let failure = io_failure("write", "a.txt", &kind.into());
            assert_eq!((failure.kind, failure.code.as_str()), (expected, code), "{kind}");
        };
        check(io::ErrorKind::StorageFull, FailureKind::Unavailable, "disk_full");
        check(io::ErrorKind::QuotaExceeded, FailureKind::Unavailable, "disk_full");
        check(
            io::ErrorKind::ReadOnlyFilesystem,
            FailureKind::Denied,
            "permission_denied",
        );
        check(
            io::ErrorKind::PermissionDenied,
            FailureKind::Denied,
            "path_outside_root",
        );
        check(io::ErrorKind::NotADirectory, FailureKind::NotFound, "not_found");
        check(io::ErrorKind::InvalidFilename, FailureKind::InvalidArgs, "invalid_args");
        // Others close some of theirs.
        for none_left in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE] {
            let failure = io_failure("read", "a", &io::Error::from_raw_os_error(none_left.raw_os_error()));
            assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Unavailable, "io"));
        }
        let by_the_system = io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error());
        assert_eq!(io_failure("read", "a", &by_the_system).code, "permission_denied");
    }
}
