//! The parts of the template that `sam local` can read. It passes only variables that the template names. It does not
//! resolve an `Fn::If` with a branch `AWS::NoValue`: such a variable is set to nothing, and such layers stop it. The
//! tests in containers are `aws_e2e::sam_local`.

use harness::template::resolve::Stack;
use longhaul_lambda::{ApiConfig, WorkerConfig};
use serde_json::{Value, json};

use super::{Env, FUNCTIONS, TEMPLATE, WORKERS};
use crate::world::file;

fn environment_file() -> Value {
    serde_json::from_str(&file("infra/sam-local-env.json")).unwrap()
}

#[test]
fn every_variable_of_the_environment_file_is_named_by_the_template() {
    let environment = environment_file();
    assert_eq!(environment.as_object().unwrap().len(), FUNCTIONS.len());
    for function in FUNCTIONS {
        let names = |variables: &Value| -> Vec<String> {
            variables["Environment"]["Variables"].as_object().unwrap().keys().cloned().collect()
        };
        let mut named = names(&TEMPLATE["Globals"]["Function"]);
        named.extend(names(&TEMPLATE["Resources"][function]["Properties"]));
        let variables = environment[function].as_object().unwrap();
        assert!(variables.contains_key("AWS_ENDPOINT_URL"), "{function} would call AWS");
        for name in variables.keys() {
            assert!(named.contains(name), "{function}: `sam local` would not pass {name}");
        }
    }
}

#[test]
fn the_environment_file_is_a_configuration() {
    let environment = environment_file();
    let of = |function: &str| {
        let mut variables = Stack::new(&TEMPLATE, &[]).environment(function);
        let given = environment[function].as_object().unwrap();
        variables.extend(given.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())));
        Env(variables)
    };
    ApiConfig::read(&of("Api")).unwrap();
    for function in WORKERS {
        let config = WorkerConfig::read(&of(function)).unwrap();
        assert!(config.dead_letter_queue_url.ends_with("/longhaul-dead-letters"), "{function}");
    }
}

#[test]
fn the_endpoint_is_named_for_sam_local_and_not_set_on_aws() {
    let named = &TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]["AWS_ENDPOINT_URL"];
    assert_eq!(named, &json!({"Ref": "AWS::NoValue"}));
    for function in FUNCTIONS {
        assert!(!Stack::new(&TEMPLATE, &[]).environment(function).contains_key("AWS_ENDPOINT_URL"), "{function}");
    }
}

#[test]
fn no_layers_are_an_empty_list() {
    for (name, resource) in TEMPLATE["Resources"].as_object().unwrap() {
        let layers = &resource["Properties"]["Layers"];
        assert!(layers.is_null() || layers["Fn::If"][2] == json!([]), "{name}: {layers}");
    }
}
