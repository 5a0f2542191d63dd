//! The text of a template: the names of its parameters, and where the code of its functions is.

use super::hash::hash;
use crate::exit::Stop;

/// The template of this version.
pub(super) const TEMPLATE: &str = include_str!("template.yaml");

/// The line that says where the code of a function is.
const CODE: &str = "CodeUri: ";

/// Where packages are in the bucket: with the name of the program, and then the hash.
pub(super) const PACKAGES: &str = "packages/";

/// The name of a template in the bucket.
pub(super) fn key(template: &str) -> String {
    format!("templates/{}.yaml", hash(template.as_bytes()))
}

/// The names of the template's parameters.
pub(super) fn parameters(template: &str) -> Vec<&str> {
    let section = template.lines().skip_while(|line| *line != "Parameters:").skip(1);
    let section = section.take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
    section.filter_map(name).collect()
}

/// The name that a line of a section declares.
fn name(line: &str) -> Option<&str> {
    let name = line.strip_prefix("  ")?.trim_end().strip_suffix(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then_some(name)
}

/// The template whose functions have their code in these objects of the bucket.
pub(super) fn with_code(template: &str, bucket: &str, api: &str, worker: &str) -> Result<String, Stop> {
    let mut found = [false, false];
    let mut lines = Vec::new();
    for line in template.split('\n') {
        let code = line.trim_start().strip_prefix(CODE);
        let (indent, key) = (line.len() - line.trim_start().len(), code.and_then(program));
        lines.push(match (key, code) {
            (Some(Program::Api), _) => {
                found[0] = true;
                format!("{}{CODE}s3://{bucket}/{api}", " ".repeat(indent))
            }
            (Some(Program::Worker), _) => {
                found[1] = true;
                format!("{}{CODE}s3://{bucket}/{worker}", " ".repeat(indent))
            }
            (None, Some(other)) => {
                return Err(Stop::usage(format!(
                    "the template has code at {other}, which is not a package of Longhaul: run `longhaul deploy` once"
                )));
            }
            (None, None) => line.to_owned(),
        });
    }
    if found == [true, true] {
        return Ok(lines.join("\n"));
    }
    Err(Stop::usage("the template has no functions `api` and `worker` of Longhaul: deploy one that --eject wrote"))
}

#[derive(Clone, Copy)]
enum Program {
    Api,
    Worker,
}

/// The program at this place: in a checkout, or in a bucket of this command.
fn program(code: &str) -> Option<Program> {
    let named = |name: &str| {
        code == format!("target/lambda/{name}/bootstrap.zip") || code.contains(&format!("/{PACKAGES}{name}-"))
    };
    if named("api") {
        return Some(Program::Api);
    }
    named("worker").then_some(Program::Worker)
}

/// The packages that a template names, shortened, each once: `api-1a2b3c4d`.
pub(super) fn packages(template: &str) -> Vec<String> {
    let keys = template.lines().filter_map(|line| line.split_once(PACKAGES).map(|(_, key)| key));
    let mut short: Vec<String> = keys
        .filter_map(|key| key.split_once('-'))
        .map(|(name, hash)| format!("{name}-{}", hash.get(..12).unwrap_or(hash)))
        .collect();
    short.sort();
    short.dedup();
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_gets_its_package() {
        let first = with_code(TEMPLATE, "b", "packages/api-1.zip", "packages/worker-2.zip").unwrap();
        assert_eq!(first.matches(CODE).count(), TEMPLATE.matches(CODE).count());
        assert_eq!(first.matches("CodeUri: s3://b/packages/api-1.zip").count(), 1);
        assert_eq!(first.matches("CodeUri: s3://b/packages/worker-2.zip").count(), 4);
        assert_eq!(packages(&first), ["api-1.zip", "worker-2.zip"]);
        // The same once more replaces these.
        let second = with_code(&first, "c", "packages/api-3.zip", "packages/worker-4.zip").unwrap();
        assert_eq!(second, with_code(TEMPLATE, "c", "packages/api-3.zip", "packages/worker-4.zip").unwrap());
    }

    #[test]
    fn code_of_others_is_left_alone() {
        let why = with_code("      CodeUri: s3://other/1a2b\n", "b", "a", "w").unwrap_err().why;
        assert!(why.contains("s3://other/1a2b"), "{why}");
        assert!(with_code("Resources:\n", "b", "a", "w").unwrap_err().why.contains("no functions"));
    }

    #[test]
    fn the_parameters_of_the_template_are_known() {
        let names = parameters(TEMPLATE);
        for name in ["Architecture", "Settings", "AuthMode", "WorkerClass", "ExistingTableName"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }
}
