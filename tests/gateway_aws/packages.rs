//! The packages that the build makes: the programs, and the files of the bundle.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use harness::{output_of, root};
use serde_json::{Value, json};

use crate::aws_e2e::programs::GATEWAY;

/// A folder as the build leaves it, with a bundle.
fn built() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, program) in [("api", GATEWAY.api()), ("worker", GATEWAY.worker())] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        // Only its head is read.
        let program = std::fs::read(program).unwrap()[..4_096].to_vec();
        std::fs::write(folder.path().join(name).join("bootstrap"), program).unwrap();
    }
    let bundle = folder.path().join("bundle");
    std::fs::create_dir_all(bundle.join("node_modules/.bin")).unwrap();
    for file in ["mcp.json", "mcp.lock.json", "node_modules/server.js"] {
        std::fs::write(bundle.join(file), "{}").unwrap();
    }
    symlink("../server.js", bundle.join("node_modules/.bin/server")).unwrap();
    folder
}

fn pack(folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg(root().join("scripts/pack_lambda.py")).arg(folder).args(["api", "worker", "--layer", "worker"]);
    command.arg("--bundle").arg(folder.join("bundle"));
    command
}

/// The names in a zip, each with its mode.
fn names(zip: &Path) -> String {
    const LIST: &str = "import sys, zipfile\nfor entry in zipfile.ZipFile(sys.argv[1]).infolist(): \
                        print(oct(entry.external_attr >> 16), entry.filename)";
    output_of(Command::new("python3").args(["-c", LIST]).arg(zip))
}

#[test]
fn the_worker_gets_the_whole_bundle_and_the_api_function_the_configuration() {
    let folder = built();
    output_of(&mut pack(folder.path()));
    let configuration = "0o100755 bootstrap\n0o100644 mcp.json\n0o100644 mcp.lock.json\n";
    assert_eq!(names(&folder.path().join("api/bootstrap.zip")), configuration);
    let servers = "0o120777 node_modules/.bin/server\n0o100644 node_modules/server.js\n";
    assert_eq!(names(&folder.path().join("worker/bootstrap.zip")), format!("{configuration}{servers}"));
    assert_eq!(names(&folder.path().join("layer.zip")), "0o100755 longhaul/worker\n");
}

#[test]
fn a_bundle_without_a_lock_file_is_refused() {
    let folder = built();
    std::fs::remove_file(folder.path().join("bundle/mcp.lock.json")).unwrap();
    let Output { status, stderr, .. } = pack(folder.path()).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && said.contains("mcp.lock.json is missing; `longhaul gateway lock` writes"), "{said}");
}

/// Prints the parameters as the SAM CLI reads them.
const READ: &str = "import json, sys; from samcli.cli.types import CfnParameterOverridesType as Type; \
                    given = sys.argv[sys.argv.index('--parameter-overrides') + 1:]; \
                    print(json.dumps(Type().convert(tuple(given), None, None)))";

#[test]
fn a_configuration_arrives_as_a_parameter() {
    let folder = built();
    output_of(&mut pack(folder.path()));
    let config =
        json!({"mcpServers": {"s": {"type": "http", "url": "https://h/mcp", "headers": {"A": "a \"b\", \\ 'c' é"}}}});
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, format!("{config:#}")).unwrap();
    let sam = folder.path().join("sam");
    let python = root().join(".cache/tools/aws-lint/bin/python");
    std::fs::write(&sam, format!("#!{}\n{READ}\n", python.display())).unwrap();
    std::fs::set_permissions(&sam, PermissionsExt::from_mode(0o755)).unwrap();
    let deploy = |file: &Path| {
        let mut command = Command::new(root().join("scripts/deploy.sh"));
        command.env("SAM", &sam).env("LAMBDA_DIR", folder.path()).env("GATEWAY_CONFIG", file);
        command.env("PARAMETERS", "AuthMode=anonymous").output().unwrap()
    };
    let given: Value = serde_json::from_slice(&deploy(&file).stdout).unwrap();
    assert_eq!(given["AuthMode"], "anonymous");
    let (name, text) = given["Settings"].as_str().unwrap().split_once('=').unwrap();
    assert_eq!((name, serde_json::from_str::<Value>(text).unwrap()), ("config-json", config));

    std::fs::write(&file, "// no JSON").unwrap();
    let refused = deploy(&file);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("GATEWAY_CONFIG:"), "{said}");
}
