//! Processes around servers: runners that download them, what they leave behind, and what they see.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::json;

use super::process::{Setup, fixture, until, words};

#[tokio::test]
async fn first_starts_of_one_runner_do_not_overlap() {
    let (setup, gateway) = Setup::config(|setup| {
        // It fills its cache, and then becomes the server.
        let script = format!(
            "#!/bin/sh\nmkdir {0}cache || echo overlap >> {0}overlaps\nsleep 0.3\nrmdir {0}cache\nexec {1} stdio {0}\n",
            setup.path(""),
            fixture()
        );
        std::fs::write(setup.path("npx"), script).unwrap();
        std::fs::set_permissions(setup.path("npx"), PermissionsExt::from_mode(0o755)).unwrap();
        let entry = json!({"command": setup.path("npx")});
        json!({"mcpServers": {"a": entry, "b": entry, "c": entry}})
    })
    .running();
    assert_eq!(setup.lines("overlaps"), Vec::<String>::new());
    assert_eq!(gateway.ended("a_count", json!({})).await["status"], "completed");
}

#[tokio::test]
async fn servers_see_the_proxy_and_the_certificates_of_the_gateway() {
    let setup = Setup::fixture(&[]).seeing("HTTPS_PROXY", "http://proxy.example:3128");
    let gateway = setup.seeing("NODE_EXTRA_CA_CERTS", "/etc/company.pem").start();
    let seen = words(&gateway.ended("environment", json!({})).await);
    assert!(seen.contains("http://proxy.example:3128") && seen.contains("/etc/company.pem"), "{seen}");
    assert!(!seen.contains("SECRET_OF_THE_GATEWAY"), "{seen}");
}

/// As process 1 of a container, which `unshare` makes for this test. It needs a kernel that lets this user do that.
#[tokio::test]
async fn what_servers_leave_behind_is_reaped_by_process_1() {
    let unshare = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !Command::new("unshare").args(unshare).arg("true").stderr(Stdio::null()).status().is_ok_and(|end| end.success())
    {
        return;
    }
    let setup = Setup::config(|setup| {
        let orphan = "setsid sh -c 'sleep 0.2' & setsid sh -c 'sleep 0.2' &";
        let script = format!("({orphan})\nexec {} stdio {}", fixture(), setup.path(""));
        json!({"mcpServers": {"only": {"command": "sh", "args": ["-c", script]}}})
    });
    let gateway = setup.start_below("unshare", &unshare);
    for _ in 0..5 {
        assert_eq!(gateway.ended("count", json!({})).await["status"], "completed");
    }
    let gateway_id = gateway.child_id();
    until("nothing is left of what was left behind", || left_behind(&gateway_id) == 0).await;
}

/// The processes that servers of the gateway below this process have left behind, with those that have ended and are
/// not waited for.
fn left_behind(id: &str) -> usize {
    let children = |id: &str| {
        let path = format!("/proc/{id}/task/{id}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let below: Vec<String> = children(id).iter().flat_map(|id| children(id)).collect();
    let name = |id: &String| std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    below.iter().filter(|id| ["sh", "sleep"].contains(&name(id).trim())).count()
}
