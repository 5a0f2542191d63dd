//! The transition table in the documentation is the real one.

use longhaul_core::transition_table;

const BEGIN: &str = "<!-- transitions: begin -->\n";
const END: &str = "<!-- transitions: end -->";

#[test]
fn the_documented_transitions_are_the_real_ones() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/transitions.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the begin marker");
    let (table, after) = rest.split_once(END).expect("the end marker");
    let real = transition_table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{real}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, real, "docs/transitions.md is out of date: run with UPDATE_GOLDEN=1 and read the difference");
    }
}
