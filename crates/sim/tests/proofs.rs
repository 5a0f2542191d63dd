//! `docs/SEMANTICS.md` links each promise to what proves it: that the links lead somewhere, that no checker is missing,
//! and that its numbers are right.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::path::{Path, PathBuf};

use longhaul_sim::{PlantedFault, Promise};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn page() -> String {
    read(&Path::new(DOCS).join("SEMANTICS.md"))
}

/// The part of the page that lists the proofs.
fn proofs(page: &str) -> &str {
    let (_, proofs) = page.split_once("\n## How each promise is tested\n").expect("the page lists the proofs");
    proofs.split("\n## ").next().unwrap()
}

/// The entries of all lists that begin with this word, each with its further lines.
fn entries<'a>(proofs: &'a str, word: &str) -> Vec<&'a str> {
    let begin = format!("\n- {word}: ");
    let end = |entry: &'a str| entry.split("\n-").next().unwrap().split("\n\n").next().unwrap();
    proofs.split(begin.as_str()).skip(1).map(end).collect()
}

/// Where the links of a text lead.
fn targets(text: &str) -> Vec<&str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    inline.chain(text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ").map(|(_, to)| to))).collect()
}

/// The anchor that GitHub gives to this heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|char| char.is_alphanumeric() || "-_".contains(*char)).collect()
}

#[test]
fn each_link_leads_to_a_file_and_to_a_heading() {
    let page = page();
    for target in targets(&page).into_iter().filter(|target| !target.contains("://")) {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path: PathBuf = if file.is_empty() { "SEMANTICS.md".into() } else { file.into() };
        let path = Path::new(DOCS).join(path);
        assert!(path.exists(), "docs/SEMANTICS.md links to {file}, which does not exist: name the file that it is now");
        let has = |text: &str| text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
        assert!(
            heading.is_empty() || has(&read(&path)),
            "docs/SEMANTICS.md links to {target}: there is no such heading"
        );
    }
}

#[test]
fn each_promise_leads_to_its_proof() {
    let page = page();
    let numbered = page.split("\n## ").filter(|section| section.starts_with(|first: char| first.is_ascii_digit()));
    for section in numbered {
        let (number, _) = section.split_once(". ").unwrap();
        let link = format!("\nProof: [how this is tested](#proof-of-{number}-");
        assert!(section.contains(&link), "section {number} of docs/SEMANTICS.md has to end with a link to its proof");
    }
}

#[test]
fn each_checker_has_its_place_in_a_proof_and_the_right_number_of_planted_faults() {
    let page = page();
    let mut named = Vec::new();
    for checker in entries(proofs(&page), "Checkers").iter().flat_map(|entry| entry.split("[`").skip(1)) {
        let (name, rest) = checker.split_once("`](../").expect("a checker is a link to its file");
        let (file, rest) = rest.split_once(") (").expect("the number of planted faults stands after a checker");
        let promise = Promise::ALL.iter().find(|promise| format!("{promise:?}") == name);
        let promise = promise.unwrap_or_else(|| panic!("{name} is no checker: models/promise.rs has their names"));
        let source = read(&Path::new(DOCS).join("..").join(file));
        assert!(source.contains(&format!("Promise::{name}")), "{name} is not in {file}: link to the file that has it");
        let faults = match PlantedFault::ALL.iter().filter(|fault| fault.breaks() == *promise).count() {
            0 => "no planted fault)".to_owned(),
            1 => "[1 planted fault][planted])".to_owned(),
            many => format!("[{many} planted faults][planted])"),
        };
        assert!(rest.starts_with(&faults), "write ({faults} after {name}: that is what models/planted.rs has");
        named.push(*promise);
    }
    let missing: Vec<&Promise> = Promise::ALL.iter().filter(|promise| !named.contains(promise)).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} is in no proof: name it in docs/SEMANTICS.md at the promise that it checks"
    );
}

#[test]
fn what_a_proof_says_of_mutants_is_what_the_script_changes() {
    let (page, root) = (page(), Path::new(DOCS).join(".."));
    let script = read(&root.join("scripts/mutants.sh"));
    let of_aws = script.split("for file in ").nth(1).unwrap().split(';').next().unwrap();
    for target in entries(proofs(&page), "Mutants").into_iter().flat_map(targets) {
        let is_changed = match target.strip_prefix("../crates/aws/src/") {
            Some(file) => of_aws.split(' ').any(|changed| file == format!("{changed}.rs")),
            None => {
                ["core", "engine", "sqlite"].iter().any(|name| target.starts_with(&format!("../crates/{name}/src/")))
            }
        };
        assert!(is_changed, "`make mutants` does not change {target}: take it out of the proof, or change the script");
    }
    let survivors = read(&root.join("tests/mutants/survivors.txt"));
    let accepted = survivors.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    let says = format!("accepts {accepted} mutants");
    assert!(page.contains(&says), "tests/mutants/survivors.txt has {accepted}: docs/SEMANTICS.md has to say so");
}
