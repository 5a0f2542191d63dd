//! Subscribing to the resources of a server, on a connection that is there while at least one client is subscribed.

#![expect(deprecated, reason = "servers of older revisions are subscribed to one resource at a time")]

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul::SystemClock;
use longhaul_core::Clock;
use rmcp::ErrorData;
use rmcp::model::{
    ClientRequest, PingRequest, ServerNotification, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{ServiceError, Subscription, SubscriptionEnd};
use tokio::sync::{broadcast, watch};

use super::client::Client;
use super::updates::{Change, Wanted};
use super::{Connection, Upstream};
use crate::limits;
use crate::target::Lifecycle;

/// The changes of some resources of a server. It is subscribed to them until this is dropped.
pub(crate) struct ResourceSubscription {
    upstream: Arc<Upstream>,
    uris: BTreeSet<String>,
    told: broadcast::Receiver<Change>,
    /// The resources whose changes may have been missed.
    missed: BTreeSet<String>,
}

impl ResourceSubscription {
    /// The next resource that has changed, or may have changed. Each resource is returned once at the beginning, since
    /// it may have changed before the server was subscribed to. Each is returned again after the connection was lost.
    pub(crate) async fn next(&mut self) -> Result<String, ErrorData> {
        loop {
            if let Some(uri) = self.missed.pop_first() {
                return Ok(uri);
            }
            match self.told.recv().await {
                Ok(Change::Updated(uri)) if self.uris.contains(&*uri) => return Ok(uri.to_string()),
                Ok(Change::Refused(uri, error)) if self.uris.contains(&*uri) => return Err(error),
                Ok(Change::Updated(_) | Change::Refused(..)) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => self.missed.clone_from(&self.uris),
                // The sender is as old as the server's entry, which this holds.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut self.uris);
        self.upstream.updates.wanted.send_modify(|wanted| {
            for uri in uris {
                match wanted.uris.get_mut(&uri) {
                    Some(listeners) if *listeners > 1 => *listeners -= 1,
                    _ => drop(wanted.uris.remove(&uri)),
                }
            }
        });
    }
}

impl Upstream {
    /// Subscribes to changes of these resources.
    pub(crate) fn hear(self: &Arc<Self>, uris: BTreeSet<String>) -> Result<ResourceSubscription, ErrorData> {
        let told = self.updates.told.subscribe();
        let (mut is_full, mut was_kept, mut missed) = (false, true, BTreeSet::new());
        self.updates.wanted.send_if_modified(|wanted| {
            let new = uris.iter().filter(|uri| !wanted.uris.contains_key(*uri)).count();
            is_full = wanted.uris.len() + new > limits::SUBSCRIBED_MAX;
            if is_full {
                return false;
            }
            missed = uris.iter().filter(|uri| wanted.uris.contains_key(*uri)).cloned().collect();
            for uri in &uris {
                *wanted.uris.entry(uri.clone()).or_default() += 1;
            }
            was_kept = std::mem::replace(&mut wanted.is_kept, true);
            true
        });
        if is_full {
            let (max, name) = (limits::SUBSCRIBED_MAX, &self.name);
            let why = format!("{max} resources of `{name}` are subscribed to at a time, and no more");
            return Err(ErrorData::internal_error(why, None));
        }
        if !was_kept {
            keep_subscribed(Arc::clone(self));
        }
        Ok(ResourceSubscription { upstream: Arc::clone(self), uris, told, missed })
    }

    /// Receives changes until no subscriber is left. An error says why the server no longer sends them.
    async fn hear_until_left(&self, wanted: &mut watch::Receiver<Wanted>) -> Result<(), String> {
        let client = Client::quiet(&self.name).hearing(&self.updates.told);
        let connected = Box::pin(self.connect_in_its_lifecycle(client, &self.updates.permits)).await;
        let connection = connected.map_err(|error| error.to_string())?;
        let lifecycle = connection.peer().peer_info().map(|info| Lifecycle::of(&info.protocol_version));
        match lifecycle {
            Some(Lifecycle::PerRequest) => self.listen(&connection, wanted).await,
            Some(Lifecycle::Handshake) | None => self.subscribe(&connection, wanted).await,
        }
    }

    /// In the older lifecycle: one request for each resource.
    async fn subscribe(&self, connection: &Connection, wanted: &mut watch::Receiver<Wanted>) -> Result<(), String> {
        let (peer, mut known) = (connection.peer(), BTreeSet::new());
        loop {
            let uris = uris(wanted);
            if uris.is_empty() {
                return Ok(());
            }
            for uri in uris.difference(&known) {
                match quick(peer.subscribe(SubscribeRequestParams::new(uri))).await? {
                    Ok(()) => self.updates.tell(uri),
                    Err(error) => self.updates.refuse(uri, &error),
                }
            }
            for uri in known.difference(&uris) {
                // The server does not know a refused subscription.
                drop(quick(peer.unsubscribe(UnsubscribeRequestParams::new(uri))).await?);
            }
            known = uris;
            tokio::select! {
                _changed = wanted.changed() => {}
                why = lost(connection) => return Err(why),
            }
        }
    }

    /// In the newer lifecycle: a stream for all resources, and another stream when the resources change.
    async fn listen(&self, connection: &Connection, wanted: &mut watch::Receiver<Wanted>) -> Result<(), String> {
        let (mut known, mut earlier) = (BTreeSet::new(), None);
        loop {
            let uris = uris(wanted);
            if uris.is_empty() {
                return Ok(());
            }
            let mut stream = self.stream(connection, &uris).await?;
            // Only now, so that nothing is missed in between.
            drop(earlier.take());
            let accepted = stream.acknowledged().resource_subscriptions.clone().unwrap_or_default();
            for uri in uris.difference(&known) {
                self.updates.begin(uri, &accepted);
            }
            known = uris;
            tokio::select! {
                ended = self.hear_stream(&mut stream) => {
                    ended?;
                    known.clear();
                    SystemClock.sleep_ms(limits::HEAR_AGAIN_MS).await;
                }
                _changed = wanted.changed() => earlier = Some(stream),
            }
        }
    }

    async fn stream(&self, connection: &Connection, uris: &BTreeSet<String>) -> Result<Subscription, String> {
        let filter = SubscriptionFilter::builder().resource_subscriptions(uris).build();
        quick(connection.peer().listen(filter)).await?.map_err(|error| {
            uris.iter().for_each(|uri| self.updates.refuse(uri, &error));
            error.message.into_owned()
        })
    }

    /// Reports changes until the server ends the stream as it may.
    async fn hear_stream(&self, stream: &mut Subscription) -> Result<(), String> {
        while let Some(notification) = stream.next().await.map_err(|error| error.to_string())? {
            if let ServerNotification::ResourceUpdatedNotification(updated) = notification {
                self.updates.tell(&updated.params.uri);
            }
        }
        match stream.end() {
            Some(SubscriptionEnd::Graceful(_)) => Ok(()),
            _ => Err("its stream has ended".to_owned()),
        }
    }
}

/// The resources that are wanted now.
fn uris(wanted: &mut watch::Receiver<Wanted>) -> BTreeSet<String> {
    wanted.borrow_and_update().uris.keys().cloned().collect()
}

#[expect(clippy::disallowed_methods, reason = "ends soon after the last listener has left")]
fn keep_subscribed(upstream: Arc<Upstream>) {
    tokio::spawn(async move {
        let mut wanted = upstream.updates.wanted.subscribe();
        let mut pause_ms = limits::HEAR_AGAIN_MS;
        while !upstream.updates.is_over() {
            let began = SystemClock.now();
            let Err(why) = upstream.hear_until_left(&mut wanted).await else { continue };
            tracing::warn!(server = upstream.name, why, "it does not tell of changes of its resources now");
            if SystemClock.now().since_ms(began) > limits::HEAR_AGAIN_MS_MAX {
                pause_ms = limits::HEAR_AGAIN_MS;
            }
            tokio::select! {
                () = SystemClock.sleep_ms(pause_ms) => {}
                _nobody = wanted.wait_for(|wanted| wanted.uris.is_empty()) => {}
            }
            pause_ms = (2 * pause_ms).min(limits::HEAR_AGAIN_MS_MAX);
        }
    });
}

/// The server's answer to a request that has to be quick. The inner error is the one that the server answered with.
async fn quick<T>(request: impl Future<Output = Result<T, ServiceError>>) -> Result<Result<T, ErrorData>, String> {
    // Boxed because the futures of `rmcp` are too large for the stack of a thread otherwise.
    match tokio::time::timeout(limits::ANSWER_MAX, Box::pin(request)).await {
        Ok(Ok(answer)) => Ok(Ok(answer)),
        Ok(Err(ServiceError::McpError(error))) => Ok(Err(error)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_late) => Err(format!("no answer within {} seconds", limits::ANSWER_MAX.as_secs())),
    }
}

/// Waits until a connection is lost. A server that has forgotten the session would not say so, so it is pinged.
async fn lost(connection: &Connection) -> String {
    let mut polls: u64 = 0;
    loop {
        SystemClock.sleep_ms(limits::SWEEP_MS).await;
        if !connection.is_open() {
            return "the connection was lost".to_owned();
        }
        polls += 1;
        if polls.is_multiple_of(limits::PING_EVERY_MS / limits::SWEEP_MS) {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            if let Err(why) = quick(connection.peer().send_request(ping)).await {
                return why;
            }
        }
    }
}
