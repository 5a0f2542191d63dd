//! What stands in front of MCP over HTTP: identity, origin and size checks.
