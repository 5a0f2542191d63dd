//! The phase of one connection, and its time limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TimeLimits;

/// One connection, as its stream and its requests report it.
pub(crate) struct Connection {
    limits: TimeLimits,
    state: Mutex<State>,
    /// There may be a deadline where there was none.
    changed: Notify,
    closing: CancellationToken,
}

struct State {
    opened_at: Instant,
    first_byte_at: Option<Instant>,
    /// When the last request ended, or its answer moved on. `None` before the first complete head.
    idle_since: Option<Instant>,
    /// Requests whose head has arrived and whose answer is not sent.
    requests: usize,
    /// The requests of them whose bodies have not arrived.
    bodies: usize,
    bodies_since: Instant,
    /// Since when the other end has taken no bytes, while there are some for it.
    unread_since: Option<Instant>,
}

/// Why a connection is closed for another reason than lack of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Its time for a first request, or for reading an answer, has passed.
    Silent,
    /// It is kept open for requests that do not come.
    Idle,
}

/// How little a client loses if its connection is closed: the first most readily, and then the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// No complete head has arrived.
    Opening(Instant),
    /// There is no request. A client has to expect that such a connection is closed.
    Idle(Instant),
    /// No request has arrived completely.
    Receiving(Instant),
    /// The answer is ready, and not read.
    Unread(Instant),
}

impl State {
    fn rank(&self) -> Option<Rank> {
        match self.idle_since {
            None => Some(Rank::Opening(self.opened_at)),
            Some(since) if self.requests == 0 => Some(Rank::Idle(since)),
            Some(_) if self.requests == self.bodies => Some(Rank::Receiving(self.bodies_since)),
            Some(_) => self.unread_since.map(Rank::Unread),
        }
    }

    /// When the connection is to be closed, as things are.
    fn expires(&self, limits: &TimeLimits) -> Option<(Instant, Expired)> {
        let silent = match (self.rank()?, self.first_byte_at) {
            (Rank::Opening(opened_at), None) => Some(opened_at + limits.first_byte),
            (Rank::Opening(_), Some(first_byte_at)) => Some(first_byte_at + limits.head),
            (Rank::Idle(_) | Rank::Receiving(_) | Rank::Unread(_), _) => None,
        };
        let unread = self.unread_since.map(|since| since + limits.unread);
        let idle = (self.requests == 0).then_some(self.idle_since).flatten().map(|since| since + limits.idle);
        let silent = silent.into_iter().chain(unread).map(|at| (at, Expired::Silent));
        silent.chain(idle.map(|at| (at, Expired::Idle))).min_by_key(|(at, _)| *at)
    }
}

