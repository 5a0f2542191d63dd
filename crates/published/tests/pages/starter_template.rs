//! The starter takes the template from the crate. A script makes a new server of the starter.

use std::path::Path;
use std::process::{Command, Output};

use harness::{file, root};

const STARTER: &str = "templates/server";

/// The template and what checks its parameters come with the crate that the starter depends on.
#[test]
fn the_crate_has_what_deploys_a_server() {
    for (packaged, ours) in [
        ("template.yaml", "template.yaml"),
        ("deploy.sh", "scripts/deploy.sh"),
        ("parameters.py", "scripts/parameters.py"),
        ("layers.py", "scripts/layers.py"),
        ("settings.txt", "docs/settings.md"),
    ] {
        let packaged = root().join("crates/longhaul/deploy").join(packaged);
        assert_eq!(packaged.canonicalize().unwrap(), root().join(ours).canonicalize().unwrap());
    }
    let manifest = file("crates/longhaul/Cargo.toml");
    assert!(!manifest.contains("\ninclude = ") && !manifest.contains("\nexclude = "), "packages have all files");
    assert!(!root().join(STARTER).join("template.yaml").exists(), "a copy would be that of another version one day");
}

/// All files below `folder`: their paths in it, and their texts.
fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => files(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)).collect(),
            false => vec![(name, std::fs::read_to_string(path).unwrap())],
        }
    });
    files.collect()
}

fn new_server(arguments: &[&str]) -> Output {
    Command::new("sh").arg(root().join("scripts/new_server.sh")).args(arguments).output().unwrap()
}

#[test]
fn a_new_server_is_the_starter_with_its_name_and_this_checkout() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("server");
    let made = new_server(&["new-server", folder.to_str().unwrap()]);
    assert!(made.status.success(), "{made:?}");
    let rendered = files(&folder);
    for (path, text) in files(&root().join(STARTER)) {
        let is_for_other_tools = ["CargoLambda.toml", "cargo-generate.toml", "names.rhai"].contains(&path.as_str());
        let found = rendered.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_str());
        match path.as_str() {
            _ if is_for_other_tools => assert_eq!(found, None, "{path}"),
            // They also name the checkout.
            "Cargo.toml" | "Dockerfile" => {
                assert!(found.is_some_and(|text| !text.contains("{{project_name}}")), "{path}")
            }
            _ => assert_eq!(found, Some(text.replace("{{project_name}}", "new-server").as_str()), "{path}"),
        }
    }
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let (_, path) = manifest.split_once("[patch.crates-io]\nlonghaul = { path = \"").unwrap();
    let path = Path::new(path.split('"').next().unwrap());
    assert!(path.is_absolute() && path.join("Cargo.toml").exists(), "{}", path.display());
    let again = new_server(&["new-server", folder.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1), "a folder that exists is left alone: {again:?}");
}

#[test]
fn a_name_that_cannot_be_a_package_is_refused() {
    for name in ["", "New", "9lives", "a b", "a/b", "tools", "longhaul"] {
        let refused = new_server(&[name, "/nowhere/at/all"]);
        assert_eq!(refused.status.code(), Some(2), "{name}: {refused:?}");
    }
}

/// The page for servers that exist builds and deploys them as the starter does, whose commands other tests run.
#[test]
fn the_page_about_existing_servers_has_the_commands_and_the_profile_of_the_starter() {
    let page = file("docs/existing-server.md");
    let (makefile, manifest) = (file("templates/server/Makefile"), file("templates/server/Cargo.toml"));
    let words = |text: &str, line: &str| {
        let line = text.lines().find(|found| found.contains(line)).unwrap().replace(['$', '"', '\\'], " ");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for (on_page, in_makefile) in [("cargo lambda build", "lambda build"), ("/deploy/deploy.sh", "/deploy/deploy.sh")] {
        let starter = makefile.replace("\\\n", " ");
        let starter = words(&starter, in_makefile);
        for word in words(&page, on_page).iter().filter(|word| word.starts_with("--") || word.starts_with("CAPABILITY"))
        {
            assert!(starter.contains(word), "{word} is not in the Makefile of the starter");
        }
    }
    let (_, profile) = manifest.split_once("[profile.function]").unwrap();
    for line in profile.lines().filter(|line| !line.is_empty()) {
        assert!(page.contains(&format!("+{line}\n")), "the page has no line {line}");
    }
}
