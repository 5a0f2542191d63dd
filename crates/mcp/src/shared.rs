//! What the code that answers requests and the code that runs tools have in common: the server's state, who calls,
//! messages, replies, errors, and calls on their way to the engine.

pub(crate) mod accept;
pub(crate) mod access;
pub(crate) mod arguments;
pub(crate) mod asking;
pub(crate) mod audited;
pub(crate) mod body;
pub(crate) mod callback_token;
pub(crate) mod caller;
pub(crate) mod cancelling;
pub(crate) mod capabilities;
pub(crate) mod derived;
pub(crate) mod digest;
pub(crate) mod errors;
pub(crate) mod guard;
pub(crate) mod incoming;
pub(crate) mod keyring;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod polls;
pub(crate) mod rate;
pub(crate) mod record;
pub(crate) mod reply;
pub(crate) mod retry_after;
pub(crate) mod schemas;
pub(crate) mod scope;
pub(crate) mod session;
pub(crate) mod session_streams;
pub(crate) mod signer;
pub(crate) mod sse;
pub(crate) mod start;
mod state;
pub(crate) mod streams;
pub(crate) mod task_logs;
pub(crate) mod tool_list;
pub(crate) mod verified_caller;
pub(crate) mod watch;
pub(crate) mod weight;
pub(crate) mod wire;

pub(crate) use state::Shared;
