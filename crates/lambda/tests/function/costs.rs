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
    assert_eq!(tables.len(), 15);
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
    // Ten executions of a function URL, each of which takes ten requests a second, for a day.
    let refused = 10.0 * 10.0 * 86_400.0 / 1e6 * sum_of("the Lambda request");
    assert!(page.contains(&format!("at most {refused:.2} dollars a day")), "{refused}");
    assert!(page.contains("as of November 2026"));
}

/// The sum of the table whose first line has these words.
fn sum_of(first: &str) -> f64 {
    let tables = tables(PAGE);
    let table = tables.iter().find(|table| table[0].what.contains(first)).unwrap_or_else(|| panic!("{first}"));
    table.iter().filter_map(|line| line.exact).sum()
}

#[test]
fn an_idle_stack_costs_less_than_two_dollars_a_month() {
    assert!(sum_of("polling two queues") < 2.0);
}

/// The figures between the tables, with the words next to them.
#[test]
fn what_the_text_says_is_computed() {
    const MILLION: f64 = 1e6;
    // Half a cent is rounded up.
    let (write, read, call, request, gb_s) = (0.625 + 1e-9, 0.125 + 1e-9, 0.50, 0.20, 13.333_4);
    let page = file(PAGE).replace('\n', " ");
    let look = sum_of("claim, suspend; each of two write units");
    let in_cents = 100.0;
    let refused = 3.0 * call + write + read + request + 0.020 * gb_s;
    let place = write + read + 3.0 * call + request + 0.010 * gb_s;
    let figures = [
        format!("A longer wait costs {:.2} more for each second", 0.5 * gb_s),
        format!("costs {:.4} an hour; a worker of 1 GB that waited instead", look * 60.0 / MILLION),
        format!("would cost {:.3}.", 3_600.0 * gb_s / MILLION),
        format!("The same {:.2} comes on top", read + request + 0.020 * 0.25 * gb_s),
        format!("one such wait costs {:.4}", sum_of("the polls, as above") / MILLION),
        format!("600 polls, {:.3}", 600.0 * (look + 2.0 * write + read) / MILLION),
        format!("which costs {:.2} for a million", read),
        format!("{:.4} for an hour", 780.0 * (2.0 * write + call) / MILLION),
        format!("{:.2} for a million task-minutes", 30.0 * 2.0 * write),
        format!("that is {:.2} more for a million", 4.0 * (read + request + 0.010 * 0.5 * gb_s)),
        format!("({:.2} for a million pages)", 112.0 * read),
        format!("{place:.2} for a million. A thousand tasks"),
        format!("wait for an hour cost {:.2}", 97.0 * 1_000.0 * place / MILLION),
        format!("These are {refused:.2} for a million"),
        format!("costs {:.2} cents", 96.0 * refused / MILLION * in_cents),
        format!("(20 seconds each are {:.2} for a million)", 20.0 * 0.5 * gb_s),
        format!("{:.2} of writes, {:.2} of SQS, {:.2} of its entry", 4.0 * write, 4.0 * call, write),
    ];
    for figure in figures {
        assert!(page.contains(&figure), "docs/costs.md does not say `{figure}`");
    }
}
