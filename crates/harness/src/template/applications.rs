//! The settings that a program declares in addition to Longhaul's: in the documentation, and in the template.

use longhaul_core::settings::{Declared, Place, Preset, page, table};

use super::resolve::Stack;
use super::{parameters, yaml};
use crate::{file, is_up_to_date};

const PAGE: &str = "docs/settings.md";

/// Compares the documented settings with the declared ones: in the page, between the markers of each part. With the
/// variable `UPDATE_GOLDEN` it writes them.
pub fn are_documented(parts: &[(&str, &[&'static dyn Declared])]) {
    let real = parts.iter().fold(file(PAGE), |text, (part, declared)| renewed(&text, part, declared));
    is_up_to_date(PAGE, &real);
}

/// `text` with the lines between the markers of `part` replaced by the table of `declared`.
fn renewed(text: &str, part: &str, declared: &[&'static dyn Declared]) -> String {
    let (begin, end) = (format!("<!-- {part}: begin -->\n"), format!("<!-- {part}: end -->"));
    let (before, rest) = text.split_once(&begin).expect("the begin marker");
    let (_, after) = rest.split_once(&end).expect("the end marker");
    format!("{before}{begin}{}{end}{after}", page(declared))
}

/// Whether the template's parameters are as these settings say, and set their variables where they are read.
/// `stack` has the parameters of a stack in which each of them has a value.
pub fn are_set(own: &[&'static dyn Declared], stack: &[(&str, &str)]) {
    let template = yaml::template();
    let stack = Stack::new(&template, stack);
    for setting in own.iter().filter(|setting| setting.parameter().is_some()) {
        parameters::hold(&template, *setting);
        for (function, place) in [("Api", Place::Api), ("Worker", Place::Worker)] {
            let is_read = setting.preset(place) != Preset::Absent;
            let variable = if parameters::is_carried(*setting) { "LONGHAUL_SETTINGS" } else { setting.variable() };
            let is_set = stack.environment(function).contains_key(variable);
            assert_eq!(is_read, is_set, "{} in {function}", setting.variable());
        }
    }
}

/// Whether none of them has the name of another setting.
pub fn have_names_of_their_own(own: &[&'static dyn Declared]) {
    for own in own {
        for other in table::ALL {
            assert!(own.name() != other.name() && own.variable() != other.variable(), "{}", own.name());
        }
    }
}
