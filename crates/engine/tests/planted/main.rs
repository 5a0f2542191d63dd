//! The proof of the checkers: every fault that is planted in the domain, the engine or the models is found within a
//! stated number of seeds.

use longhaul_core::planted::{Fault, plant};
use longhaul_testkit::sim::{Defect, Telling, hunt, run};

/// Seeds within which every fault is found.
const SEEDS_MAX: u64 = 4_000;

#[test]
fn every_fault_of_the_engine_is_found() {
    let missed: Vec<Fault> = Fault::ALL
        .into_iter()
        .filter(|fault| {
            let hunt = hunt(0..SEEDS_MAX, |plan| {
                plant(Some(*fault));
                run(plan, None, Telling::Nothing)
            });
            tell(
                &format!("{fault:?}"),
                hunt.found.as_ref().map(|(seed, violation)| (*seed, format!("{:?}", violation.promise))),
            );
            hunt.found.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "no checker found {missed:?}");
}

#[test]
fn every_defect_of_an_adapter_is_found() {
    let missed: Vec<Defect> = Defect::ALL
        .into_iter()
        .filter(|defect| {
            let hunt = hunt(0..SEEDS_MAX, |plan| run(plan, Some(*defect), Telling::Nothing));
            tell(
                &format!("{defect:?}"),
                hunt.found.as_ref().map(|(seed, violation)| (*seed, format!("{:?}", violation.promise))),
            );
            hunt.found.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "no checker found {missed:?}");
}

#[expect(clippy::print_stdout, reason = "the table of what was found is what somebody who runs this wants to see")]
fn tell(fault: &str, found: Option<(u64, String)>) {
    match found {
        Some((seed, promise)) => println!("{fault:<26} found by {promise} in seed {seed}"),
        None => println!("{fault:<26} NOT FOUND"),
    }
}
