//! The gateway's own settings, which its programs read with Longhaul's.

use longhaul::settings::Preset::{Unset, Value};
use longhaul::settings::{Path, Text, declare};

declare! {
    ALL of "LONGHAUL_";

    CONFIG: Path = Path("FILE"), local Unset("the server that the command after `--` starts"),
        lambda Value("mcp.json") =>
        "Servers behind the gateway: a file with `mcpServers` as Claude Desktop, Claude Code and Cursor have it, or \
         `servers` as VS Code does; its section `longhaul` has the terms of their tools.";
    CONFIG_JSON: Text = Text("JSON"), lambda Unset("the file"), parameter "Settings" =>
        "Servers behind the gateway: the text of a file as `config` names, instead of the one in the function's \
         package.";
    LOCK: Path = Path("FILE"), local Unset("the servers are asked"), lambda Value("mcp.lock.json") =>
        "Tools, prompts and resources of the servers, as `longhaul gateway lock` wrote them: the gateway starts \
         without its servers, and shows these and no others.";
}
