//! The documented fields of the audit log are those of the code.

use longhaul_audit::page;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.md");
const BEGIN: &str = "<!-- audit: begin -->\n";
const END: &str = "<!-- audit: end -->";

#[test]
fn the_documented_fields_events_and_outcomes_are_those_of_the_code() {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the begin marker");
    let (_, after) = rest.split_once(END).expect("the end marker");
    let real = format!("{before}{BEGIN}{}{END}{after}", page());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, real).unwrap();
    } else {
        assert_eq!(text, real, "docs/audit.md is out of date: run with UPDATE_GOLDEN=1 and read the difference");
    }
}
