//! Who decides in each stage of a turn.

use std::sync::Arc;

use super::{
    Clarifier, Evaluator, Orderer, Reflector, Router, RuleClarifier, RuleEvaluator, RuleOrderer, RuleReflector,
    RuleRouter,
};

/// Who decides in each stage of a turn (M7.11.1): rules, unless somebody else takes the place of one of them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stages {
    /// How urgent an input is.
    pub router: Arc<dyn Router>,
    /// Whether it is clear.
    pub clarifier: Arc<dyn Clarifier>,
    /// In which order things are done.
    pub orderer: Arc<dyn Orderer>,
    /// Whether the work is complete.
    pub evaluator: Arc<dyn Evaluator>,
    /// What is put away.
    pub reflector: Arc<dyn Reflector>,
}

impl Default for Stages {
    fn default() -> Self {
        Self {
            router: Arc::new(RuleRouter),
            clarifier: Arc::new(RuleClarifier),
            orderer: Arc::new(RuleOrderer),
            evaluator: Arc::new(RuleEvaluator),
            reflector: Arc::new(RuleReflector),
        }
    }
}
