//! The commands in the documentation: each flag of theirs is one that the verb takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => pages(&path, found),
            Some(ending) if ending == "md" => found.push(path),
            _ => {}
        }
    }
}

fn help(verb: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let output = command.args(verb).arg("--help").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The verbs that a help text lists.
fn verbs_of(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    listed.filter_map(|line| line.split_whitespace().next()).collect()
}

/// The verbs and flags of each command `longhaul …` in a page, up to the command of another program in it.
fn commands(page: &str) -> impl Iterator<Item = (Vec<&str>, Vec<&str>)> {
    page.split("longhaul ").skip(1).map(|rest| {
        let command = rest.split(['`', '\n', '|', ';', '&', '#']).next().unwrap_or_default();
        let words: Vec<&str> = command.split_whitespace().take_while(|word| *word != "--").collect();
        let is_verb = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let verbs = words.iter().copied().take_while(is_verb).take(2).collect();
        let flag = |word: &str| word.trim_end_matches([',', '.', ')']).split('=').next().unwrap_or_default().len();
        (verbs, words.into_iter().filter(|word| word.starts_with("--")).map(|word| &word[..flag(word)]).collect())
    })
}

/// Whether a help text has this flag, and not only a longer one.
fn has(help: &str, flag: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next == '-' || next.is_ascii_lowercase());
    help.split(flag).skip(1).any(ends)
}

#[test]
fn the_flags_in_the_documentation_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    pages(&root.join("docs"), &mut files);
    pages(&root.join("templates"), &mut files);
    let all = help(&[]);
    let known = verbs_of(&all);
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let (mut checked, mut wrong) = (0, Vec::new());
    for file in files {
        let page = std::fs::read_to_string(&file).unwrap().replace("\\\n", " ");
        for (verbs, flags) in commands(&page).filter(|(_, flags)| !flags.is_empty()) {
            let Some(verb) = verbs.first().filter(|verb| known.contains(verb)) else { continue };
            // The second word may be a verb of its own, or an argument.
            let text = helps.entry(verbs.join(" ")).or_insert_with(|| help(&[verb]) + &help(&verbs));
            checked += flags.len();
            let unknown = flags.into_iter().filter(|flag| !has(text, flag));
            wrong.extend(unknown.map(|flag| format!("{}: longhaul {verb}: {flag}", file.display())));
        }
    }
    assert!(checked > 50, "only {checked} flags are read");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
