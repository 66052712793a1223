//! A repository in a few numbers.

use std::collections::HashSet;
use std::ffi::OsString;
use std::ops::ControlFlow;

use folio_memory::counted::counted;
use serde_json::json;

use super::Answer;
use super::history::{LogReader, Record, format_argument, text_of};
use super::repository::Repository;
use crate::response::ToolError;

pub(super) async fn summary(repository: &Repository<'_>, since: Option<&str>) -> Result<Answer, ToolError> {
    let branch_args = ["--quiet", "--short", "HEAD"].map(OsString::from).to_vec();
    let branch = repository.output_line("symbolic-ref", branch_args).await?;
    let head = repository.head().await?;
    let mut commits = 0_u64;
    let mut authors = HashSet::new();
    let (mut first_date, mut last_date) = (None, None);
    if head.is_some() {
        let mut args = vec![OsString::from("-z"), format_argument(&["%aE", "%aI"])];
        if let Some(since) = since {
            args.push(format!("--since={since}").into());
        }
        let mut reader = LogReader::new(|record| {
            if let Record::Commit(fields) = record {
                commits += 1;
                authors.insert(text_of(fields.first()));
                // The log begins with the newest commit.
                let date = text_of(fields.get(1));
                last_date.get_or_insert_with(|| date.clone());
                first_date = Some(date);
            }
            ControlFlow::Continue(())
        });
        repository.stream("log", args, &mut reader).await?;
    }
    let notes = match &head {
        Some(_) => format!(
            "{} by {}",
            counted(commits, "commit"),
            counted(authors.len() as u64, "author")
        ),
        None => "there are no commits yet".to_owned(),
    };
    Ok(Answer::new(
        json!({
            "branch": branch,
            "head": head,
            "commits": commits,
            "authors": authors.len(),
            "first_date": first_date,
            "last_date": last_date,
            "is_shallow": repository.is_shallow(),
        }),
        notes,
    ))
}
