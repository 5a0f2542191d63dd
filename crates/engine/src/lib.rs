//! The use cases of Longhaul, over the ports of the domain: accept a call, poll, answer, cancel, run one delivery,
//! recover what was lost on the way.
//!
//! Nothing here knows MCP or AWS, spawns work, reads a clock or generates randomness: all of that comes in through
//! [`Ports`]. So the same code runs in a Lambda function, on a laptop, and in a simulator where one seed is one run.

mod accept;
mod answer;
mod attempt;
mod changes;
mod children;
mod delivery;
mod engine;
mod error;
mod listener;
mod observer;
mod poll;
mod publish;
mod recovery;
mod settings;
mod signals;
mod suspension;
mod tool;
mod variables;
mod writes;

pub use accept::{Accepted, Call, Idempotency, WebhookDelivery};
pub use attempt::{Attempt, Every};
pub use changes::Subject;
pub use children::{CallError, ChildEnd, child_of};
pub use delivery::{Disposition, WorkerSignals};
pub use engine::{Engine, Ports};
pub use error::{AcceptError, AnswerError, CollectError, LeaveError, LoadError, PollError, SignalError};
pub use listener::Listener;
pub use observer::{IsRecorded, Observer};
pub use poll::Cancelled;
pub use publish::{PublishError, WebhookDeliveries};
pub use recovery::{EnsureError, Ensured, Swept};
pub use settings::{AttemptLimit, Settings};
pub use signals::{SignalRecorded, Woken};
pub use suspension::{AttemptEnd, Driven, Round, Suspended};
pub use tool::{Cleaned, Ended, ToolRunner};
pub use variables::{VariableLimit, check_variable, write_variables};
