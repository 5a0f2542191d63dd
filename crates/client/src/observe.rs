//! Shows what the clients of a process send and receive to an observer, such as a person who looks for a mistake.

use std::sync::OnceLock;

use reqwest::header::HeaderMap;
use reqwest::{Request, StatusCode};

/// Sees the messages of all clients of a process. They have credentials, arguments and results.
pub trait Observer: Send + Sync {
    /// A request is sent.
    fn request(&self, request: &Request);

    /// The head of an answer has come.
    fn response(&self, status: StatusCode, headers: &HeaderMap);

    /// A message of a server has come, in an answer or in a stream.
    fn message(&self, text: &str);
}

static OBSERVER: OnceLock<Box<dyn Observer>> = OnceLock::new();

/// Shows all messages from now on to `observer`. Only the first call counts.
pub fn observe(observer: impl Observer + 'static) {
    OBSERVER.get_or_init(|| Box::new(observer));
}

pub(crate) fn observer() -> Option<&'static dyn Observer> {
    OBSERVER.get().map(|observer| &**observer)
}
