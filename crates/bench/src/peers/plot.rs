//! Pictures of tables: horizontal bars, one for each system.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::system::System;
use super::tables::Table;
use crate::figures::number;

/// Width of a picture, and of the names at its left, in pixels.
const WIDTH: u32 = 760;
const NAMES: i32 = 260;

/// Room at the right for a bar's figure, in pixels.
const FIGURE: i32 = 70;

/// Height of a bar with the gap below it, in pixels.
const BAR: i32 = 26;

/// Height of the heading, in pixels.
const HEAD: i32 = 36;

/// Gap between two bars, in pixels.
const GAP: i32 = 8;

/// The bars of Longhaul, and of the others: to be told apart in light and in dark surroundings.
const OWN: RGBColor = RGBColor(11, 120, 148);
const OTHERS: RGBColor = RGBColor(150, 150, 160);

/// A picture.
pub(crate) struct Picture {
    /// The name of its file.
    pub(crate) file: String,
    /// What it shows.
    pub(crate) title: String,
    /// The picture.
    pub(crate) svg: String,
}

/// The tables and columns that are drawn, with the name of the file and the heading.
const DRAWN: [(&str, usize, &str, &str); 6] = [
    ("Lives per second", 1, "lives-1-step.svg", "Lives of 1 step per second, 16 at a time (longer is better)"),
    ("Lives per second", 2, "lives-10-steps.svg", "Lives of 10 steps per second, 16 at a time (longer is better)"),
    ("A kill in flight", 0, "kill.svg", "Seconds from a kill to the last result (shorter is better)"),
    (
        "On AWS: capacity with long results of the same caller",
        8,
        "aws-results.svg",
        "Read units of a call beside 100 results of 100 KB (shorter is better)",
    ),
    ("On AWS: capacity of a life", 0, "aws-writes.svg", "Write units of a life without steps (shorter is better)"),
    ("On AWS: a kill in flight", 3, "aws-kill.svg", "Results of 20 that a kill loses (shorter is better)"),
];

/// The pictures that belong below a table.
pub(super) fn pictures(table: &Table) -> Vec<Picture> {
    let drawn = DRAWN.iter().filter(|(of, ..)| *of == table.title);
    let pictures = drawn.filter_map(|(_, column, file, title)| {
        let bars: Vec<(System, f64)> =
            table.systems.iter().filter_map(|system| Some((*system, table.median(*system, *column)?))).collect();
        let svg = bars_as_svg(title, &bars).ok().filter(|_svg| !bars.is_empty())?;
        Some(Picture { file: (*file).to_owned(), title: (*title).to_owned(), svg })
    });
    pictures.collect()
}

fn bars_as_svg(title: &str, bars: &[(System, f64)]) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    let rows = i32::try_from(bars.len())?;
    let height = u32::try_from(HEAD + rows * BAR)?;
    let longest = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let room = f64::from(i32::try_from(WIDTH)? - NAMES - FIGURE);
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
        let at = |horizontal| Pos::new(horizontal, VPos::Center);
        area.draw(&Text::new(title.to_owned(), (8, HEAD / 2), text(16).pos(at(HPos::Left))))?;
        for (row, (system, value)) in (0..).zip(bars) {
            let top = HEAD + row * BAR;
            let middle = top + (BAR - GAP) / 2;
            #[expect(clippy::cast_possible_truncation, reason = "less than the width of the picture")]
            let end = NAMES + (room * value / longest).round() as i32;
            let color = if system.is_longhaul() { OWN } else { OTHERS };
            area.draw(&Rectangle::new([(NAMES, top), (end, top + BAR - GAP)], color.filled()))?;
            area.draw(&Text::new(system.name(), (NAMES - 8, middle), text(13).pos(at(HPos::Right))))?;
            area.draw(&Text::new(number(*value), (end + 6, middle), text(13).pos(at(HPos::Left))))?;
        }
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_each_system_that_was_measured_and_its_figure() {
        let systems = [System::Longhaul, System::Restate, System::Dbos];
        let mut table = Table::new(&systems, "Lives per second", "", &["0", "1 step, /s"]);
        table.add(System::Longhaul, 1, 2_000.0);
        table.add(System::Restate, 1, 700.0);
        let [picture] = pictures(&table).try_into().ok().unwrap();
        for text in ["Longhaul, task", "2000", "Restate", "700", "16 at a time"] {
            assert!(picture.svg.contains(text), "{text} is missing: {}", picture.svg);
        }
        assert!(!picture.svg.contains("DBOS"), "{}", picture.svg);
    }
}
