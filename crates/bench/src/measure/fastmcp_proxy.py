"""FastMCP's proxy in front of a server over stdio: fastmcp_proxy.py PORT COMMAND ARG..."""

import sys

from fastmcp.server import create_proxy

port, command, *args = sys.argv[1:]
proxy = create_proxy({"mcpServers": {"only": {"command": command, "args": args}}})
proxy.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
