//! The measured figures, next to their targets.

use serde::Serialize;

/// The target of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// This much or more.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// This much or less.
    AtMost(f64),
    /// At most this many times the figure that it is compared with.
    AtMostTimes(f64),
}

impl Target {
    fn is_met(self, value: f64, ratio: Option<f64>) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::Below(most) => value < most,
            Self::AtMost(most) => value <= most,
            Self::AtMostTimes(most) => ratio.is_some_and(|ratio| ratio <= most),
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {}", number(least)),
            Self::Below(most) => format!("< {}", number(most)),
            Self::AtMost(most) => format!("<= {}", number(most)),
            Self::AtMostTimes(most) => format!("<= {} x", number(most)),
        }
    }
}

/// One figure, measured in several rounds.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    name: String,
    unit: &'static str,
    rounds: Vec<f64>,
    target: Option<Target>,
    ratio: Option<Ratio>,
}

#[derive(Clone, Debug, Serialize)]
struct Ratio {
    to: &'static str,
    is: f64,
}

impl Figure {
    /// A figure with its value in each round.
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, rounds: Vec<f64>) -> Self {
        Self { name: name.into(), unit, rounds, target: None, ratio: None }
    }

    /// The figure of one row, in a column that has the values of all rows for each round.
    pub(crate) fn of_row<const ROWS: usize>(
        (row, name, unit): (usize, &str, &'static str),
        what: &str,
        rounds: &[[f64; ROWS]],
    ) -> Self {
        Self::new(format!("{name} ({what})"), unit, rounds.iter().filter_map(|round| round.get(row).copied()).collect())
    }

    /// The target of a figure.
    pub(crate) const fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// How this compares with `other`, which is called `to`.
    pub(crate) fn compared_with(mut self, to: &'static str, other: &Self) -> Self {
        let base = other.median();
        self.ratio = (base > 0.0).then(|| Ratio { to, is: self.median() / base });
        self
    }

    /// The median of all rounds.
    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        let upper = sorted.get(middle).copied().unwrap_or_default();
        let lower = sorted.get(middle.wrapping_sub(1)).copied().unwrap_or(upper);
        if sorted.len().is_multiple_of(2) { f64::midpoint(lower, upper) } else { upper }
    }

    /// The lowest and the highest round, if there are several.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let sorted = self.sorted();
        let ends = sorted.first().copied().zip(sorted.last().copied());
        ends.filter(|_ends| sorted.len() > 1)
    }

    /// Whether the target is met, if there is one.
    fn is_met(&self) -> Option<bool> {
        let ratio = self.ratio.as_ref().map(|ratio| ratio.is);
        self.target.map(|target| target.is_met(self.median(), ratio))
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    fn cells(&self) -> [String; 6] {
        [
            self.name.clone(),
            format!("{} {}", number(self.median()), self.unit),
            self.range().map(|(least, most)| format!("{} to {}", number(least), number(most))).unwrap_or_default(),
            self.target.map(Target::text).unwrap_or_default(),
            self.is_met().map(|met| if met { "yes" } else { "NO" }.to_owned()).unwrap_or_default(),
            self.ratio.as_ref().map(|ratio| format!("{:.2} x {}", ratio.is, ratio.to)).unwrap_or_default(),
        ]
    }
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record<'a> {
            name: &'a str,
            unit: &'a str,
            median: f64,
            rounds: &'a [f64],
            target: Option<Target>,
            met: Option<bool>,
            ratio: Option<&'a Ratio>,
        }
        let (median, met) = (self.median(), self.is_met());
        let (rounds, target, ratio) = (&self.rounds, self.target, self.ratio.as_ref());
        Record { name: &self.name, unit: self.unit, median, rounds, target, met, ratio }.serialize(serializer)
    }
}

/// The figures as a table in Markdown.
pub(crate) fn table(figures: &[Figure]) -> String {
    let heads = ["figure", "median", "rounds", "target", "met", "ratio"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(heads).chain(figures.iter().map(Figure::cells)).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        line(&mut text, row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")));
        if number == 0 {
            line(&mut text, widths.iter().map(|width| "-".repeat(*width)));
        }
    }
    text
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    text.push_str(&format!("| {} |\n", cells.join(" | ")));
}

/// Three significant digits, or all digits before the point.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_of_its_rounds() {
        assert!((Figure::new("f", "s", vec![9.0, 1.0, 2.0]).median() - 2.0).abs() < 1e-9);
        assert!((Figure::new("f", "s", vec![9.0, 1.0, 2.0, 4.0]).median() - 3.0).abs() < 1e-9);
        assert!(Figure::new("f", "s", vec![]).median().abs() < 1e-9);
    }

    #[test]
    fn the_table_says_what_is_met_and_how_it_compares() {
        let base = Figure::new("base", "/s", vec![50.0]);
        let good = Figure::new("good", "/s", vec![100.0]).target(Target::AtLeast(100.0)).compared_with("base", &base);
        let bad = Figure::new("bad", "ms", vec![1.0]).target(Target::Below(1.0));
        let near = Figure::new("near", "/s", vec![70.0]).target(Target::AtMostTimes(1.5)).compared_with("base", &base);
        let far = Figure::new("far", "/s", vec![80.0]).target(Target::AtMostTimes(1.5)).compared_with("base", &base);
        let once = Figure::new("once", "", vec![1.0]).target(Target::AtMost(1.0));
        let table = table(&[base, good, bad, near, far, once]);
        assert!(table.contains("| >= 100    | yes | 2.00 x base |"), "{table}");
        assert!(table.contains("| < 1.00    | NO "), "{table}");
        assert!(table.contains("| <= 1.50 x | yes | 1.40 x base |"), "{table}");
        assert!(table.contains("| <= 1.50 x | NO  | 1.60 x base |"), "{table}");
        assert!(table.contains("| <= 1.00   | yes |"), "{table}");
    }
}
