//! Notifies a client when a resource that it follows has changed. The resource is read again whenever the space has
//! grown.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use folio::memory::Seq;
use folio::store::WorkspaceError;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::resources::{Address, failed, unknown};
use super::{Caller, Mcp};

/// The most addresses that one conversation follows.
pub(super) const MAX_SUBSCRIPTIONS: usize = 64;
/// How long changes are gathered before the client is notified: a series of changes is one notification.
const DEBOUNCE_DELAY: Duration = Duration::from_millis(50);
/// The pause after a failure of the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The resources that a conversation follows, by `resources/subscribe`.
#[derive(Debug)]
pub(super) struct Followed {
    subscriptions: Mutex<Subscriptions>,
    /// Cancelled with the conversation.
    ended: CancellationToken,
    _ends: DropGuard,
}

/// The followed addresses.
#[derive(Debug, Default)]
struct Subscriptions {
    by_uri: HashMap<String, (Address, u64)>,
    /// Whether a task watches the space.
    is_watched: bool,
}

impl Default for Followed {
    fn default() -> Self {
        let ended = CancellationToken::new();
        Self {
            subscriptions: Mutex::default(),
            _ends: ended.clone().drop_guard(),
            ended,
        }
    }
}

impl Followed {
    fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock()
    }

    /// Stops following `uri`.
    pub(super) fn unfollow(&self, uri: &str) {
        self.subscriptions().by_uri.remove(uri);
    }

    fn all(&self) -> Vec<(String, Address, u64)> {
        let seen = self.subscriptions();
        let mut all: Vec<_> = seen
            .by_uri
            .iter()
            .map(|(uri, (address, mark))| (uri.clone(), address.clone(), *mark))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

/// How far the log of a space was read.
#[derive(Debug, Clone, Copy)]
struct Place {
    head: Seq,
    /// The lineage of the store that has the log.
    lineage: u64,
}

impl Place {
    /// The present end of the log.
    async fn of(caller: &Caller) -> Result<Self, WorkspaceError> {
        let lineage = caller.workspace.store().lineage();
        let head = caller.workspace.head().await?;
        Ok(Self { head, lineage })
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
        // Taken before the resource is read, so that no change falls in between.
        let place = Place::of(&caller).await.map_err(|error| failed(&error.into(), &uri))?;
        let caller = caller.watching();
        let text = self.text_of(&caller, &address).await;
        let mark = mark_of(&text.map_err(|problem| failed(&problem, &uri))?);
        let followed = &self.followed;
        let is_watched = {
            let mut seen = followed.subscriptions();
            if seen.by_uri.len() >= MAX_SUBSCRIPTIONS && !seen.by_uri.contains_key(&uri) {
                let message =
                    format!("a client can subscribe to at most {MAX_SUBSCRIPTIONS} resources; unsubscribe from some");
                return Err(rmcp::ErrorData::invalid_params(message, None));
            }
            seen.by_uri.insert(uri, (address, mark));
            std::mem::replace(&mut seen.is_watched, true)
        };
        if !is_watched {
            let (followed, ended) = (Arc::downgrade(followed), followed.ended.clone());
            // A server without the resources that the conversation follows: those must be dropped with the
            // conversation.
            let server = self.for_new_conversation();
            tokio::spawn(async move {
                let watching = server.watch(caller, place, followed, peer);
                ended.run_until_cancelled(watching).await;
            });
        }
        Ok(())
    }

    async fn watch(&self, caller: Caller, mut place: Place, followed: Weak<Followed>, peer: Peer<RoleServer>) {
        loop {
            place = self.wait_for_commits(&caller, place).await;
            let Some(all) = followed.upgrade().map(|followed| followed.all()) else {
                return;
            };
            for (uri, address, before) in all {
                let Some(mark) = self.mark(&caller, &address).await.filter(|mark| *mark != before) else {
                    continue;
                };
                let Some(followed) = followed.upgrade() else { return };
                match followed.subscriptions().by_uri.get_mut(&uri) {
                    Some((_, last_mark)) => *last_mark = mark,
                    // It was unsubscribed meanwhile.
                    None => continue,
                }
                let update = ResourceUpdatedNotificationParam::new(uri);
                if peer.notify_resource_updated(update).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Follows the resources of a subscription in the generation without sessions, until it is cancelled. The client is
    /// notified of each of them at once: the library confirmed the subscription before this is called, so whatever the
    /// client has read may have changed since.
    pub(super) async fn listen_for(&self, caller: Caller, context: &SubscriptionContext) {
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let caller = caller.watching();
        let Ok(mut place) = Place::of(&caller).await else {
            return;
        };
        let addresses = uris
            .into_iter()
            .filter_map(|uri| Address::parse(&uri).map(|address| (uri, address, None)));
        let mut marks: Vec<_> = addresses.collect();
        loop {
            for (uri, address, before) in &mut marks {
                let mark = self.mark(&caller, address).await;
                if mark.is_none() || mark == *before {
                    continue;
                }
                *before = mark;
                if context.sink().notify_resource_updated(uri.clone()).await.is_err() {
                    return;
                }
            }
            place = self.wait_for_commits(&caller, place).await;
        }
    }

    /// Waits until the space has grown beyond `place`, or another store has taken over, and a little longer. Returns the
    /// place then.
    async fn wait_for_commits(&self, caller: &Caller, place: Place) -> Place {
        let store = caller.workspace.store();
        loop {
            tokio::select! {
                waited = caller.workspace.wait(place.head) => match waited {
                    Ok(_) => break,
                    Err(_) => tokio::time::sleep(RETRY_DELAY).await,
                },
                // The space may have fewer commits by now than it had.
                () = store.wait_for_other_lineage(place.lineage) => break,
            }
        }
        tokio::time::sleep(DEBOUNCE_DELAY).await;
        loop {
            match Place::of(caller).await {
                Ok(place) => break place,
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Returns a hash of the text at an address, or `None` if it cannot be read now.
    async fn mark(&self, caller: &Caller, address: &Address) -> Option<u64> {
        self.text_of(caller, address).await.ok().map(|text| mark_of(&text))
    }
}

fn mark_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
