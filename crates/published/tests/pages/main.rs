//! Pages and files that are compared with what they describe. With the variable `UPDATE_GOLDEN` the tests write them.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod hooks;
mod settings;
mod starter_template;
mod template_parts;

use std::path::Path;

use harness::{file, is_up_to_date};

#[test]
fn the_documented_fields_events_and_outcomes_are_those_of_the_code() {
    const PAGE: &str = "docs/audit.md";
    const BEGIN: &str = "<!-- audit: begin -->\n";
    const END: &str = "<!-- audit: end -->";
    let text = file(PAGE);
    let (before, rest) = text.split_once(BEGIN).expect("the begin marker");
    let (_, after) = rest.split_once(END).expect("the end marker");
    is_up_to_date(PAGE, &format!("{before}{BEGIN}{}{END}{after}", longhaul_core::audit::page()));
}

/// What users of the crate `longhaul` can name.
#[test]
fn the_public_api_is_the_listed_one_and_every_item_has_an_example() {
    const HEAD: &str = "\
# What users of the crate `longhaul` can name, with all of its features: a line for each module, type, variant, field,
# function, and implementation of a trait. Not listed: functions of such an implementation, derived implementations,
# auto traits, and blanket implementations of other crates. Re-exported items have the facade's name.
";
    let api = longhaul_published::public_api::read(Path::new(env!("CARGO_TARGET_TMPDIR")));
    assert!(api.lines.len() <= 700, "{} lines: which of them do authors of tools need?", api.lines.len());
    is_up_to_date("docs/public-api.txt", &(HEAD.to_owned() + &api.lines.join("\n") + "\n"));
    assert!(api.without_example.is_empty(), "no example uses these:\n{}", api.without_example.join("\n"));
}
