//! Parameters of the template as the user names them, checked before anything is created.

use std::collections::BTreeMap;

use longhaul_core::settings::Flags;
use longhaul_core::settings::{Declared, Place, Values, table};

use super::template;
use crate::arguments::meant;
use crate::exit::Stop;

/// Lambda takes 4 KiB for all variables of a function. The names, and the variables that the stack sets itself, take
/// the rest.
const VARIABLES_BYTES_MAX: usize = 2_000;

/// The parameters that become variables as a whole.
const IN_VARIABLES: [&str; 7] =
    ["Settings", "Authentication", "OAuthIssuers", "OAuthAudiences", "AllowOrigins", "SecretArns", "Webhooks"];

/// The longest value that CloudFormation takes.
const VALUE_BYTES_MAX: usize = 4_096;

/// Names and values, with each name once.
pub(super) fn pairs(given: &[String], what: &str) -> Result<BTreeMap<String, String>, Stop> {
    let mut all = BTreeMap::new();
    for pair in given {
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Stop::usage(format!("the {what} `{pair}` is not NAME=VALUE")))?;
        if all.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Stop::usage(format!("the {what} {name} is there twice: leave one of them out")));
        }
    }
    Ok(all)
}

/// The parameters that the user names: those that `template` has, with values that the functions take together with
/// those that the stack has.
pub(super) fn read(
    given: &[String],
    template: &str,
    stack: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Stop> {
    let parameters = pairs(given, "parameter")?;
    let known: Vec<String> = template::parameters(template).into_iter().map(str::to_owned).collect();
    let mut faults = Vec::new();
    for (name, value) in &parameters {
        if !known.contains(name) {
            faults.push(format!("{name} is not a parameter of the template{}", meant(name, known.iter())));
        }
        if value.len() > VALUE_BYTES_MAX {
            faults.push(format!("{name} has {} bytes: {VALUE_BYTES_MAX} at most", value.len()));
        }
    }
    let mut all = stack.clone();
    all.retain(|name, _| known.contains(name));
    all.extend(parameters.clone());
    let bytes: usize = IN_VARIABLES.iter().filter_map(|name| all.get(*name)).map(String::len).sum();
    if bytes > VARIABLES_BYTES_MAX {
        let names = IN_VARIABLES.join(", ");
        faults.push(format!("{names} have {bytes} bytes together: {VARIABLES_BYTES_MAX} at most"));
    }
    faults.extend(settings_faults(&all));
    if faults.is_empty() { Ok(parameters) } else { Err(Stop::usage(faults.join("\n"))) }
}

/// A sentence for each value in these parameters that the functions would refuse.
fn settings_faults(parameters: &BTreeMap<String, String>) -> Vec<String> {
    let bundles: [&dyn Declared; 2] = [&table::SETTINGS, &table::AUTHENTICATION];
    let declared: [&[&'static dyn Declared]; 3] =
        [&table::ALL, &longhaul_app::settings::ALL, &longhaul_gateway::settings::ALL];
    // The settings with a variable of their own, and the two that carry others. If one name begins with another, the
    // longer name comes first.
    let carried = |name: &str| bundles.iter().any(|bundle| bundle.parameter() == Some(name));
    let is_bundle = |variable: &str| bundles.iter().any(|bundle| bundle.variable() == variable);
    let all = declared.iter().copied().flatten().filter_map(|setting| Some((setting.variable(), setting.parameter()?)));
    let mut variables: Vec<_> = all.filter(|(variable, name)| is_bundle(variable) || !carried(name)).collect();
    variables.sort_by_key(|(variable, _)| std::cmp::Reverse(variable.len()));

    // The stack sets these.
    let mut environment = BTreeMap::from([
        (table::TABLE.variable(), "stack"),
        (table::QUEUE_URL.variable(), "https://sqs.us-east-1.amazonaws.com/111122223333/work"),
        (table::DEAD_LETTER_QUEUE_URL.variable(), "https://sqs.us-east-1.amazonaws.com/111122223333/dead"),
    ]);
    let given = variables.iter().filter_map(|(variable, name)| Some((*variable, parameters.get(*name)?.as_str())));
    environment.extend(given);
    let mut faults: Vec<String> = Vec::new();
    for place in [Place::Api, Place::Worker] {
        let Err(error) = Values::read(place, &declared, &Flags::new(), &environment) else { continue };
        for fault in error.faults() {
            let renamed = |text: String, (variable, name): &(&str, &str)| text.replace(variable, name);
            let fault = variables.iter().fold(fault.to_string(), renamed);
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::template::TEMPLATE;

    fn read(given: &[&str]) -> Result<BTreeMap<String, String>, String> {
        let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
        super::read(&given, TEMPLATE, &BTreeMap::new()).map_err(|stop| stop.why)
    }

    #[test]
    fn parameters_that_can_be_used_are_taken_as_they_are() {
        let given =
            ["AuthMode=anonymous", "Settings=lease-ms=30000 tool-env=A=b", "Authentication={\"scope-call\": \"a\"}"];
        let taken = read(&given).unwrap();
        assert_eq!(taken["Settings"], "lease-ms=30000 tool-env=A=b");
        assert_eq!(taken.len(), 3);
        assert_eq!(read(&[]), Ok(BTreeMap::new()));
    }

    #[test]
    fn what_cannot_be_used_has_a_sentence_each() {
        let large = format!("Settings=tool-env=A={}", "x".repeat(2_100));
        for (given, said) in [
            (&["AuthMod=iam"][..], "AuthMod is not a parameter of the template; did you mean `AuthMode`?"),
            (&["AuthMode"], "the parameter `AuthMode` is not NAME=VALUE"),
            (&["AuthMode=iam", "AuthMode=oauth"], "the parameter AuthMode is there twice"),
            (&["Settings=leas-ms=5"], "`leas-ms` in Settings is not a setting"),
            (&["Settings=lease-ms=5"], "`lease-ms` in Settings is `5`; it must be a number"),
            (&["Settings=table=x"], "`table` in Settings is set by the stack"),
            (&["Authentication=[]"], "Authentication is not readable as a JSON object"),
            (&["Authentication={\"scope-cal\": \"a\"}"], "`scope-cal` in Authentication is not a setting"),
            (&[&large], "2000 at most"),
        ] {
            let why = read(given).unwrap_err();
            assert!(why.contains(said) && why.lines().count() == 1, "{given:?}: {why}");
        }
    }
}
