//! The documented settings are the declared ones, and the template sets those of the application.

use harness::template;
use longhaul::settings::{Place, Preset, table};
use longhaul_app::settings;

#[test]
fn the_documented_settings_are_the_declared_ones() {
    template::applications::are_documented(&[("longhaul", &table::ALL), ("application", &settings::ALL)]);
}

#[test]
fn the_template_sets_what_the_application_reads_in_a_function() {
    template::applications::are_set(&settings::ALL, &[]);
}

#[test]
fn no_name_is_used_twice() {
    template::applications::have_names_of_their_own(&settings::ALL);
}

#[test]
fn what_is_written_about_containers_names_settings_that_exist() {
    let known = |name: &str| {
        table::ALL.iter().any(|setting| setting.variable() == name && setting.preset(Place::Local) != Preset::Absent)
    };
    let mut named = 0;
    for file in ["docs/containers.md", "infra/container/kubernetes.yaml", "infra/container/Dockerfile"] {
        let text = harness::file(file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("LONGHAUL_")) {
            assert!(known(name), "{file}: {name}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
