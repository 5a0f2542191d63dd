//! A call on its way to the engine: its caller, and how it is accepted, asks and is cancelled.

pub(crate) mod accept;
pub(crate) mod asking;
pub(crate) mod caller;
pub(crate) mod cancelling;
pub(crate) mod plain_answers;