impl Connection {
    pub(super) fn new(limits: TimeLimits) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            opened_at: now,
            first_byte_at: None,
            idle_since: None,
            requests: 0,
            bodies: 0,
            bodies_since: now,
            unread_since: None,
        };
        Arc::new(Self { limits, state: Mutex::new(state), changed: Notify::new(), closing: CancellationToken::new() })
    }

    /// The first byte has arrived.
    pub(super) fn opened(&self) {
        self.lock().first_byte_at.get_or_insert_with(Instant::now);
    }

    /// The other end takes no more bytes for now.
    pub(super) fn unread(&self) {
        self.lock().unread_since.get_or_insert_with(Instant::now);
        self.changed.notify_one();
    }

    /// The other end has taken bytes.
    pub(super) fn read(&self) {
        let mut state = self.lock();
        if state.unread_since.take().is_some() && state.idle_since.is_some() {
            // The rest of an answer: the connection was not idle until now.
            state.idle_since = Some(Instant::now());
        }
    }

    /// The head of a request has arrived. The request lasts until the exchange is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Exchange {
        let mut state = self.lock();
        state.requests += 1;
        state.idle_since = Some(Instant::now());
        drop(state);
        Exchange(Arc::clone(self))
    }

    /// The body of a request is expected, until the guard is dropped.
    pub(super) fn receive(self: &Arc<Self>) -> Receiving {
        let mut state = self.lock();
        if state.bodies == 0 {
            state.bodies_since = Instant::now();
        }
        state.bodies += 1;
        drop(state);
        Receiving(Arc::clone(self))
    }

    /// How readily this connection may be closed; `None` if it must not be.
    pub(super) fn may_be_closed(&self) -> Option<Rank> {
        self.lock().rank()
    }

    /// Whether no request has begun on it.
    pub(crate) fn is_unused(&self) -> bool {
        matches!(self.lock().rank(), Some(Rank::Opening(_)))
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Waits until it has to be closed at once.
    pub(crate) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Waits until its time has elapsed.
    pub(crate) async fn expired(&self) -> Expired {
        loop {
            let expires = self.lock().expires(&self.limits);
            match expires {
                Some((at, expired)) if at <= Instant::now() => return expired,
                Some((at, _)) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    pub(super) const fn limits(&self) -> &TimeLimits {
        &self.limits
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request, from its head to the end of its answer.
pub(crate) struct Exchange(Arc<Connection>);

impl Exchange {
    pub(super) const fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.requests -= 1;
        state.idle_since = Some(Instant::now());
        drop(state);
        self.0.changed.notify_one();
    }
}

/// A body that has not arrived.
pub(super) struct Receiving(Arc<Connection>);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.lock().bodies -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(connection: &Connection) -> Option<(u128, Expired)> {
        let state = connection.lock();
        let (at, expired) = state.expires(&connection.limits)?;
        let since = state.unread_since.or(state.idle_since).or(state.first_byte_at).unwrap_or(state.opened_at);
        Some((at.duration_since(since).as_millis(), expired))
    }

    #[test]
    fn each_silence_has_its_own_limit() {
        let limits = TimeLimits::for_tests();
        let connection = Connection::new(limits);
        assert_eq!(after(&connection), Some((limits.first_byte.as_millis(), Expired::Silent)));
        connection.opened();
        assert_eq!(after(&connection), Some((limits.head.as_millis(), Expired::Silent)));
        let exchange = connection.begin();
        let body = connection.receive();
        assert_eq!(after(&connection), None, "a body has a limit of its own");
        drop(body);
        assert_eq!(after(&connection), None, "a call may take as long as it likes");
        connection.unread();
        assert_eq!(after(&connection), Some((limits.unread.as_millis(), Expired::Silent)));
        connection.read();
        assert_eq!(after(&connection), None);
        drop(exchange);
        assert_eq!(after(&connection), Some((limits.idle.as_millis(), Expired::Idle)));
        connection.unread();
        assert_eq!(after(&connection), Some((limits.unread.as_millis(), Expired::Silent)));
    }

    #[test]
    fn those_with_the_least_to_lose_are_closed_first() {
        let new = || Connection::new(TimeLimits::for_tests());
        let rank = |connection: &Connection| connection.may_be_closed();
        let (unread, receiving, idle, opening, busy) = (new(), new(), new(), new(), new());
        let exchanges = [unread.begin(), receiving.begin(), busy.begin()];
        unread.unread();
        let body = receiving.receive();
        drop(idle.begin());
        opening.opened();
        assert_eq!(rank(&busy), None);
        let (opening, idle) = (rank(&opening).unwrap(), rank(&idle).unwrap());
        let (receiving, unread) = (rank(&receiving).unwrap(), rank(&unread).unwrap());
        assert!(opening < idle && idle < receiving && receiving < unread);
        drop((exchanges, body));
    }

    #[test]
    fn a_connection_with_one_complete_request_among_others_is_busy() {
        let connection = Connection::new(TimeLimits::for_tests());
        let requests = [connection.begin(), connection.begin()];
        let bodies = [connection.receive(), connection.receive()];
        assert!(matches!(connection.may_be_closed(), Some(Rank::Receiving(_))));
        let [first, second] = bodies;
        drop(first);
        assert_eq!(connection.may_be_closed(), None);
        drop((second, requests));
        assert!(matches!(connection.may_be_closed(), Some(Rank::Idle(_))));
    }
}
