//! Which test binaries `make test` runs.

use std::collections::BTreeSet;

/// The binaries that `scripts/test.sh` treats on their own. It runs parts of `cli` and `local`. It leaves out `aws` and
/// `starter`, which need other programs, `instructions`, which takes minutes, and the fuzzer, which needs a C++
/// compiler.
const OTHERS: [&str; 6] = ["aws", "cli", "instructions", "libfuzzer", "local", "starter"];

#[test]
fn make_test_leaves_out_no_test_binary_in_silence() {
    let metadata = super::metadata();
    let packages = metadata["packages"].as_array().expect("there are packages").iter();
    let targets = packages.flat_map(|package| package["targets"].as_array().expect("a package has targets"));
    let tests = targets.filter(|target| target["kind"][0] == "test").filter_map(|target| target["name"].as_str());
    let expected: BTreeSet<&str> = tests.filter(|name| !OTHERS.contains(name)).collect();

    let script = std::fs::read_to_string(super::root().join("scripts/test.sh")).expect("the script exists");
    let list = script.split("alone=(").nth(1).and_then(|rest| rest.split(')').next()).expect("the script has a list");
    assert_eq!(list.split_whitespace().collect::<BTreeSet<_>>(), expected, "the list `alone` of scripts/test.sh");
}
