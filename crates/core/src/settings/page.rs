//! The table of settings in the documentation.

use crate::settings::{Declared, Place, Preset};

const HEAD: &str = "\
| flag, environment variable | values | local | Lambda | template parameter | what |
| --- | --- | --- | --- | --- | --- |
";

/// `declared` as a Markdown table.
#[must_use]
pub fn page(declared: &[&'static dyn Declared]) -> String {
    declared.iter().map(|setting| row(*setting)).fold(HEAD.to_owned(), |table, row| table + &row + "\n")
}

fn row(setting: &dyn Declared) -> String {
    let flag = match setting.preset(Place::Local) {
        Preset::Absent => String::new(),
        Preset::Required | Preset::Unset(_) | Preset::Value(_) => format!("`--{}`, ", setting.name()),
    };
    let lambda = match setting.preset(Place::Api) {
        Preset::Absent => setting.preset(Place::Worker),
        preset @ (Preset::Required | Preset::Unset(_) | Preset::Value(_)) => preset,
    };
    format!(
        "| {flag}`{}` | {} | {} | {} | {} | {} |",
        setting.variable(),
        setting.allowed(),
        cell(setting.preset(Place::Local)),
        cell(lambda),
        setting.parameter().map_or_else(String::new, |name| format!("`{name}`")),
        setting.about(),
    )
}

fn cell(preset: Preset) -> String {
    match preset {
        Preset::Absent => "not read".to_owned(),
        Preset::Required => "required".to_owned(),
        Preset::Unset(meaning) => meaning.to_owned(),
        Preset::Value(text) => format!("`{text}`"),
    }
}
