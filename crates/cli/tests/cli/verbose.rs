//! `-v`: what is sent and received, on the standard error.

use crate::command::Setup;
use crate::offers::with_fixtures;
use crate::servers::without_discovery;

#[test]
fn requests_and_answers_are_shown_without_secrets() {
    let (setup, _server) = Setup::local();
    let url = format!("{}?key=in-the-query", setup.url);
    let headers = ["-H", "X-Api-Key: in-a-header", "-H", "Authorization: Bearer in-a-token"];
    let call = ["call", "echo", "text=of-the-call", "-v", "--server", &url];
    let said = setup.run(&[&call[..], &headers[..]].concat());
    assert_eq!((said.code, said.out.trim_end()), (0, "of-the-call"), "{said:?}");
    for line in [
        &format!("> POST {}\n", setup.url),
        "> mcp-method: tools/call\n",
        "> x-api-key: (not shown)\n",
        "> authorization: (not shown)\n",
        "< 200 OK\n",
        "< content-type: ",
    ] {
        assert!(said.err.contains(line), "{line}: {}", said.err);
    }
    let bodies: Vec<&str> = said.err.lines().filter(|line| line.contains("of-the-call")).collect();
    assert!(bodies.iter().any(|line| line.starts_with("> {")) && bodies.iter().any(|line| line.starts_with("< {")));
    for secret in ["in-the-query", "in-a-header", "in-a-token"] {
        assert!(!said.err.contains(secret), "{secret}: {}", said.err);
    }
    assert_eq!(setup.run(&["call", "echo", "text=a"]).err, "");
}

/// Over the newest wire, and over that of `2025-11-25`.
#[test]
fn log_messages_of_the_server_are_shown() {
    let (mut setup, _server) = with_fixtures();
    for url in [setup.url.clone(), without_discovery(setup.port)] {
        setup.url = url;
        let said = setup.run(&["call", "test_tool_with_logging", "-v"]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.err.lines().any(|line| line.starts_with("log info: ")), "{}", said.err);
    }
}
