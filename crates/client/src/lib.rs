//! A client of one MCP server over Streamable HTTP, of any revision, for calls that take long.
//!
//! A server of revision `2026-07-28` may make a task of a call (the Tasks extension). One of `2025-11-25` makes one if
//! it is asked to (core tasks). Older ones, and servers without tasks, answer when they are done.
//!
//! ```no_run
//! use longhaul_client::{Call, Called, Client, Nobody, Target};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Target::new("http://127.0.0.1:8080/mcp".parse()?), None).await?;
//! let arguments = serde_json::json!({"seconds": 60});
//! let call = Call::new("countdown", arguments.as_object().cloned().unwrap_or_default());
//! if let Called::Task(task) = client.call(&call, &mut Nobody).await? {
//!     println!("{} is {:?}", task.id, task.status);
//! }
//! # Ok(())
//! # }
//! ```

#![expect(clippy::indexing_slicing, reason = "only values of `serde_json` are indexed: what is not there is null")]

mod answer;
mod body;
mod call;
mod client;
mod connect;
mod error;
pub mod form;
mod lines;
mod list;
mod observe;
mod offers;
mod repair;
mod request_id;
mod resume;
mod target;
mod task;
pub mod text;
pub mod time;
mod tool;
mod unreadable;
mod wire;

pub use answer::{Content, Message, Reply};
pub use body::{Event, Events};
pub use call::{Call, Called, Listener, Nobody};
pub use client::{ALL_OWNERS, Client};
pub use connect::Identity;
pub use error::{Error, Refusal, with_causes};
pub use lines::{Line, Lines, Overlong};
pub use list::{Listed, TaskFilter};
pub use observe::{Observer, observe};
pub use repair::repaired;
pub use request_id::request_id;
pub use resume::{Place, SILENT_MAX, Stream, Tries};
pub use target::{Challenge, Credentials, Target};
pub use task::{Progress, Question, Status, Task};
pub use tool::{TaskSupport, Tool, ToolHeaders, encoded};
pub use unreadable::unreadable_answer;
pub use wire::{Raw, Rewriting, retry_after};
