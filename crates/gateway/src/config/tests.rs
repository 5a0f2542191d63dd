use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use super::*;
use crate::limits;

struct Env(&'static [(&'static str, &'static str)]);

impl EnvSource for Env {
    fn get(&self, name: &str) -> Option<OsString> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }
}

const ENV: Env = Env(&[("PATH", "/bin"), ("HOME", "/home/ann"), ("TOKEN", "t"), ("AWS_SECRET_ACCESS_KEY", "hidden")]);

fn read(text: &str) -> Config {
    Config::from_json(text, &ENV).unwrap_or_else(|error| panic!("{error}"))
}

fn faults(text: &str) -> Vec<String> {
    Config::from_json(text, &ENV).unwrap_err().to_string().lines().map(str::to_owned).collect()
}

fn launch(server: &Server) -> &Launch {
    match &server.target {
        Target::Child(launch) => launch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_of_claude_desktop_is_read() {
    let config = read(
        r#"{"globalShortcut": "", "mcpServers": {"git": {
            "command": "uvx", "args": ["mcp-server-git", "--token=${TOKEN}", "${NONE:-a}b"],
            "env": {"TOKEN": "${TOKEN}", "PORT": 7, "PATH": "/mine"}, "alwaysAllow": []}}}"#,
    );
    let launch = launch(&config.servers[0]);
    assert_eq!((launch.command.as_str(), launch.args.join(" ").as_str()), ("uvx", "mcp-server-git --token=t ab"));
    let env = [("HOME", "/home/ann"), ("PATH", "/mine"), ("PORT", "7"), ("TOKEN", "t")];
    let env: BTreeMap<String, String> = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(launch.env, env, "nothing else of the environment");
}

#[test]
fn a_file_of_vs_code_is_read() {
    let config = read(
        r#"{
            // comments are fine
            "servers": {
                "search": {"type": "http", "url": "https://search.example.com/mcp",
                           "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
                "off": {"command": "x", "disabled": true},
                "local": {"type": "stdio", "command": "node", "args": ["server.js"], "cwd": "/srv"},
            },
            "inputs": []
        }"#,
    );
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["search", "local"]);
    let Target::Http(endpoint) = &config.servers[0].target else { panic!("it has a URL") };
    assert_eq!(endpoint.headers[&http::header::AUTHORIZATION], "Bearer t");
    assert!(!format!("{config:?}").contains("Bearer"), "debug output has no secrets");
}

#[test]
fn terms_come_from_the_best_pattern_then_the_server_then_the_defaults() {
    let config = read(
        r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}},
            "longhaul": {
                "defaults": {"handleAfter": "1s", "runAtMost": "1h", "concurrency": 2},
                "servers": {"a": {"runAtMost": "2h", "concurrency": 8, "prefix": "", "startAtMost": "5s", "tools": {
                    "*": {"repeat": "never"}, "read_*": {"repeat": "always"}, "read_all": {"retention": "1d", "concurrency": 1}}}}}}"#,
    );
    let (a, b) = (&config.servers[0], &config.servers[1]);
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    let of = |server: &Server, tool: &str| {
        let terms = server.terms_of(tool);
        (seconds(terms.handle_after), seconds(terms.run_at_most), seconds(terms.retention), terms.repeat)
    };
    assert_eq!(of(a, "read_all"), (Some(1), Some(7_200), Some(86_400), Some(Repeat::Always)));
    assert_eq!(of(a, "write"), (Some(1), Some(7_200), None, Some(Repeat::Never)));
    assert_eq!(of(b, "write"), (Some(1), Some(3_600), None, None));
    assert_eq!([a.terms_of("read_all").concurrency, a.terms_of("write").concurrency], [Some(1), None]);
    assert_eq!((a.concurrency, b.concurrency, a.prefix.as_deref()), (8, 2, Some("")));
    assert_eq!((a.start_max.as_secs(), b.start_max), (5, limits::START_MAX));
}

