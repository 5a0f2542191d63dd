//! The arithmetic of docs/costs.md.

use crate::world::file;

const PAGE: &str = "docs/costs.md";

/// A line of a table: what, its arithmetic if it has one, and the amount.
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) exact: Option<f64>,
    pub(crate) amount: String,
}

/// The value of a product, as in "`3 × 0.125`".
fn product(arithmetic: &str) -> Option<f64> {
    let factors = arithmetic.strip_prefix('`')?.strip_suffix('`')?.split(" × ");
    Some(factors.map(|factor| factor.parse::<f64>().unwrap_or_else(|error| panic!("{arithmetic}: {error}"))).product())
}

/// The lines of all tables of a page that show arithmetic, table by table.
pub(crate) fn tables(page: &str) -> Vec<Vec<Line>> {
    let page = file(page);
    let blocks = page.split("\n\n").filter(|block| block.contains("| arithmetic |"));
    let line = |line: &str| {
        let [what, arithmetic, amount]: [&str; 3] =
            line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        Line { what: what.to_owned(), exact: product(arithmetic), amount: amount.trim_matches('*').to_owned() }
    };
    blocks.map(|block| block.lines().skip(2).map(line).collect()).collect()
}

#[test]
fn every_amount_is_what_its_arithmetic_says() {
    let tables = tables(PAGE);
    assert_eq!(tables.len(), 12);
    for line in tables.iter().flatten() {
        match line.exact {
            // Half a cent is rounded up.
            Some(exact) => assert_eq!(format!("{:.2}", exact + 1e-9), line.amount, "{}", line.what),
            None => assert_eq!(line.what, "**sum**"),
        }
    }
}

#[test]
fn every_sum_is_that_of_its_lines() {
    for table in tables(PAGE) {
        let sum: f64 = table.iter().filter_map(|line| line.exact).sum();
        if let Some(line) = table.iter().find(|line| line.what == "**sum**") {
            assert_eq!(format!("{:.2}", sum + 1e-9), line.amount, "{}", table[0].what);
        }
    }
}

#[test]
fn what_the_text_adds_up_is_right() {
    let page = file(PAGE);
    let sum = |table: &[Line]| table.iter().filter_map(|line| line.exact).sum::<f64>();
    let tables = tables(PAGE);
    let task = sum(&tables[0]);
    let own_second = tables[0].iter().find(|line| line.what.contains("of the worker")).unwrap().exact.unwrap();
    assert!(page.contains(&format!("second is {:.2}", task - own_second)), "{}", task - own_second);
    let through_http_api = task + tables[1].last().unwrap().exact.unwrap();
    assert!(page.contains(&format!("tasks cost {through_http_api:.2}")), "{through_http_api}");
    let of_rest_api = tables[1].iter().find(|line| line.what.contains("four") && line.what.contains("REST")).unwrap();
    let through_rest_api = task + of_rest_api.exact.unwrap();
    assert!(page.contains(&format!("they cost {through_rest_api:.2}")), "{through_rest_api}");
}
