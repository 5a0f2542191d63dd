//! The documented settings are the declared ones, and the template sets those of the application.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

use longhaul::settings::{Declared, Place, Preset, page, table};
use longhaul_app::settings;
use template::resolve::Stack;

/// How the functions' tests read `template.yaml`.
#[expect(dead_code, reason = "those tests use more of it")]
#[path = "../../lambda/tests/function/template"]
mod template {
    pub(crate) mod parameters;
    pub(crate) mod resolve;
    pub(crate) mod yaml;
}

mod world {
    pub(crate) fn file(of: &str) -> String {
        let path = format!("{}/../../{of}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

const PAGE: &str = "docs/settings.md";

/// `text` with what is between the markers of `part` replaced by the table of `declared`.
fn renewed(text: &str, part: &str, declared: &[&'static dyn Declared]) -> String {
    let (begin, end) = (format!("<!-- {part}: begin -->\n"), format!("<!-- {part}: end -->"));
    let (before, rest) = text.split_once(&begin).expect("the begin marker");
    let (_, after) = rest.split_once(&end).expect("the end marker");
    format!("{before}{begin}{}{end}{after}", page(declared))
}

#[test]
fn the_documented_settings_are_the_declared_ones() {
    let text = world::file(PAGE);
    let real = renewed(&renewed(&text, "longhaul", &table::ALL), "application", &settings::ALL);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(format!("{}/../../{PAGE}", env!("CARGO_MANIFEST_DIR")), real).unwrap();
    } else {
        assert_eq!(text, real, "{PAGE} is out of date: run with UPDATE_GOLDEN=1 and read the difference");
    }
}

#[test]
fn the_template_sets_what_the_application_reads_in_a_function() {
    let template = template::yaml::template();
    let stack = Stack::new(&template, &[]);
    for setting in settings::ALL {
        template::parameters::hold(&template, setting);
        for (function, place) in [("Api", Place::Api), ("Worker", Place::Worker)] {
            let is_read = setting.preset(place) != Preset::Absent;
            let is_set = stack.environment(function).contains_key(setting.variable());
            assert_eq!(is_read, is_set, "{} in {function}", setting.variable());
        }
    }
}

#[test]
fn no_name_is_used_twice() {
    for own in settings::ALL {
        for other in table::ALL {
            assert!(own.name() != other.name() && own.variable() != other.variable(), "{}", own.name());
        }
    }
}

#[test]
fn what_is_written_about_containers_names_settings_that_exist() {
    let known = |name: &str| {
        table::ALL.iter().any(|setting| setting.variable() == name && setting.preset(Place::Local) != Preset::Absent)
    };
    let mut named = 0;
    for file in ["docs/containers.md", "infra/container/kubernetes.yaml", "infra/container/Dockerfile"] {
        let text = world::file(file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("LONGHAUL_")) {
            assert!(known(name), "{file}: {name}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
