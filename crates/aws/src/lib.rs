//! Longhaul on AWS: the task store in one DynamoDB table, the work queue in SQS.
//!
//! [`DynamoStore`] turns every event into one conditional write; all writes and their conditions are in one file
//! (`expressions`). [`SqsQueue`] sends keys, never payloads. Both take configured clients, which [`clients`] makes.

mod applying;
mod attachments;
mod change;
pub mod clients;
mod creating;
mod error;
mod events;
mod expressions;
mod item;
mod keys;
mod lifetimes;
mod listing;
mod mailboxes;
mod message;
mod not_published;
mod parameter;
mod permits;
mod queue;
mod quota;
mod record;
mod retention;
mod roots;
mod secret;
mod signed;
mod store;
mod stream;
mod table;
mod tool_secrets;

pub use events::{BusEvent, EventBus, EventBusError};
pub use message::{TRACE_ATTRIBUTE, UnreadableMessage, body_of, read_delivered, read_message};
pub use not_published::NotPublishedQueue;
pub use parameter::{Parameter, ParameterError};
pub use queue::SqsQueue;
pub use secret::SECRET;
pub use store::{DynamoStore, QuotaMode};
pub use stream::{StreamEvent, StreamRecord, TaskChange};
pub use tool_secrets::{ToolSecretError, read_tool_secrets};
