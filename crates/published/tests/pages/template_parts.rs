//! `template.yaml` is what its parts make, and the parts are short.

use std::process::{Command, Output};

use harness::root;

fn make_template(arguments: &[&str]) -> Output {
    Command::new("python3").arg(root().join("scripts/make_template.py")).args(arguments).output().unwrap()
}

/// It refuses parts that nobody reads in one sitting, too many lines that everybody deploys, and too many parameters.
#[test]
fn the_template_is_what_its_parts_make() {
    let made = make_template(&["--check"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_variant_has_layers_for_the_functions_that_run_tools() {
    let layer = "arn:aws:lambda:eu-west-1:111122223333:layer:fonts:3";
    let made = String::from_utf8(make_template(&["--layers", layer]).stdout).unwrap();
    assert_eq!(made.matches(&format!("      Layers:\n        - {layer}\n")).count(), 2);
    for wrong in ["fonts", "arn:aws:lambda:eu-west-1:111122223333:layer:fonts", &[layer; 6].join(",")] {
        let refused = make_template(&["--layers", wrong]);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{wrong}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("ARNs of versions of layers"), "{refused:?}");
    }
}
