//! The starter's `template.yaml` is ours, without what belongs to the shipped application; and so is the script that calls
//! tools by hand.

use std::path::{Path, PathBuf};

const STARTER: &str = "templates/server";

/// What is in our template, and what the starter's has instead.
const REPLACED: [(&str, &str); 8] = [
    (
        "  Longhaul: durable, long-running MCP tool calls. An API function, a worker function, one table, one queue.\n",
        "  A server whose MCP tool calls are durable, with Longhaul. An API function, a worker function, one table, one queue.\n",
    ),
    // The application's own setting, which serves tools for checking a deployment.
    ("[Architecture, Diagnostics, ", "[Architecture, "),
    (
        "  Diagnostics:\n    Description: \"Also serve the tools for checking a deployment: echo, fail, ask, \
         gather, large_result, tool_env.\"\n    Type: String\n    AllowedValues: [\"true\", \"false\"]\n    Default: \"false\"\n",
        "",
    ),
    ("          LONGHAUL_DIAGNOSTICS: !Ref Diagnostics\n", ""),
    // What only the gateway reads.
    ("          - GatewayConfig\n", ""),
    (
        "  GatewayConfig:\n    Description: >-\n      Servers behind the gateway: the text of a file as `config` names, in place of \
         the one in the function's package. At\n      most about 2,500 bytes, since Lambda takes 4 KiB for all variables of a \
         function. Empty for the file, and for other\n      servers than the gateway.\n    Type: String\n    Default: \"\"\n",
        "",
    ),
    ("  HasGatewayConfig: !Not [!Equals [!Ref GatewayConfig, \"\"]]\n", ""),
    ("        LONGHAUL_CONFIG_JSON: !If [HasGatewayConfig, !Ref GatewayConfig, !Ref AWS::NoValue]\n", ""),
];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_starters_template_is_ours() {
    let mut real = std::fs::read_to_string(file("template.yaml")).unwrap();
    for (ours, starters) in REPLACED {
        assert!(real.contains(ours), "template.yaml no longer has what the starter replaces: {ours}");
        real = real.replace(ours, starters);
    }
    assert!(!real.contains("iagnostics"), "the starter has no diagnostic tools");
    compare("template.yaml", &real);
}

#[test]
fn the_starter_calls_tools_as_we_do() {
    let script = "scripts/mcp.sh";
    compare(script, &std::fs::read_to_string(file(script)).unwrap());
}

/// Compares a file of the starter with the text that it should have; or writes it.
fn compare(path: &str, wanted: &str) {
    let path = format!("{STARTER}/{path}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file(&path), wanted).unwrap();
    } else {
        let text = std::fs::read_to_string(file(&path)).unwrap();
        assert_eq!(text, wanted, "{path} is out of date: run with UPDATE_GOLDEN=1 and read the difference");
    }
}
