//! The connections of a local server: how many there may be, and which is closed to make room for a new one.
//!
//! A connection with a request that is being answered is never closed for another one. All others are held by clients
//! that send nothing, or too slowly. The server closes them after a limit, or earlier when it needs room.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

mod allowed;
mod body;
mod connection;

pub(super) use allowed::{ConnectionLimits, ConnectionSettings, TimeLimits};
pub(super) use body::{AnswerBody, RequestBody, Watched};
pub(super) use connection::{Connection, Exchange, Expired};

use crate::serve::limits::ROOM_WAIT;

/// All open connections.
pub(super) struct Connections {
    limits: ConnectionLimits,
    open: Mutex<Open>,
    /// Wakes those who wait for room.
    closed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, (Peer, Arc<Connection>)>,
    of_peer: HashMap<Peer, usize>,
}

/// The other end, for limits. It is an address of IPv4, or a network of IPv6, in which one client may have any number
/// of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

/// The treatment of a new connection.
pub(super) enum Admission {
    /// It may be served.
    Served(Slot),
    /// It may be served, after another one was closed for it.
    InPlaceOfAnother(Slot),
    /// All others are busy.
    Full,
}

/// The result of one scan of the open connections.
enum Look {
    Free(Slot),
    /// One connection is being closed.
    Closing,
    Full,
}

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default(), closed: Notify::new() })
    }

    /// Finds room for a new connection from `address`.
    pub(super) async fn admit(self: &Arc<Self>, address: IpAddr) -> Admission {
        match self.look(address.into()) {
            Look::Free(slot) => return Admission::Served(slot),
            Look::Full => return Admission::Full,
            Look::Closing => {}
        }
        let room = tokio::time::timeout(ROOM_WAIT, self.room(address.into())).await;
        room.ok().flatten().map_or(Admission::Full, Admission::InPlaceOfAnother)
    }

    async fn room(self: &Arc<Self>, peer: Peer) -> Option<Slot> {
        loop {
            let closed = self.closed.notified();
            match self.look(peer) {
                Look::Free(slot) => return Some(slot),
                Look::Full => return None,
                Look::Closing => closed.await,
            }
        }
    }

    fn look(self: &Arc<Self>, peer: Peer) -> Look {
        let mut open = self.lock();
        let of_peer = open.of_peer.get(&peer).copied().unwrap_or(0);
        if of_peer >= self.limits.per_address {
            return open.make_room(|other| other == peer);
        }
        if open.all.len() >= self.limits.total {
            return open.make_room(|_| true);
        }
        let (id, connection) = (open.next, Connection::new(self.limits.times));
        open.next += 1;
        open.all.insert(id, (peer, Arc::clone(&connection)));
        *open.of_peer.entry(peer).or_default() += 1;
        Look::Free(Slot { id, connection, connections: Arc::clone(self) })
    }

    /// Closes a connection that may be closed, because something else is short, such as file descriptors.
    pub(super) fn close_one(&self) {
        self.lock().make_room(|_| true);
    }

    /// Closes all connections at once.
    pub(super) fn close_all(&self) {
        self.lock().all.values().for_each(|(_, connection)| connection.close());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Closes the connection that has the least to lose, among those whose peer is `chosen`.
    fn make_room(&mut self, chosen: impl Fn(Peer) -> bool) -> Look {
        let candidates = || self.all.values().filter(|(peer, _)| chosen(*peer)).map(|(_, connection)| connection);
        if candidates().any(|connection| connection.is_closing()) {
            return Look::Closing;
        }
        let worst = candidates().filter_map(|connection| Some((connection.may_be_closed()?, connection)));
        match worst.min_by_key(|(rank, _)| *rank) {
            Some((_, connection)) => {
                connection.close();
                Look::Closing
            }
            None => Look::Full,
        }
    }
}

/// The place of one open connection, which is free again when this is dropped.
pub(super) struct Slot {
    id: u64,
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl Slot {
    pub(super) const fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        if let Some((peer, _)) = open.all.remove(&self.id)
            && let Some(count) = open.of_peer.get_mut(&peer)
        {
            *count -= 1;
            if *count == 0 {
                open.of_peer.remove(&peer);
            }
        }
        drop(open);
        self.connections.closed.notify_waiters();
    }
}

