//! The parameters of the template, compared with the declarations of the settings that they set.

use longhaul_core::settings::{Declared, Place, Preset};
use serde_json::Value;

use super::resolve::text;

/// The parameters that carry many settings each, which the functions check themselves.
pub const BUNDLES: [&str; 2] = ["Settings", "Authentication"];

/// Whether a parameter of many carries the setting.
pub fn is_carried(setting: &dyn Declared) -> bool {
    setting.parameter().is_some_and(|name| BUNDLES.contains(&name))
}

/// Compares the parameter that sets `setting` with its declaration.
pub fn hold(template: &Value, setting: &'static dyn Declared) {
    let Some(name) = setting.parameter() else { return };
    let parameter = &template["Parameters"][name];
    assert!(parameter.is_object(), "the template has no parameter {name}");
    if BUNDLES.contains(&name) {
        return;
    }
    let described = parameter["Description"].as_str().unwrap();
    assert!(described.starts_with(setting.about()), "{name}: {described:?} does not begin with {:?}", setting.about());

    // The parameter of a number that may be unset is a string, since a number cannot be empty.
    let unset = parameter["Type"] == "String" && parameter["Default"] == "";
    match lambda(setting) {
        Preset::Value(default) => assert!(unset || text(&parameter["Default"]) == default, "{name}: not {default}"),
        Preset::Unset(_) => assert!(unset, "{name} has a default"),
        Preset::Required | Preset::Absent => panic!("{name} sets what no function reads, or what is required"),
    }
    for value in limits(parameter) {
        assert_eq!(setting.refusal(value.as_ref()), None, "{name} allows {value}");
    }
}

/// The values that a parameter allows: all that are listed, or the smallest and the largest.
pub fn limits(parameter: &Value) -> Vec<String> {
    let listed = parameter["AllowedValues"].as_array().cloned().unwrap_or_default();
    let ends = ["MinValue", "MaxValue"].into_iter().filter_map(|end| parameter.get(end).cloned());
    listed.into_iter().chain(ends).map(|value| text(&value)).collect()
}

/// The default in the functions.
fn lambda(setting: &dyn Declared) -> Preset {
    match setting.preset(Place::Api) {
        Preset::Absent => setting.preset(Place::Worker),
        preset => preset,
    }
}
