//! The use cases of Longhaul, over the ports of the domain: accept a call, poll, answer, cancel, run one delivery,
//! recover what was lost on the way.
//!
//! Nothing here knows MCP or AWS, spawns work, reads a clock or generates randomness: all of that comes in through
//! [`Ports`]. So the same code runs in a Lambda function, on a laptop, and in a simulator where one seed is one run.

mod accept;
mod answer;
mod attempt;
mod attempt_end;
mod attempt_limit;
mod audited;
mod changes;
mod children;
mod dead_letter;
mod delivery;
mod ended;
mod engine;
mod error;
mod every;
mod listener;
mod mailbox;
mod observer;
mod outcome;
mod payloads;
mod poll;
mod publish;
mod recovery;
mod settings;
mod signals;
mod suspension;
mod sweep;
mod tool;
mod unclaimed;
mod variables;
mod writes;

pub use accept::{Call, Idempotency, WebhookDelivery};
pub use attempt::Attempt;
pub use attempt_end::{AttemptEnd, Round};
pub use attempt_limit::AttemptLimit;
pub use changes::Subject;
pub use children::{CallError, ChildEnd, child_of};
pub use delivery::{Disposition, WorkerSignals};
pub use ended::{Cleaned, Ended};
pub use engine::{Engine, Ports};
pub use error::{AcceptError, AnswerError, CollectError, LeaveError, LoadError, PollError, SignalError};
pub use every::Every;
pub use listener::Listener;
pub use observer::{IsRecorded, Observer};
pub use outcome::{Accepted, SignalRecorded, Woken};
pub use poll::Cancelled;
pub use publish::{PublishError, WebhookDeliveries};
pub use settings::Settings;
pub use suspension::{Driven, Suspended};
pub use sweep::Swept;
pub use tool::ToolRunner;
pub use unclaimed::{EnsureError, Ensured};
pub use variables::{VariableLimit, check_variable, write_variables};
