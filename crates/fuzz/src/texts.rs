//! Short strings with one spelling: ids of tasks and owners, trace parents, messages. A string that was read is written
//! as it was.
//!
//! An input is a list of lines.

use longhaul_aws::{body_of, read_message};
use longhaul_core::{OwnerId, TaskId, TraceParent};

/// Reads each line as each kind.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for line in text.lines() {
        if let Ok(id) = line.parse::<TaskId>() {
            assert_eq!(id.to_string(), line);
            assert_eq!(TaskId::from_bytes(*id.as_bytes()), Ok(id));
        }
        if let Ok(owner) = line.parse::<OwnerId>() {
            assert_eq!(owner.to_string(), line);
        }
        if let Some(trace) = TraceParent::parse(line) {
            assert_eq!(trace.as_str(), line);
        }
        if let Ok(message) = read_message(line, Some(line)) {
            assert_eq!(read_message(&body_of(&message), Some(line)).unwrap(), message);
            assert_eq!(message.trace, None, "a message is not a trace");
        }
    }
}
