//! What is put away: offloaded history, evicted results, and answers that wait while the store cannot write.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod evict;
#[path = "../house/mod.rs"]
mod house;
mod offload;
mod offload_carried;
mod offload_growing;
mod offload_large;
mod offload_settled;
mod outbox;
mod outbox_privacy;