/// How often the log says so.
const EVERY: Duration = Duration::from_secs(60);

/// The incidents since the last line in the log.
#[derive(Default)]
pub(crate) struct Incidents {
    logged_at: Option<Instant>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    failed: u64,
    closed: u64,
    refused: u64,
    error: Option<io::Error>,
}

impl Incidents {
    /// The system gave no connection.
    pub(crate) fn failed(&mut self, error: io::Error) {
        self.counts.failed += 1;
        self.counts.error = Some(error);
    }

    /// A connection was closed to make room for another one.
    pub(crate) const fn closed_for_another(&mut self) {
        self.counts.closed += 1;
    }

    /// A connection was refused.
    pub(crate) const fn refused(&mut self) {
        self.counts.refused += 1;
    }

    /// Waits until there is something to log.
    pub(crate) async fn due(&self) {
        let Counts { failed, closed, refused, .. } = &self.counts;
        if failed + closed + refused == 0 {
            return std::future::pending().await;
        }
        if let Some(logged_at) = self.logged_at {
            tokio::time::sleep_until(logged_at + EVERY).await;
        }
    }

    /// Logs what has happened.
    pub(crate) fn log(&mut self) {
        self.logged_at = Some(Instant::now());
        let Counts { failed, closed, refused, error } = std::mem::take(&mut self.counts);
        if let Some(error) = error {
            tracing::warn!(%error, failed, "connections could not be accepted");
        }
        if closed + refused > 0 {
            tracing::warn!(
                closed,
                refused,
                "too many connections: some that were silent, idle or slow were closed to make room, or new ones were \
                 refused"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn connections(total: usize, per_address: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { total, per_address, times: TimeLimits::for_tests() })
    }

    async fn admitted(connections: &Arc<Connections>, address: IpAddr) -> Option<Slot> {
        match connections.admit(address).await {
            Admission::Served(slot) | Admission::InPlaceOfAnother(slot) => Some(slot),
            Admission::Full => None,
        }
    }

    /// Gives its place back as soon as it is told to.
    #[expect(clippy::disallowed_methods, reason = "it does so while the test waits for room")]
    fn obedient(slot: Slot) -> tokio::task::JoinHandle<()> {
        tokio::task::spawn(async move {
            slot.connection().closing().await;
            drop(slot);
        })
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_of_the_same_address_makes_room() {
        let connections = connections(10, 2);
        let other = obedient(admitted(&connections, THERE).await.unwrap());
        let first = obedient(admitted(&connections, HERE).await.unwrap());
        let second = obedient(admitted(&connections, HERE).await.unwrap());
        let third = admitted(&connections, HERE).await;
        assert!(third.is_some());
        first.await.unwrap();
        assert!(!second.is_finished() && !other.is_finished());
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_of_all_makes_room_if_there_are_too_many() {
        let connections = connections(2, 2);
        let first = obedient(admitted(&connections, THERE).await.unwrap());
        let second = obedient(admitted(&connections, HERE).await.unwrap());
        assert!(admitted(&connections, HERE).await.is_some());
        first.await.unwrap();
        assert!(!second.is_finished());
    }

    #[tokio::test]
    async fn a_connection_with_a_request_keeps_its_place() {
        let connections = connections(2, 2);
        let busy = admitted(&connections, HERE).await.unwrap();
        let exchange = busy.connection().begin();
        let silent = obedient(admitted(&connections, HERE).await.unwrap());
        let newest = admitted(&connections, HERE).await.unwrap();
        silent.await.unwrap();
        let other = newest.connection().begin();
        assert!(admitted(&connections, HERE).await.is_none(), "both are busy");
        drop(other);
        let newest = obedient(newest);
        assert!(admitted(&connections, HERE).await.is_some(), "one is idle now");
        newest.await.unwrap();
        drop(exchange);
    }

    #[tokio::test]
    async fn what_is_gone_does_not_count() {
        let connections = connections(1, 1);
        for _ in 0..3 {
            assert!(matches!(connections.admit(HERE).await, Admission::Served(_)));
        }
        assert!(connections.lock().of_peer.is_empty());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_peer() {
        let peer = |text: &str| Peer::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
