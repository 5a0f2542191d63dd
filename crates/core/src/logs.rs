//! The contents of log lines, on a laptop and in a Lambda function.
//!
//! Log lines repeat text that clients send: names of methods and tools, hosts, errors that quote their input. Each
//! value in a line has a limit, and control characters are escaped: [`text_fields`] does so for lines of text,
//! [`JsonLines`] for lines of JSON. [`without_payloads`] removes arguments and results that libraries log. [`AuditLog`]
//! writes the audit log, independent of the filter of all other lines.

mod audit;
mod json;
mod payloads;
mod text;

pub use audit::{AuditLog, Audited, LineFormat, audited};
pub use json::JsonLines;
pub use payloads::{Payloads, without_payloads};
pub use text::{VALUE_CHARS_MAX, text_fields};