#[test]
fn every_mistake_is_named_with_its_place() {
    let told = faults(
        r#"{"mcpServers": {
                "none": {}, "both": {"command": "x", "url": "https://x"}, "sse": {"type": "sse", "url": "https://x"},
                "odd": {"type": "websocket", "url": "https://x"}, "ftp": {"url": "ftp://x"}, "a/b": {"command": 5},
                "input": {"command": "x", "env": {"KEY": "${input:key}"}}, "open": {"command": "${TOKEN"},
                "file": {"command": "x", "envFile": ".env"},
                "head": {"url": "https://x", "headers": {"Accept": "text/html", "X Y": "z"}}
            },
            "longhaul": {
                "defaults": {"handleAfter": 2, "runAtMost": "0s", "retention": "1w", "repeat": "maybe", "prefix": "x"},
                "servers": {"bth": {}, "none": {"concurrency": 0, "prefix": "a b", "tools": {"*": {"repat": "never"}}}}
            }}"#,
    );
    let expected = [
        "/mcpServers/a~1b/command: must be a string",
        "/mcpServers/both: it has both `command` and `url`",
        "/mcpServers/file/envFile: is not supported",
        "/mcpServers/ftp/url: must begin with https:// or http://",
        "/mcpServers/head/headers/Accept: is set by the protocol",
        "/mcpServers/head/headers/X Y: cannot be sent as a header",
        "/mcpServers/input/env/KEY: `${input:key}` is known to an editor only",
        "/mcpServers/none: it has neither `command` nor `url`",
        "/mcpServers/odd/type: `websocket` is not supported",
        "/mcpServers/open/command: a `${` has no `}`",
        "/mcpServers/sse: the transport `sse` is not supported",
        "/longhaul/defaults/handleAfter: must be a string with a time",
        "/longhaul/defaults/runAtMost: leaves no time to run",
        "/longhaul/defaults/retention: `1w` is not a time",
        "/longhaul/defaults/repeat: must be one of \"hints\", \"always\", \"never\"",
        "/longhaul/defaults/prefix: is not known",
        "/longhaul/servers/bth: is not known; did you mean `both`?",
    ];
    for expected in expected {
        assert!(told.iter().any(|line| line.starts_with(expected)), "{expected} is not in {told:#?}");
    }
}

#[test]
fn mistakes_in_the_terms_of_a_server_are_named() {
    let told = faults(
        r#"{"mcpServers": {"a": {"command": "x"}}, "longhaul": {"servers": {"a": {
            "concurrency": 0, "prefix": "a b", "tools": {"*": {"repat": "never"}}}}}}"#,
    );
    let expected = [
        "/longhaul/servers/a/concurrency: must be a whole number from 1 to 256",
        "/longhaul/servers/a/prefix: has a character that names of tools do not have",
        "/longhaul/servers/a/tools/*/repat: is not known; did you mean `repeat`?",
    ];
    for expected in expected {
        assert!(told.iter().any(|line| line.starts_with(expected)), "{expected} is not in {told:#?}");
    }
}

#[test]
fn a_file_without_servers_is_refused() {
    for text in ["{}", r#"{"mcpServers": {}}"#, r#"{"mcpServers": {"a": {"command": "x", "disabled": true}}}"#] {
        assert_eq!(
            faults(text),
            ["the configuration: names no server: it needs `mcpServers` (or `servers`) with at least one that can \
                 be used"]
        );
    }
    assert_eq!(faults(r#"{"mcpServers": {"a": {}}}"#).len(), 1, "it names one, with a mistake");
    assert_eq!(faults("[]")[0], "the configuration: must be an object");
}

#[test]
fn comments_and_last_commas_are_all_that_json_may_have_besides() {
    let plain = r#"{"mcpServers": {"a": {"command": "// not, ] \" one", "args": ["x", "y"], "cwd": "last"}}}"#;
    let commented = r#"{ // one, "two"
        "mcpServers": {"a": {"command": "// not, ] \" one", "args": ["x", "y", /* three */ ], "cwd": "first", "cwd":
            "last",}} /* } */, }"#;
    assert_eq!(launch(&read(commented).servers[0]).command, launch(&read(plain).servers[0]).command);
    assert_eq!(launch(&read(commented).servers[0]).args, ["x", "y"]);
    assert_eq!(launch(&read(commented).servers[0]).cwd, launch(&read(plain).servers[0]).cwd);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, place) in [
        ("", "line 1 column 1"),
        ("\n // nothing", "line 2 column 12"),
        ("/", "line 1 column 1"),
        ("/*", "line 1 column 1"),
        ("\"\\", "line 1 column 1"),
        ("{", "line 1 column 1"),
        ("{,", "line 1 column 2"),
        ("{} {}", "line 1 column 4"),
        ("[1,, 2]", "line 1 column 4"),
        ("{\n \"a\": 1 \"b\": 2}", "line 2 column 8"),
        ("{a: 1}", "line 1 column 2"),
        ("{'a': 1}", "line 1 column 2"),
        ("[0x1]", "line 1 column 2"),
        ("[+1]", "line 1 column 2"),
        ("[.5]", "line 1 column 2"),
        ("[NaN]", "line 1 column 2"),
        (r#"["\x41"]"#, "line 1 column"),
        (&deep, "line 1 column"),
    ] {
        let told = &faults(text)[0];
        assert!(told.starts_with("the configuration: is not JSON: ") && told.contains(place), "{text:.20}: {told}");
    }
}

#[test]
fn a_server_may_be_switched_off_and_keep_its_terms() {
    let config = read(
        r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "disabled": true}},
            "longhaul": {"servers": {"b": {"concurrency": 1}}}}"#,
    );
    assert_eq!(config.servers.len(), 1);
}

