//! What was measured: tables whose rows are systems.

use std::collections::BTreeMap;

use super::system::System;
use crate::figures::{Figure, number};

/// One table of the report.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its heading.
    pub(crate) title: String,
    /// What is measured, and how to read it.
    pub(crate) about: String,
    /// Its rows.
    pub(crate) systems: Vec<System>,
    /// The heads of its columns, with their units.
    pub(crate) columns: Vec<String>,
    cells: BTreeMap<(System, usize), Vec<f64>>,
    reasons: BTreeMap<System, String>,
}

impl Table {
    /// An empty table, with a row for each of `systems`.
    pub(crate) fn new(
        systems: &[System],
        title: impl Into<String>,
        about: impl Into<String>,
        columns: &[&str],
    ) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        let (title, about, systems) = (title.into(), about.into(), systems.to_vec());
        Self { title, about, systems, columns, cells: BTreeMap::new(), reasons: BTreeMap::new() }
    }

    /// What one round gave for a system.
    pub(crate) fn add(&mut self, system: System, column: usize, value: f64) {
        self.cells.entry((system, column)).or_default().push(value);
    }

    /// What one round gave for a system, column by column.
    pub(crate) fn add_row(&mut self, system: System, values: impl IntoIterator<Item = f64>) {
        for (column, value) in values.into_iter().enumerate() {
            self.add(system, column, value);
        }
    }

    /// The same, where a round gave only some of them.
    pub(crate) fn add_some(&mut self, system: System, values: impl IntoIterator<Item = Option<f64>>) {
        for (column, value) in values.into_iter().enumerate() {
            if let Some(value) = value {
                self.add(system, column, value);
            }
        }
    }

    /// Why a system has no figures here, or only some.
    pub(crate) fn explain(&mut self, system: System, why: impl Into<String>) {
        self.reasons.insert(system, why.into());
    }

    /// A system could not be measured, or not to the end.
    pub(crate) fn failed(&mut self, system: System, why: &anyhow::Error) {
        eprintln!("{}: {why:#}", system.name());
        self.explain(system, format!("it failed: {why:#}"));
    }

    /// The median of a cell, if it was measured.
    pub(crate) fn median(&self, system: System, column: usize) -> Option<f64> {
        self.figure(system, column).map(|figure| figure.median())
    }

    fn figure(&self, system: System, column: usize) -> Option<Figure> {
        self.cells.get(&(system, column)).map(|rounds| Figure::new("", "", rounds.clone()))
    }

    /// The table in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.title, self.about);
        text.push_str(&format!("| | {} |\n|{}\n", self.columns.join(" | "), " --- |".repeat(self.columns.len() + 1)));
        for system in &self.systems {
            let cells: Vec<String> = (0..self.columns.len()).map(|column| self.cell(*system, column)).collect();
            text.push_str(&format!("| {} | {} |\n", system.name(), cells.join(" | ")));
        }
        for (system, why) in &self.reasons {
            text.push_str(&format!("\n{}: {why}\n", system.name()));
        }
        text
    }

    fn cell(&self, system: System, column: usize) -> String {
        let Some(figure) = self.figure(system, column) else { return "–".to_owned() };
        let is_best = figure.median() > 0.0
            && self.columns.get(column).is_some_and(|head| self.best(head, column) == Some(system));
        let median = number(figure.median());
        let median = if is_best { format!("**{median}**") } else { median };
        let range = figure.range().map(|(least, most)| (number(least), number(most)));
        match range.filter(|(least, most)| least != most) {
            Some((least, most)) => format!("{median} ({least} to {most})"),
            None => median,
        }
    }

    /// The system with the best figure of a column: the highest where it counts what is done per second, else the
    /// lowest.
    fn best(&self, head: &str, column: usize) -> Option<System> {
        let medians = self.cells.keys().filter(|(_, of)| *of == column);
        let medians = medians.filter_map(|(system, _)| Some((*system, self.median(*system, column)?)));
        let medians = medians.filter(|(system, _)| system.is_durable());
        if head.ends_with("/s") {
            medians.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(system, _)| system)
        } else {
            medians.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(system, _)| system)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_durable_system_of_a_column_stands_out_and_what_was_not_measured_says_so() {
        let systems = [System::Longhaul, System::Restate, System::Dbos, System::Rmcp];
        let mut table = Table::new(&systems, "Lives", "How many.", &["at once, /s", "ms"]);
        table.add_row(System::Longhaul, [100.0, 2.0]);
        table.add_row(System::Longhaul, [300.0, 4.0]);
        table.add_row(System::Restate, [150.0, 1.0]);
        table.add_row(System::Rmcp, [900.0, 0.5]);
        table.add_row(System::Rmcp, [900.0, 0.5]);
        table.explain(System::Dbos, "it could not be started.");
        let text = table.markdown();
        assert!(text.contains("| Longhaul, task | **200** (100 to 300) | 3.00 (2.00 to 4.00) |"), "{text}");
        assert!(text.contains("| Restate | 150 | **1.00** |"), "{text}");
        assert!(text.contains("| DBOS, SQLite as shipped | – | – |"), "{text}");
        assert!(text.contains("| rmcp TaskManager | 900 | 0.50 |"), "{text}");
        assert!(text.ends_with("\nDBOS, SQLite as shipped: it could not be started.\n"), "{text}");
    }
}
