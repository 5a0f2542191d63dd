//! Protocol versions of drafts, which no revision has yet: a reader of the standard may skip them.

pub(crate) mod async_calls;
pub(crate) mod operations;
