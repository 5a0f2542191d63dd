//! The documented settings of the gateway are the declared ones, and the template sets them.

use harness::template;
use longhaul_gateway::settings;

#[test]
fn the_documented_settings_are_the_declared_ones() {
    template::applications::are_documented(&[("gateway", &settings::ALL)]);
}

#[test]
fn the_template_sets_what_the_gateway_reads_in_a_function() {
    let stack = [("GatewayConfig", "{}")];
    template::applications::are_set(&settings::ALL, &stack);
    // It runs no tools, but does not start without a configuration either.
    let template = template::yaml::template();
    let environment = template::resolve::Stack::new(&template, &stack).environment("DeadLetterWorker");
    assert!(environment.contains_key(settings::CONFIG_JSON.variable()));
}

#[test]
fn a_worker_with_another_runtime_starts_its_own_program() {
    let template = template::yaml::template();
    for (runtime, wrapper) in [("provided.al2023", None), ("nodejs24.x", Some("/var/task/bootstrap"))] {
        let stack = template::resolve::Stack::new(&template, &[("WorkerRuntime", runtime), ("WorkerClass", "heavy")]);
        for function in ["Worker", "ClassWorker"] {
            let environment = stack.environment(function);
            assert_eq!(environment.get("AWS_LAMBDA_EXEC_WRAPPER").map(String::as_str), wrapper, "{function}");
        }
        assert!(!stack.environment("DeadLetterWorker").contains_key("AWS_LAMBDA_EXEC_WRAPPER"));
    }
}

#[test]
fn no_name_is_used_twice() {
    template::applications::have_names_of_their_own(&settings::ALL);
}
