//! The implementations of the stages of a turn.

use std::sync::Arc;

use super::{
    Clarifier, Evaluator, Orderer, Reflector, Router, RuleClarifier, RuleEvaluator, RuleOrderer, RuleReflector,
    RuleRouter,
};

/// The implementations of the stages of a turn (M7.11.1): rules, unless replaced. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stages {
    /// Decides how urgent an input is.
    pub router: Arc<dyn Router>,
    /// Decides whether the input is clear.
    pub clarifier: Arc<dyn Clarifier>,
    /// Decides the order of the work.
    pub orderer: Arc<dyn Orderer>,
    /// Decides whether the work is complete.
    pub evaluator: Arc<dyn Evaluator>,
    /// Decides what is archived.
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
