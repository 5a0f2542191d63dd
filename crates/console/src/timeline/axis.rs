//! The axis of time in a picture: proportional where attempts run, shortened where the task waits for long.

use super::{Timeline, Wait};
use crate::limits::FOLDS_MAX;

/// The width of the picture, in its own units.
pub(crate) const WIDTH: f64 = 1_000.0;

/// A wait is shortened if it is longer than this part of all work.
const WORK_PARTS: i64 = 4;

/// Shorter waits are never shortened, in milliseconds.
const FOLD_MIN_MS: i64 = 500;

/// The largest width of a millisecond outside of shortened waits, if there are such waits. A short attempt must not
/// look like a long one.
const SCALE_MAX: f64 = 0.1;

/// The shares of the width for all gaps, and for the least widths of all other pieces.
const SHARE: f64 = 0.32;

/// A piece of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    from_ms: i64,
    to_ms: i64,
    x: f64,
    width: f64,
}

#[derive(Debug)]
pub(crate) struct Axis {
    pieces: Vec<Piece>,
    folded: Vec<Wait>,
}

impl Axis {
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let folded = folded(timeline);
        let mut pieces = Vec::new();
        let mut from_ms = timeline.created_ms;
        for fold in &folded {
            pieces.push((from_ms, fold.from_ms, false));
            pieces.push((fold.from_ms, fold.to_ms, true));
            from_ms = fold.to_ms;
        }
        pieces.push((from_ms, timeline.until_ms, false));
        pieces.retain(|(from_ms, to_ms, _)| to_ms > from_ms);
        Self { pieces: laid_out(&pieces), folded }
    }

    /// The position of a time.
    pub(crate) fn x(&self, ms: i64) -> f64 {
        let piece = self.pieces.iter().find(|piece| ms <= piece.to_ms).or(self.pieces.last());
        let Some(Piece { from_ms, to_ms, x, width }) = piece else { return 0.0 };
        let part = length(ms.clamp(*from_ms, *to_ms) - from_ms) / length(to_ms - from_ms).max(1.0);
        x + part * width
    }

    /// Whether a wait is shorter here than it was.
    pub(crate) fn is_folded(&self, wait: &Wait) -> bool {
        self.folded.contains(wait)
    }
}

/// Milliseconds of a picture, which need not be exact.
#[expect(clippy::cast_precision_loss, reason = "a picture of thousands of years may be a millisecond off")]
pub(super) fn length(ms: i64) -> f64 {
    ms as f64
}

#[expect(clippy::cast_precision_loss, reason = "of some dozens of pieces")]
const fn number(count: usize) -> f64 {
    count as f64
}

/// The waits that are shortened, in their order.
fn folded(timeline: &Timeline) -> Vec<Wait> {
    let work: i64 = timeline
        .attempts
        .iter()
        .map(|attempt| attempt.to_ms.saturating_sub(attempt.from_ms))
        .fold(0, i64::saturating_add);
    let limit = (work / WORK_PARTS).max(FOLD_MIN_MS);
    let duration = |wait: &Wait| wait.to_ms.saturating_sub(wait.from_ms);
    let mut waits: Vec<Wait> = timeline.waits().into_iter().filter(|wait| duration(wait) > limit).collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(duration(wait)));
    waits.truncate(FOLDS_MAX);
    waits.sort_by_key(|wait| wait.from_ms);
    waits
}

/// Gives each piece its width. A piece that is not shortened gets a minimum and the width of its time. Shortened pieces
/// get the rest.
fn laid_out(pieces: &[(i64, i64, bool)]) -> Vec<Piece> {
    let folds = pieces.iter().filter(|(.., is_folded)| *is_folded).count();
    let others = pieces.len() - folds;
    let fold_least = (WIDTH * SHARE / number(folds).max(1.0)).min(64.0);
    let least = (WIDTH * SHARE / number(others).max(1.0)).min(24.0);
    let rest = WIDTH - number(folds) * fold_least - number(others) * least;
    let time = |is_fold: bool| -> f64 {
        let fitting = pieces.iter().filter(|piece| piece.2 == is_fold);
        fitting.map(|(from_ms, to_ms, _)| length(to_ms - from_ms)).sum::<f64>().max(1.0)
    };
    let scale = if folds == 0 { rest / time(false) } else { (rest / time(false)).min(SCALE_MAX) };
    let fold_scale = (rest - scale * time(false)).max(0.0) / time(true);
    let mut x = 0.0;
    let piece = |&(from_ms, to_ms, is_folded): &(i64, i64, bool)| {
        let (least, scale) = if is_folded { (fold_least, fold_scale) } else { (least, scale) };
        let width = least + scale * length(to_ms - from_ms);
        let piece = Piece { from_ms, to_ms, x, width };
        x += width;
        piece
    };
    pieces.iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{long, now_ms};
    use super::*;

    fn line(attempts: i64) -> Timeline {
        Timeline::of(&long(attempts, 1), now_ms(0)).unwrap()
    }

    #[test]
    fn long_waits_are_folded_and_attempts_have_most_of_the_width() {
        for attempts in [2, 3, 16, 40, 300] {
            let line = line(attempts);
            let axis = Axis::of(&line);
            let width: f64 = line.attempts.iter().map(|attempt| axis.x(attempt.to_ms) - axis.x(attempt.from_ms)).sum();
            if attempts <= 40 {
                assert!(width > WIDTH / 2.0, "{attempts} attempts have {width}");
                let folded = line.waits().iter().filter(|wait| axis.is_folded(wait)).count();
                assert!(folded + 1 >= line.attempts.len().min(40), "{folded} folds of {attempts} attempts");
            }
            assert!(axis.folded.len() <= FOLDS_MAX);
        }
    }

    #[test]
    fn the_axis_goes_from_the_beginning_to_the_end_and_never_back() {
        let line = line(40);
        let axis = Axis::of(&line);
        assert!(axis.x(line.created_ms).abs() < 1e-6 && (axis.x(line.until_ms) - WIDTH).abs() < 1e-6);
        let mut moments: Vec<i64> = line.attempts.iter().flat_map(|attempt| [attempt.from_ms, attempt.to_ms]).collect();
        moments.sort_unstable();
        assert!(moments.is_sorted_by(|a, b| axis.x(*a) <= axis.x(*b)));
        assert!(axis.x(i64::MIN).abs() < 1e-6 && (axis.x(i64::MAX) - WIDTH).abs() < 1e-6);
    }

    #[test]
    fn a_short_attempt_beside_a_long_wait_is_narrow() {
        let mut line = line(2);
        line.created_ms = 0;
        line.until_ms = 200_000;
        line.has_ended = false;
        line.attempts.truncate(1);
        for attempt in &mut line.attempts {
            (attempt.from_ms, attempt.to_ms, attempt.held_until_ms) = (100_000, 100_002, 100_002);
        }
        let axis = Axis::of(&line);
        let width = axis.x(100_002) - axis.x(100_000);
        assert!((10.0..50.0).contains(&width), "{width}");
        assert!((axis.x(200_000) - WIDTH).abs() < 1e-6);
        let waited = axis.x(200_000) - axis.x(100_002);
        assert!(waited > WIDTH / 3.0, "{waited}");
    }

    #[test]
    fn a_task_that_was_just_created_has_an_axis() {
        let mut line = line(1);
        line.attempts.clear();
        line.until_ms = line.created_ms;
        assert!(Axis::of(&line).x(line.created_ms).abs() < 1e-6);
    }
}
