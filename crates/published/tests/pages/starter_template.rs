//! The starter's `template.yaml` is ours, without what belongs to the shipped application; and so is the script that
//! calls tools by hand. A script makes a new server of the starter.

use std::path::Path;
use std::process::{Command, Output};

use harness::{file, is_up_to_date, root};

const STARTER: &str = "templates/server";

/// What is in our template, and what the starter's has instead.
const REPLACED: [(&str, &str); 7] = [
    (
        "  Longhaul: durable, long-running MCP tool calls. An API function, a worker function, one table, one queue.\n",
        "  A server whose MCP tool calls are durable, with Longhaul. An API function, a worker function, one table, \
         one queue.\n",
    ),
    // The application's own setting, which serves tools for checking a deployment.
    ("[Architecture, Diagnostics, ", "[Architecture, "),
    (
        "  Diagnostics:\n    Description: \"Also serve the tools for checking a deployment: echo, fail, ask, \
         gather, large_result, tool_env.\"\n    Type: String\n    AllowedValues: [\"true\", \"false\"]\n    Default: \
         \"false\"\n",
        "",
    ),
    ("          LONGHAUL_DIAGNOSTICS: !Ref Diagnostics\n", ""),
    // What only the gateway reads.
    ("          - GatewayConfig\n", ""),
    (
        "  GatewayConfig:\n    Description: >-\n      Servers behind the gateway: the text of a file as `config` \
         names, in place of \
         the one in the function's package. At\n      most about 2,500 bytes, since Lambda takes 4 KiB for all \
         variables of a \
         function. Empty for the file, and for other\n      servers than the gateway.\n    Type: String\n    Default: \
         \"\"\n",
        "",
    ),
    ("        LONGHAUL_CONFIG_JSON: !Ref GatewayConfig\n", ""),
];

#[test]
fn the_starters_template_is_ours() {
    let mut real = file("template.yaml");
    for (ours, starters) in REPLACED {
        assert!(real.contains(ours), "template.yaml no longer has what the starter replaces: {ours}");
        real = real.replace(ours, starters);
    }
    assert!(!real.contains("iagnostics"), "the starter has no diagnostic tools");
    is_up_to_date(&format!("{STARTER}/template.yaml"), &real);
}

#[test]
fn the_starter_calls_tools_as_we_do() {
    let script = "scripts/mcp.sh";
    is_up_to_date(&format!("{STARTER}/{script}"), &file(script));
}

/// All files below `folder`: their paths in it, and their texts.
fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => files(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)).collect(),
            false => vec![(name, std::fs::read_to_string(path).unwrap())],
        }
    });
    files.collect()
}

fn new_server(arguments: &[&str]) -> Output {
    Command::new("sh").arg(root().join("scripts/new_server.sh")).args(arguments).output().unwrap()
}

#[test]
fn a_new_server_is_the_starter_with_its_name_and_this_checkout() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("server");
    let made = new_server(&["new-server", folder.to_str().unwrap()]);
    assert!(made.status.success(), "{made:?}");
    let rendered = files(&folder);
    for (path, text) in files(&root().join(STARTER)) {
        let is_for_other_tools = ["CargoLambda.toml", "cargo-generate.toml", "names.rhai"].contains(&path.as_str());
        let found = rendered.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_str());
        match path.as_str() {
            _ if is_for_other_tools => assert_eq!(found, None, "{path}"),
            // They name the checkout besides.
            "Cargo.toml" | "Dockerfile" => {
                assert!(found.is_some_and(|text| !text.contains("{{project_name}}")), "{path}")
            }
            _ => assert_eq!(found, Some(text.replace("{{project_name}}", "new-server").as_str()), "{path}"),
        }
    }
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let (_, path) = manifest.split_once("[patch.crates-io]\nlonghaul = { path = \"").unwrap();
    let path = Path::new(path.split('"').next().unwrap());
    assert!(path.is_absolute() && path.join("Cargo.toml").exists(), "{}", path.display());
    let again = new_server(&["new-server", folder.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1), "a folder that exists is left alone: {again:?}");
}

#[test]
fn a_name_that_cannot_be_a_package_is_refused() {
    for name in ["", "New", "9lives", "a b", "a/b", "tools", "longhaul"] {
        let refused = new_server(&[name, "/nowhere/at/all"]);
        assert_eq!(refused.status.code(), Some(2), "{name}: {refused:?}");
    }
}
