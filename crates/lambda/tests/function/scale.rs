//! The arithmetic of docs/scale.md.

use crate::costs::{Line, tables};
use crate::world::file;

fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_limit_is_reached_where_the_page_says() {
    let page = file("docs/scale.md");
    let table = page.split("\n\n").find(|block| block.contains("| limit a second |")).unwrap();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert_eq!(rows.len(), 12);
    for row in rows {
        let [what, used, limit, tasks, remedy] = row.try_into().unwrap();
        assert_eq!((number(limit) / number(used)).floor(), number(tasks), "{what}");
        assert!(!remedy.is_empty(), "{what}");
    }
}

#[test]
fn every_rate_is_computed_rightly_and_from_the_costs_of_a_task() {
    let costs = tables("docs/costs.md");
    let exact = |line: &Line| line.exact.unwrap_or_default();
    let task: f64 = costs[0].iter().filter(|line| !line.what.contains("of the worker")).map(exact).sum();
    let rates = tables("docs/scale.md");
    assert_eq!(rates.len(), 3);
    for (table, tasks) in rates.iter().zip([10.0, 1_000.0, 100_000.0]) {
        for line in table {
            assert_eq!(format!("{:.2}", exact(line)), line.amount, "{}", line.what);
        }
        let dollars = table.iter().find(|line| line.what.contains("dollars")).map(exact).unwrap();
        let rounded = (task * 100.0).round() / 100.0;
        assert!((dollars - tasks * 3_600.0 * rounded / 1e6).abs() < 0.01, "{tasks}: {dollars}, {rounded}");
    }
}
