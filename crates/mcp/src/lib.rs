//! Durable tool calls for any rmcp server: the handler, the tool runner and the dialects.
