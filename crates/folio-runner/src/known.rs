//! What plans are checked against.

use folio_engine::plan;
use folio_tools::Registry;

/// The names and arguments of the tools in `registry`, as a plan is checked against them.
#[must_use]
pub fn known_tools(registry: &Registry) -> plan::Known {
    let tools = registry.specs().map(|spec| {
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
                schema: spec.schema.clone(),
                output: spec.output.clone(),
                writes: spec.writes,
            },
        )
    });
    plan::Known {
        tools: Some(tools.collect()),
        ..plan::Known::default()
    }
}
