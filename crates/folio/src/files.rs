//! A common interface to list, read and search files: those of a space, or those of a folder.

use async_trait::async_trait;
use folio_memory::files::{FileEntry, Hits};
use folio_memory::passage::{Part, PartRead};
use folio_memory::roles::Denied;
use folio_store::{ErrorKind, Workspace, WorkspaceError};
use folio_tools::{Folder, FolderError};

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The path is invalid, or leads outside of the root.
    #[error("{0:?} is not a path from the root, or leads outside of it")]
    Escapes(String),
    /// There is no such file or folder.
    #[error("there is no file or folder at {0:?}")]
    NotFound(String),
    /// The caller may not read it.
    #[error("{0}")]
    Refused(String),
    /// It cannot be read at the moment.
    #[error("cannot read {path}")]
    Failed {
        /// The path.
        path: String,
        /// The underlying error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl FilesError {
    /// The stable name of this error, which every surface shows.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Escapes(_) => "path_escapes",
            Self::NotFound(_) => "not_found",
            Self::Refused(_) => Denied::CODE,
            Self::Failed { source, .. } => match source.downcast_ref::<WorkspaceError>() {
                Some(error) => error.code(),
                None => "io",
            },
        }
    }

    /// What the caller should do next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Escapes(_) => ErrorKind::Invalid,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Refused(_) => ErrorKind::Conflict,
            Self::Failed { source, .. } => match source.downcast_ref::<WorkspaceError>() {
                Some(error) => error.kind(),
                None => ErrorKind::Unavailable,
            },
        }
    }
}

/// Files that can be listed, read and searched. Paths start at a root and cannot leave it.
#[async_trait]
pub trait Files: Send + Sync + std::fmt::Debug {
    /// The content of the folder at `path`: folders before files, each sorted by name.
    ///
    /// # Errors
    ///
    /// As [`FilesError`] says.
    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, FilesError>;

    /// Reads a part of the file at `path`: at most `max_bytes` of it, and where to continue.
    ///
    /// # Errors
    ///
    /// As [`FilesError`] says.
    async fn read(&self, path: &str, part: &Part, max_bytes: usize) -> Result<PartRead, FilesError>;

    /// The lines that contain `words` in the file at `path`, or in all files below the folder at `path`: about
    /// `max_bytes` of them. To continue an earlier search, `after` is the last file of that search.
    ///
    /// # Errors
    ///
    /// As [`FilesError`] says.
    async fn search(&self, path: &str, words: &str, after: Option<&str>, max_bytes: usize) -> Result<Hits, FilesError>;
}

/// The files of a space: scratchbooks, history, results that were put away, pages.
#[async_trait]
impl Files for Workspace {
    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, FilesError> {
        self.list_files(path).await.map_err(|error| space_error(error, path))
    }

    async fn read(&self, path: &str, part: &Part, max_bytes: usize) -> Result<PartRead, FilesError> {
        let read = self.read_file(path, part, max_bytes).await;
        read.map_err(|error| space_error(error, path))
    }

    async fn search(&self, path: &str, words: &str, after: Option<&str>, max_bytes: usize) -> Result<Hits, FilesError> {
        let found = self.search_files(path, words, after, max_bytes).await;
        found.map_err(|error| space_error(error, path))
    }
}

/// The files of a folder.
#[async_trait]
impl Files for Folder {
    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, FilesError> {
        let path = path.to_owned();
        run_blocking(self, move |folder| folder.list(&path)).await
    }

    async fn read(&self, path: &str, part: &Part, max_bytes: usize) -> Result<PartRead, FilesError> {
        let (path, part) = (path.to_owned(), part.clone());
        run_blocking(self, move |folder| folder.read(&path, &part, max_bytes)).await
    }

    async fn search(&self, path: &str, words: &str, after: Option<&str>, max_bytes: usize) -> Result<Hits, FilesError> {
        let (path, words, after) = (path.to_owned(), words.to_owned(), after.map(str::to_owned));
        run_blocking(self, move |folder| {
            folder.search(&path, &words, after.as_deref(), max_bytes)
        })
        .await
    }
}

/// Runs `work` on a thread that may block on the disk.
async fn run_blocking<T: Send + 'static>(
    folder: &Folder,
    work: impl FnOnce(&Folder) -> Result<T, FolderError> + Send + 'static,
) -> Result<T, FilesError> {
    let folder = folder.clone();
    match tokio::task::spawn_blocking(move || work(&folder)).await {
        Ok(done) => done.map_err(folder_error),
        Err(error) => Err(FilesError::Failed {
            path: "the folder".to_owned(),
            source: Box::new(error),
        }),
    }
}

fn space_error(error: WorkspaceError, path: &str) -> FilesError {
    match error {
        WorkspaceError::Invalid(invalid) if invalid.code == "path_escapes" => FilesError::Escapes(path.to_owned()),
        WorkspaceError::Refused(denied) => FilesError::Refused(denied.to_string()),
        error if error.kind() == ErrorKind::NotFound => FilesError::NotFound(path.to_owned()),
        error => FilesError::Failed {
            path: path.to_owned(),
            source: Box::new(error),
        },
    }
}

fn folder_error(error: FolderError) -> FilesError {
    match error {
        FolderError::Escapes(path) => FilesError::Escapes(path),
        FolderError::NotFound { path, .. } => FilesError::NotFound(path),
        error => FilesError::Failed {
            path: "a file of the folder".to_owned(),
            source: Box::new(error),
        },
    }
}
