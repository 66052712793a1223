//! `folio context`: the memory that goes into a prompt.

use clap::Args;
use folio::Workspace;
use folio::memory::context::DEFAULT_BUDGET;
use folio::memory::counted::counted;
use folio::memory::id::TurnRef;
use folio::memory::tokens::{Counter, for_model};
use folio::store::workspace::ContextRequest;

use super::{Context, text_or_stdin};
use crate::error::{Exit, Failure};
use crate::report::turn::ContextShape;

/// `folio context`.
#[derive(Debug, Args)]
pub(crate) struct ContextArguments {
    /// Token budget
    #[arg(long, default_value_t = DEFAULT_BUDGET, value_name = "TOKENS")]
    budget: u32,
    /// Prompt to choose memory for; - reads it from standard input [default: the input of --turn]
    #[arg(long, default_value = "", value_name = "TEXT", hide_default_value = true)]
    prompt: String,
    #[command(flatten)]
    model: ModelArgument,
}

/// Whose tokens are counted.
#[derive(Debug, Args)]
pub(crate) struct ModelArgument {
    /// Count tokens as this model does: gpt-5, claude-sonnet-4-5 [default: FOLIO_MODEL, else an estimate]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

impl ModelArgument {
    /// How tokens are counted.
    pub(crate) fn counter(&self, context: &Context<'_>) -> Counter {
        self.model.as_deref().map_or_else(|| counter(context), for_model)
    }
}

/// How the tokens of the model in the settings are counted.
pub(crate) fn counter(context: &Context<'_>) -> Counter {
    let model = context.settings.model.as_ref();
    for_model(model.map_or("", |model| &model.text))
}

/// Carries out `folio context`.
pub(crate) async fn run(context: &Context<'_>, arguments: ContextArguments) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let prompt = text_or_stdin(arguments.prompt)?;
    let tokens = arguments.model.counter(context);
    let shape = assembled(
        context,
        &workspace,
        prompt,
        (arguments.budget, tokens),
        context.settings.turn,
    )
    .await?;
    context.output.report(&shape)?;
    let omitted = shape.receipt.omitted();
    if shape.context.is_empty() {
        let why = if omitted > 0 {
            "nothing in memory fits this budget"
        } else {
            "memory has nothing to show"
        };
        context.output.note(why);
    } else if omitted > 0 {
        let tokens = counted(shape.tokens.into(), "token");
        context
            .output
            .note(format_args!("{tokens}; {omitted} left out; --json lists them"));
    }
    Ok(Exit::Done)
}

/// The memory that goes into a prompt, within `budget`.
pub(crate) async fn assembled(
    context: &Context<'_>,
    workspace: &Workspace,
    prompt: String,
    (budget, tokens): (u32, Counter),
    turn: Option<TurnRef>,
) -> Result<ContextShape, Failure> {
    let request = ContextRequest {
        thread: context.settings.thread.clone(),
        turn,
        prompt,
        budget,
        sections: Vec::new(),
    };
    let assembled = workspace.assemble_context(request, &tokens).await?;
    Ok(ContextShape::of(assembled))
}
