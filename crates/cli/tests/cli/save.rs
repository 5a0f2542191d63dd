//! Results and resources in files.

use crate::command::Setup;
use crate::offers::with_fixtures;
use crate::servers::{Server, without_discovery};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[test]
fn the_bytes_of_a_resource_are_saved_and_no_file_is_overwritten() {
    let (setup, _server) = with_fixtures();
    let file = setup.folder().join("a.png");
    let save = |uri: &str, more: &[&str]| setup.run(&[&["resources", uri, "-o", "a.png"], more].concat());
    assert_eq!(save("test://static-binary", &[]).out(), "");
    let image = std::fs::read(&file).unwrap();
    assert!(image.starts_with(PNG), "{image:?}");
    let again = save("test://static-text", &[]);
    assert!(again.code == 2 && again.err.contains("`a.png` exists: name another file"), "{again:?}");
    assert_eq!(std::fs::read(&file).unwrap(), image);
    save("test://static-text", &["--force"]).out();
    assert_eq!(std::fs::read(&file).unwrap(), b"This is the content of the static text resource.");
    setup.run(&["resources", "test://static-binary", "-o", "/dev/null"]).out();
    let nowhere = setup.run(&["resources", "test://static-binary", "-o", "no/such/folder"]);
    assert!(nowhere.code == 1 && nowhere.err.contains("cannot be written"), "{nowhere:?}");
}

/// Its tools answer with contents of several kinds, as tasks.
#[test]
fn the_bytes_of_a_result_are_saved() {
    let mut setup = Setup::new();
    let config = serde_json::json!({"mcpServers": {"f": {
        "command": harness::program("fixture"), "args": ["stdio", setup.folder().join("notes")],
    }}});
    std::fs::create_dir(setup.folder().join("notes")).unwrap();
    std::fs::write(setup.folder().join("mcp.json"), config.to_string()).unwrap();
    let mut command = setup.command(&["gateway", "--config", "mcp.json", "--listen"]);
    let _server = Server::start(command.arg(format!("127.0.0.1:{}", setup.port)), setup.port);
    // Over the wire of `2025-11-25`, where the client makes a task of each call.
    setup.url = without_discovery(setup.port);
    let tools = setup.run(&["tools"]).out();
    let rich = tools.lines().find_map(|line| line.split_once("rich(")).map(|(before, _)| format!("{before}rich"));
    let id = setup.detach(&[&rich.unwrap()]);
    setup.until(&id, "completed");
    let several = setup.run(&["result", &id, "-o", "a"]);
    assert!(several.code == 2 && several.err.contains("the result has 1 text, 2 image/png"), "{several:?}");
    setup.run(&["result", &id, "-o", "a", "--content", "2"]).out();
    let whole = setup.run(&["result", &id, "--json"]).json();
    let image = std::fs::read(setup.folder().join("a")).unwrap();
    assert!(!image.is_empty() && image.len() < whole["content"][1]["data"].as_str().unwrap().len(), "{image:?}");
    let none = setup.run(&["result", &id, "-o", "b", "--content", "9"]);
    assert!(none.code == 2 && none.err.contains("choose one with --content NUMBER"), "{none:?}");
    setup.run(&["result", &id, "-o", "b", "--json"]).out();
    let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(setup.folder().join("b")).unwrap()).unwrap();
    assert_eq!(saved, whole);
}
