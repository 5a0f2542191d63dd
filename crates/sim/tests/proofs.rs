//! `docs/SEMANTICS.md` links each promise to its proof in `docs/proofs.md`: that no checker is missing there, and that
//! its numbers are right. `scripts/docs.py` checks that the links of all pages lead somewhere.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::path::Path;

use longhaul_sim::{PlantedFault, Promise};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn page(name: &str) -> String {
    read(&Path::new(DOCS).join(name))
}

/// The page that lists the proofs.
fn proofs() -> String {
    page("proofs.md")
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

/// The sections of promises in `docs/SEMANTICS.md`, without the one that says what is not promised.
fn promises(page: &str) -> impl Iterator<Item = &str> {
    page.split("\n## ").skip(1).filter(|section| !section.starts_with("Not guaranteed\n"))
}

/// How many sentences a section has outside of its heading and its tables.
fn sentences(section: &str) -> usize {
    let is_text = |line: &&str| !line.starts_with('|') && !line.starts_with("Proof: ");
    let text = section.lines().skip(1).filter(is_text).collect::<Vec<_>>().join(" ");
    text.trim_end().split_inclusive(". ").filter(|sentence| !sentence.trim().is_empty()).count()
}

#[test]
fn each_promise_is_three_sentences_and_a_table() {
    let page = page("SEMANTICS.md");
    assert!(promises(&page).count() > 15, "the sections of docs/SEMANTICS.md are not found");
    for section in promises(&page) {
        let heading = section.lines().next().unwrap();
        let count = sentences(section);
        assert!((1..=3).contains(&count), "“{heading}” has {count} sentences, at most 3: details go into its table");
        assert!(section.contains("\n| --- |"), "“{heading}” has no table");
        assert!(section.contains("\nProof: [how this is tested](proofs.md#proof-of-"), "“{heading}” has no proof");
    }
}

#[test]
fn a_fourth_sentence_of_a_promise_is_counted() {
    assert_eq!(sentences("1. A heading\n\nOne. Two\ngoes on. Three.\n\n| a. b. c |\n\nProof: [x](y). z.\n"), 3);
    assert_eq!(sentences("1. A heading\n\nOne. Two. Three.\n\n| a |\n\nFour.\n"), 4);
}

#[test]
fn each_promise_leads_to_its_proof() {
    let (page, proofs) = (page("SEMANTICS.md"), proofs());
    let numbered = page.split("\n## ").filter(|section| section.starts_with(|first: char| first.is_ascii_digit()));
    for section in numbered {
        let (number, _) = section.split_once(". ").unwrap();
        let link = format!("\nProof: [how this is tested](proofs.md#proof-of-{number}-");
        assert!(section.contains(&link), "section {number} of docs/SEMANTICS.md has to end with a link to its proof");
        assert!(proofs.contains(&format!("\n## Proof of {number}: ")), "docs/proofs.md has no proof of {number}");
    }
}

#[test]
fn each_checker_has_its_place_in_a_proof_and_the_right_number_of_planted_faults() {
    let page = proofs();
    let mut named = Vec::new();
    for checker in entries(&page, "Checkers").iter().flat_map(|entry| entry.split("[`").skip(1)) {
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
    assert!(missing.is_empty(), "{missing:?} is in no proof: name it in docs/proofs.md at the promise that it checks");
}

#[test]
fn what_a_proof_says_of_mutants_is_what_the_script_changes() {
    let (page, root) = (proofs(), Path::new(DOCS).join(".."));
    let script = read(&root.join("scripts/mutants.sh"));
    let of_aws = script.split("for file in ").nth(1).unwrap().split(';').next().unwrap();
    for target in entries(&page, "Mutants").into_iter().flat_map(targets) {
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
    assert!(page.contains(&says), "tests/mutants/survivors.txt has {accepted}: docs/proofs.md has to say so");
}
