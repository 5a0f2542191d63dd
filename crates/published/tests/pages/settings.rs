//! The documented settings are the declared ones: of Longhaul, of the application and of the gateway. The template sets
//! those that a function reads.

use longhaul_app::settings as application;
use longhaul_core::settings::{Declared, Place, Preset, table};
use longhaul_gateway::settings as gateway;

use harness::file as file_of;
use harness::template::resolve::Stack;
use harness::template::{applications, yaml};

#[test]
fn the_documented_settings_are_the_declared_ones() {
    let parts: [(&str, &[&'static dyn Declared]); 3] =
        [("longhaul", &table::ALL), ("application", &application::ALL), ("gateway", &gateway::ALL)];
    applications::are_documented(&parts);
}

#[test]
fn the_template_sets_what_the_application_reads_in_a_function() {
    applications::are_set(&application::ALL, &[]);
}

#[test]
fn the_template_sets_what_the_gateway_reads_in_a_function() {
    applications::are_set(&gateway::ALL, &[]);
    // It runs no tools, but does not start without a configuration either.
    let template = yaml::template();
    let environment = Stack::new(&template, &[]).environment("DeadLetterWorker");
    assert_eq!(Declared::parameter(&gateway::CONFIG_JSON), Some("Settings"));
    assert!(environment.contains_key("LONGHAUL_SETTINGS"));
}

#[test]
fn a_worker_with_another_runtime_starts_its_own_program() {
    let template = yaml::template();
    for (runtime, wrapper) in [("provided.al2023", None), ("nodejs24.x", Some("/var/task/bootstrap"))] {
        let stack = Stack::new(&template, &[("WorkerRuntime", runtime), ("WorkerClass", "heavy")]);
        for function in ["Worker", "ClassWorker"] {
            let environment = stack.environment(function);
            assert_eq!(environment.get("AWS_LAMBDA_EXEC_WRAPPER").map(String::as_str), wrapper, "{function}");
        }
        assert!(!stack.environment("DeadLetterWorker").contains_key("AWS_LAMBDA_EXEC_WRAPPER"));
    }
}

#[test]
fn no_name_of_the_application_is_used_twice() {
    applications::have_names_of_their_own(&application::ALL);
}

#[test]
fn no_name_of_the_gateway_is_used_twice() {
    applications::have_names_of_their_own(&gateway::ALL);
}

#[test]
fn what_is_written_about_containers_names_settings_that_exist() {
    let known = |name: &str| {
        table::ALL.iter().any(|setting| setting.variable() == name && setting.preset(Place::Local) != Preset::Absent)
            || application::ALL.iter().any(|setting| setting.variable() == name)
    };
    let mut named = 0;
    let ours = ["compose.yaml", "Dockerfile", "kubernetes.yaml"].map(|name| format!("infra/container/{name}"));
    for file in ours.iter().map(String::as_str).chain(["docs/containers.md"]) {
        let text = file_of(file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("LONGHAUL_")) {
            assert!(known(name), "{file}: {name}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
