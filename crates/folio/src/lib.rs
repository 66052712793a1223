//! Durable, token-budgeted working memory for agents, and a recursive planner and executor that live in it.
