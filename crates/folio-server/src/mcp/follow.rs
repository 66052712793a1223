//! Tells a client that something it follows has changed: what is at an address is read again whenever the space has grown.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::resources::{Address, failed, unknown};
use super::{Caller, Mcp};
use crate::http::problem::Problem;

/// Addresses that one conversation follows, at most.
pub(super) const MOST: usize = 64;
/// How long changes are gathered before anybody is told: what comes in a row is told once.
const GATHER: Duration = Duration::from_millis(50);
/// How long after a failure of the store it is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// What a conversation follows, by its `resources/subscribe`.
#[derive(Debug)]
pub(super) struct Followed {
    seen: Mutex<Seen>,
    /// Ends with the conversation.
    ended: CancellationToken,
    _ends: DropGuard,
}

/// What stood at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    text: u64,
    /// What the text follows from, as far as that is known without making it: as long as it is the same, so is the text.
    source: Option<u64>,
}

/// Addresses as they were written, what they mean, and what stood there when it was last told.
#[derive(Debug, Default)]
struct Seen {
    at: HashMap<String, (Address, Mark)>,
    /// Whether somebody looks.
    is_watched: bool,
}

impl Default for Followed {
    fn default() -> Self {
        let ended = CancellationToken::new();
        Self {
            seen: Mutex::default(),
            _ends: ended.clone().drop_guard(),
            ended,
        }
    }
}

impl Followed {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows `uri` no longer.
    pub(super) fn leave(&self, uri: &str) {
        self.seen().at.remove(uri);
    }

    fn all(&self) -> Vec<(String, Address, Mark)> {
        let seen = self.seen();
        let mut all: Vec<_> = seen
            .at
            .iter()
            .map(|(uri, (address, mark))| (uri.clone(), address.clone(), *mark))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

impl Mcp {
    /// Follows `uri` for the conversation with `peer`.
    pub(super) async fn follow(
        &self,
        caller: Caller,
        uri: String,
        peer: Peer<RoleServer>,
    ) -> Result<(), rmcp::ErrorData> {
        let address = Address::parse(&uri).ok_or_else(|| unknown(&uri))?;
        // Seen before it is read, so that no change falls in between.
        let head = caller
            .workspace
            .head()
            .await
            .map_err(|error| failed(&error.into(), &uri))?;
        let mark = self.mark(&caller, &address, None).await;
        let mark = mark.map_err(|problem| failed(&problem, &uri))?;
        let followed = &self.followed;
        let is_watched = {
            let mut seen = followed.seen();
            if seen.at.len() >= MOST && !seen.at.contains_key(&uri) {
                let message = format!("a conversation follows at most {MOST} resources; unsubscribe from some");
                return Err(rmcp::ErrorData::invalid_params(message, None));
            }
            seen.at.insert(uri, (address, mark));
            std::mem::replace(&mut seen.is_watched, true)
        };
        if !is_watched {
            let (followed, ended) = (Arc::downgrade(followed), followed.ended.clone());
            // Without what the conversation follows, which is gone when the conversation is.
            let server = self.another();
            tokio::spawn(async move {
                let watching = server.watch(caller, head, followed, peer);
                ended.run_until_cancelled(watching).await;
            });
        }
        Ok(())
    }

    async fn watch(&self, caller: Caller, head: folio::memory::Seq, followed: Weak<Followed>, peer: Peer<RoleServer>) {
        let mut head = head;
        loop {
            head = self.grown(&caller, head).await;
            let Some(all) = followed.upgrade().map(|followed| followed.all()) else {
                return;
            };
            for (uri, address, before) in all {
                let Ok(mark) = self.mark(&caller, &address, Some(before)).await else {
                    continue;
                };
                let Some(followed) = followed.upgrade() else { return };
                match followed.seen().at.get_mut(&uri) {
                    Some((_, told)) => *told = mark,
                    // Nobody follows it any more.
                    None => continue,
                }
                if mark.text == before.text {
                    continue;
                }
                let told = ResourceUpdatedNotificationParam::new(uri);
                if peer.notify_resource_updated(told).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Follows what a subscription of the generation without sessions asks for, until it is cancelled.
    pub(super) async fn listen_for(&self, caller: Caller, context: &SubscriptionContext) {
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let Ok(mut head) = caller.workspace.head().await else {
            return;
        };
        let mut marks = Vec::new();
        for uri in uris {
            if let Some(address) = Address::parse(&uri) {
                let mark = self.mark(&caller, &address, None).await.ok();
                marks.push((uri, address, mark));
            }
        }
        // What came while they were read may have been seen here and not by the client.
        let mut is_unsure = caller.workspace.head().await.ok() != Some(head);
        loop {
            if !is_unsure {
                head = self.grown(&caller, head).await;
            }
            let tells_all = std::mem::take(&mut is_unsure);
            for (uri, address, before) in &mut marks {
                let Ok(mark) = self.mark(&caller, address, *before).await else {
                    continue;
                };
                let is_same = before.replace(mark).is_some_and(|before| before.text == mark.text);
                if is_same && !tells_all {
                    continue;
                }
                if context.sink().notify_resource_updated(uri.clone()).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Waits until the space has grown beyond `head`, and a little longer; how far it is then.
    async fn grown(&self, caller: &Caller, head: folio::memory::Seq) -> folio::memory::Seq {
        loop {
            match caller.workspace.wait(head).await {
                Ok(_) => break,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
        tokio::time::sleep(GATHER).await;
        caller.workspace.head().await.unwrap_or(head)
    }

    /// What stands at an address, where it was `before`.
    async fn mark(&self, caller: &Caller, address: &Address, before: Option<Mark>) -> Result<Mark, Problem> {
        let source = self.source_of(caller, address).await?;
        if let Some(before) = before.filter(|before| source.is_some() && before.source == source) {
            return Ok(before);
        }
        let text = number_of(&self.text_of(caller, address).await?);
        Ok(Mark { text, source })
    }

    /// What is at an address follows from a run's row, with the end of its journal, if it is a run. All else is made to be compared.
    async fn source_of(&self, caller: &Caller, address: &Address) -> Result<Option<u64>, Problem> {
        let Address::Run(run) = address else { return Ok(None) };
        let row = caller.workspace.run(*run).await?;
        Ok(Some(number_of(&format!("{row:?}"))))
    }
}

fn number_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
