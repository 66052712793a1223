//! What plans are checked against.

use std::sync::Arc;

use folio_engine::argument::CallCheck;
use folio_engine::plan;
use folio_tools::Registry;
use folio_tools::panics::caught_now;

/// The names and arguments of the tools in `registry`, in the form that a plan is checked against.
#[must_use]
pub fn known_tools(registry: &Registry) -> plan::Known {
    let tools = registry.tools().map(|tool| {
        let spec = tool.spec();
        let of = |required: bool| {
            spec.args
                .iter()
                .filter(|a| a.required == required)
                .map(|a| a.name.clone())
                .collect()
        };
        (
            spec.name.clone(),
            plan::KnownTool {
                required: of(true),
                optional: of(false),
                one_of: spec.one_of.clone(),
                kinds: spec.args.iter().map(|a| (a.name.clone(), a.kind.clone())).collect(),
                // A tool with a schema says everything there.
                check: spec.schema.is_none().then(|| {
                    let tool = Arc::clone(tool);
                    // A check that panics finds nothing; the tool itself looks at the arguments again.
                    CallCheck::new(move |args| caught_now(|| tool.mistakes(args)).unwrap_or_default())
                }),
                schema: spec.schema.clone(),
                output: spec.output.clone(),
                writes: spec.writes,
            },
        )
    });
    plan::Known {
        tools: Some(tools.collect()),
        servers: Some(registry.families().map(str::to_owned).collect()),
        ..plan::Known::default()
    }
}
