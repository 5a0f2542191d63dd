//! Durable, long-running MCP tool calls on AWS Lambda and on a laptop.
