//! How the functions are linked.

#![expect(clippy::print_stdout, reason = "Cargo reads it")]
#![expect(clippy::disallowed_methods, reason = "Cargo says in the environment what is built")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_for = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|set| set == value);
    if is_for("CARGO_FEATURE_LAMBDA", "1") && is_for("CARGO_CFG_TARGET_OS", "linux") {
        // At a fixed address. A program that may be anywhere has a list of all addresses in it, 600 KB here, each of which is
        // changed at every start.
        for function in ["api", "worker"] {
            println!("cargo::rustc-link-arg-bin={function}=-no-pie");
        }
    }
}