#[test]
fn processes_are_kept_where_the_configuration_says_so() {
    let config = read(
        r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}, "c": {"url": "http://localhost/mcp"}},
            "longhaul": {
                "defaults": {"process": "pool", "callsAtMost": 7},
                "servers": {"a": {"idleAtMost": "1m"}, "b": {"process": "per-call"}, "c": {"callsAtMost": 1}}}}"#,
    );
    let keeping = |index: usize| config.servers[index].keeping.map(|kept| (kept.idle_max.as_secs(), kept.calls_max));
    assert_eq!([0, 1, 2].map(keeping), [Some((60, 7)), None, Some((300, 1))]);
    assert_eq!(read(r#"{"mcpServers": {"a": {"command": "x"}}}"#).servers[0].keeping, None, "by default");
    assert_eq!(
        faults(r#"{"mcpServers": {"a": {"command": "x"}}, "longhaul": {"defaults": {"process": "shared"}}}"#),
        [r#"/longhaul/defaults/process: must be one of "per-call", "pool""#]
    );
}

fn faults_of_a_fold(fold: &str) -> Vec<String> {
    let servers = r#""mcpServers": {"s": {"command": "x"}}"#;
    faults(&format!(r#"{{{servers}, "longhaul": {{"servers": {{"s": {{"fold": {fold}}}}}}}}}"#))
}

#[test]
fn mistakes_in_a_fold_are_named_with_their_places() {
    let place = "/longhaul/servers/s/fold";
    assert_eq!(faults_of_a_fold("{}"), [format!("{place}: must be a list of objects")]);
    let missing = ["name", "start", "status", "id", "state", "done"].map(|key| format!("{place}/0: it has no `{key}`"));
    assert_eq!(faults_of_a_fold("[{}]"), missing);
    let wrong = r#"[{"name": "a b", "start": "s", "status": "g", "id": "scanId", "state": "/a~2", "done": [],
        "failed": ["no"], "every": "0s", "progres": "/p"}]"#;
    assert_eq!(
        faults_of_a_fold(wrong),
        [
            format!("{place}/0/name: cannot be the name of a tool: use letters, digits, `_`, `-` and `.`"),
            format!("{place}/0/id: `scanId` is not a JSON pointer: write `/` before each name, such as \"/job/id\""),
            format!("{place}/0/state: `/a~2` is not a JSON pointer: write `/` before each name, such as \"/job/id\""),
            format!("{place}/0/done: names no state"),
            format!("{place}/0/every: leaves no pause: name a time above 0"),
            format!("{place}/0/progres: is not known; did you mean `progress`?"),
        ]
    );
    let twice =
        r#"{"name": "a", "start": "s", "status": "g", "id": "/id", "state": "/s", "done": ["x"], "failed": ["x"]}"#;
    assert_eq!(
        faults_of_a_fold(&format!("[{twice}, {twice}]")),
        [
            format!("{place}/0/failed: `x` is also in `done`"),
            format!("{place}/1/failed: `x` is also in `done`"),
            format!("{place}/1/name: `a` is taken by another one"),
        ]
    );
}

#[test]
fn one_server_is_read_whatever_is_wrong_with_the_others() {
    let text = r#"{"mcpServers": {
        "one": {"url": "http://one/mcp", "headers": {"X-Key": "${KEY}"}},
        "process": {"command": "x"}, "off": {"url": "http://off/mcp", "disabled": true}, "wrong": {"url": "no"}
    }}"#;
    let env = Env(&[("KEY", "k")]);
    let (url, headers) = Config::endpoint_of(text, "one", &env).unwrap();
    assert_eq!((url.as_str(), headers["x-key"].to_str().unwrap()), ("http://one/mcp", "k"));
    let why = |text: &str, name: &str| Config::endpoint_of(text, name, &env).unwrap_err().to_string();
    assert!(why(text, "process").contains("`process` is started by a command"));
    assert!(why(text, "off").contains("`off` is switched off"));
    assert!(why(text, "onee").contains("did you mean `one`?"));
    assert!(why(text, "wrong").contains("/mcpServers/wrong/url"));
    assert!(why("{", "one").contains("is not JSON"));
}
