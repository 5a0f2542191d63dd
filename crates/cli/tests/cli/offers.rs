//! What a server is, and what it offers in addition to tools.

use std::process::Command;

use crate::command::Setup;
use crate::servers::{Server, without_discovery};

/// A server with resources, prompts and contents of every kind.
pub(crate) fn with_fixtures() -> (Setup, Server) {
    let setup = Setup::new();
    let mut command = Command::new(harness::program("conformance-server"));
    let server = Server::start(command.arg("--listen").arg(format!("127.0.0.1:{}", setup.port)), setup.port);
    (setup, server)
}

/// Over the newest wire, and over that of `2025-11-25`.
#[test]
fn a_server_is_described() {
    let (mut setup, _server) = with_fixtures();
    let newest = setup.run(&["info"]).out();
    for line in [
        "server      longhaul-conformance 0.1.0",
        "revision    2026-07-28",
        "offers      extensions, logging, completions, prompts, resources, tools",
        "tasks       a call may become a task; a call that is sent again with its idempotency key",
        "\nFixtures for the MCP conformance suite",
    ] {
        assert!(newest.contains(line), "{line}: {newest}");
    }
    let shown = setup.run(&["info", "--json"]).json();
    assert_eq!(
        (&shown["serverInfo"]["name"], &shown["url"]),
        (&"longhaul-conformance".into(), &setup.url.clone().into())
    );
    setup.url = without_discovery(setup.port);
    let older = setup.run(&["info"]).out();
    assert!(older.contains("longhaul-conformance") && older.contains("revision    2025-11-25"), "{older}");
    assert!(older.contains("tasks       a call may become a task"), "{older}");
}

#[test]
fn resources_are_listed_and_read() {
    let (mut setup, _server) = with_fixtures();
    for url in [setup.url.clone(), without_discovery(setup.port)] {
        setup.url = url;
        let listed = setup.run(&["resources"]).out();
        let text = "test://static-text  Static text (text/plain)\n    A text that never changes\n";
        assert!(listed.contains(text) && listed.contains("test://template/{id}/data"), "{listed}");
        assert_eq!(setup.run(&["resources", "--json"]).json()["resourceTemplates"].as_array().unwrap().len(), 1);
        let read = setup.run(&["resources", "test://static-text"]).out();
        assert_eq!(read, "This is the content of the static text resource.");
        assert!(setup.run(&["resources", "test://static-binary"]).out().starts_with("[resource, image/png, "));
        let unknown = setup.run(&["resources", "test://nothing"]);
        assert!(unknown.code != 0 && unknown.out.is_empty() && unknown.err.starts_with("error: "), "{unknown:?}");
    }
}

#[test]
fn prompts_are_listed_and_got() {
    let (setup, _server) = with_fixtures();
    assert!(setup.run(&["prompts"]).out().contains("test_prompt_with_arguments(arg1, arg2)\n"));
    assert_eq!(setup.run(&["prompts", "test_simple_prompt"]).out(), "user: This is a simple prompt for testing.");
    let got = setup.run(&["prompts", "test_prompt_with_arguments", "arg1=x", "arg2=yz"]).out();
    assert!(got.starts_with("user: ") && got.contains('x') && got.contains("yz"), "{got}");
    for (args, expected) in [
        (["prompts", "test_prompt_with_arguments", "arg1=x"].as_slice(), "`arg2` is missing"),
        (&["prompts", "test_simple_prompd"], "there is no prompt `test_simple_prompd`; did you mean"),
        (&["prompts", "test_simple_prompt", "a=b"], "there is no argument `a`"),
    ] {
        let said = setup.run(args);
        assert!(said.code == 2 && said.err.contains(expected), "{args:?}: {said:?}");
    }
    // The client can answer the questions of tools only.
    let asks = setup.run(&["prompts", "test_input_required_result_prompt"]);
    assert!(asks.code == 1 && asks.err.contains("the server asks for input first"), "{asks:?}");
}

#[test]
fn a_server_without_resources_and_prompts_says_so() {
    let (setup, _server) = Setup::local();
    for verb in ["resources", "prompts"] {
        let said = setup.run(&[verb]);
        assert!(said.code == 2 && said.err.contains(&format!("the server has no {verb}: `longhaul info`")), "{said:?}");
    }
}
