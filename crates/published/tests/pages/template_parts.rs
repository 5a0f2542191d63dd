//! `template.yaml` is what its parts make, and the parts are short.

use std::process::{Command, Output};

use harness::{file, root};

fn script(name: &str, arguments: &[&str]) -> Output {
    Command::new("python3").arg(root().join("scripts").join(name)).args(arguments).output().unwrap()
}

/// It refuses parts that nobody reads in one sitting, too many lines that everybody deploys, and too many parameters.
#[test]
fn the_template_is_what_its_parts_make() {
    let made = script("make_template.py", &["--check"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_variant_has_layers_for_the_functions_that_run_tools() {
    let layer = "arn:aws:lambda:eu-west-1:111122223333:layer:fonts:3";
    let template = root().join("template.yaml");
    let template = template.to_str().unwrap();
    let made = String::from_utf8(script("layers.py", &[template, layer]).stdout).unwrap();
    assert_eq!(made.matches(&format!("      Layers:\n        - {layer}\n")).count(), 2);
    for wrong in [&["fonts"][..], &["arn:aws:lambda:eu-west-1:111122223333:layer:fonts"], &[], &[layer; 6]] {
        let refused = script("layers.py", &[&[template][..], wrong].concat());
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{wrong:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("ARNs of versions of layers"), "{refused:?}");
    }
}

fn parameters(given: &[&str]) -> (bool, String) {
    let output =
        Command::new("python3").arg("-B").arg(root().join("scripts/parameters.py")).args(given).output().unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn parameters_are_checked_before_anything_is_created() {
    for (given, said) in [
        (&["Settings=lease-ms=5"][..], "`lease-ms` in Settings is `5`: it must be 1000 to 50000 ms"),
        (&["Settings=leas-ms=6000"], "`leas-ms` in Settings cannot be set there"),
        (&["Settings=poll-limit=slowly"], "must be `off`, `slow` or `refuse`"),
        (&["Settings=auth=anonymous"], "`auth` in Settings belongs to the parameter AuthMode"),
        (&["Settings=audit=off audit=on"], "`audit` in Settings is there twice"),
        (&["Settings=lease-ms=6000 heartbeat-ms=3000"], "at most a third of `lease-ms`, which is 6000"),
        (&["Settings=lease-ms"], "`lease-ms` in Settings has no value"),
        (
            &["Settings=secret-names=A,B", "SecretArns=arn:aws:ssm:eu-west-1:1:parameter/a"],
            "more names than SecretArns",
        ),
        (&["Authentication={\"iam-owner\": \"me\"}"], "must be `principal`, `session` or `account`"),
        (&["Authentication={\"iam-owner\": "], "Authentication is not readable as JSON"),
        (&["Authentication=[]"], "Authentication is not a JSON object"),
        (&["LeaseMs=6000"], "LeaseMs is not a parameter any more: use Settings=\"lease-ms=6000\""),
        (&["ScopeCall=a"], "ScopeCall is not a parameter any more: use Authentication='{\"scope-call\": \"a\"}'"),
        (&["Responses=buffered"], "Responses is not a parameter any more: use Endpoint=function-url-buffered"),
        (&["LeaseMS=6000"], "LeaseMS is not a parameter of template.yaml"),
        (&["lease-ms=6000"], "lease-ms=6000 is not NAME=VALUE"),
        (&["AuthMode=iam", "AuthMode=oauth"], "AuthMode is there twice"),
    ] {
        let (is_accepted, said_about_it) = parameters(given);
        assert!(!is_accepted && said_about_it.contains(said), "{given:?}: {said_about_it}");
        assert_eq!(said_about_it.lines().count(), 1, "{given:?}: {said_about_it}");
    }
    let accepted =
        parameters(&["AuthMode=iam", "Settings=lease-ms=6000 log=info,rmcp=warn diagnostics=true", "Webhooks="]);
    let printed = "AuthMode=iam\nSettings=\"lease-ms=6000 log=info,rmcp=warn diagnostics=true\"\nWebhooks=\"\"\n";
    assert_eq!(accepted, (true, printed.to_owned()));
    // All faults at once.
    let (_, said) = parameters(&["LeaseMs=6000", "Settings=lease-ms=5 poll-limit=x", "Foo=1"]);
    assert_eq!(said.lines().count(), 4, "{said}");
}

/// No page but that one names them as if they were there.
#[test]
fn the_page_on_upgrading_says_what_became_of_every_parameter_that_is_gone() {
    let page = file("docs/upgrading.md");
    let script = file("scripts/parameters.py");
    let folder = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let others: Vec<_> = folder
        .filter(|path| path.extension().is_some_and(|extension| extension == "md") && !path.ends_with("upgrading.md"))
        .chain(
            ["README.md", "SECURITY.md", "CONTRIBUTING.md", "templates/server/README.md"].map(|path| root().join(path)),
        )
        .map(|path| (std::fs::read_to_string(&path).unwrap(), path))
        .collect();
    let gone =
        script.lines().filter_map(|line| line.strip_prefix("    \"")?.split_once("\": \"").map(|(name, _)| name));
    let gone: Vec<_> = gone.collect();
    assert!(gone.len() > 50, "{gone:?}");
    for name in gone {
        assert!(page.contains(&format!("| `{name}` | ")), "docs/upgrading.md does not say what became of {name}");
        for (text, path) in &others {
            let named = [format!("`{name}`"), format!("`{name}="), format!(" {name}="), format!("\"{name}=")];
            assert!(!named.iter().any(|named| text.contains(named)), "{} names {name}", path.display());
        }
    }
}
