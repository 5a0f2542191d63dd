//! The order in which a tool comes to its steps.

use std::collections::{BTreeMap, BTreeSet};

use super::script::Seen;

/// Two steps to which a tool came in one order in one attempt, and in the other order in another one: the first such
/// pair, in the order of `one`. Nothing is said about a tool that had two steps under way at a time: which of its
/// branches gets on first is not decided by the tool.
pub(super) fn swapped<'a>(one: &'a [Seen], other: &[Seen]) -> Option<(&'a str, &'a str)> {
    if has_branches(one) || has_branches(other) {
        return None;
    }
    let places: BTreeMap<&str, usize> = came_to(other).into_iter().zip(0..).collect();
    let common: Vec<(&str, usize)> =
        came_to(one).into_iter().filter_map(|step| Some((step, *places.get(step)?))).collect();
    let pairs = common.iter().zip(common.iter().skip(1));
    let mut swapped = pairs.filter(|((_, first), (_, then))| then < first);
    swapped.next().map(|((first, _), (then, _))| (*first, *then))
}

/// The steps in the order in which the tool came to them, each once: one that failed may be tried again.
fn came_to(attempt: &[Seen]) -> Vec<&str> {
    let mut steps: Vec<&str> = Vec::new();
    for seen in attempt {
        if !steps.contains(&seen.step()) {
            steps.push(seen.step());
        }
    }
    steps
}

/// Whether two steps were under way at a time. One that failed looks as if it still were, and so does one that looks
/// for something.
fn has_branches(attempt: &[Seen]) -> bool {
    let mut under_way = BTreeSet::new();
    attempt.iter().any(|seen| {
        match seen {
            Seen::Replayed(_) => false,
            Seen::Began(step) => under_way.insert(step),
            Seen::Recorded(step) => under_way.remove(step),
        };
        under_way.len() > 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(text: &str) -> Vec<Seen> {
        let seen = |word: &str| match word.split_at(1) {
            ("+", name) => Seen::Began(name.to_owned()),
            ("-", name) => Seen::Recorded(name.to_owned()),
            _ => Seen::Replayed(word.to_owned()),
        };
        text.split_whitespace().map(seen).collect()
    }

    #[test]
    fn steps_one_after_the_other_have_an_order_and_steps_of_branches_have_none() {
        let cases = [
            ("+a -a +b -b", "+b -b +a -a", Some(("a", "b"))),
            ("+a -a +b -b", "a +b -b", None),
            ("+a -a +b -b", "b a", Some(("a", "b"))),
            ("+a -a +b -b +c -c", "a +x -x c b", Some(("b", "c"))),
            ("+a +b -b -a", "b a", None),
            ("a b", "+b +a -a -b", None),
            ("+a +a +a -a +b -b", "+b -b +a +a -a", Some(("a", "b"))),
            ("", "+a -a", None),
        ];
        for (one, other, expected) in cases {
            assert_eq!(swapped(&attempt(one), &attempt(other)), expected, "{one}, then {other}");
        }
    }
}
