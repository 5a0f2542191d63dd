//! Whether the clients' observations and the tools' notes agree with the promises.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use longhaul_chaos::{CHILD_FAILS, DEADLINE};
use longhaul_client::Status;
use serde_json::Value;

use crate::faults::Keys;
use crate::kinds::{self, CANCELLED_STEPS, Kind, child};
use crate::stage::Stage;
use crate::visits::{End, NOT_REPEATED, Visit};

/// The upper ends of the histogram, in milliseconds.
const BUCKETS: [u64; 8] = [250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// So many bytes are shown of an end that breaks a promise.
const SHOWN_BYTES: usize = 2_000;

/// The beginning of a line that names the task.
const TASK: &str = "task ";

/// The notes of a task's tool, and the tools that it called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) own: Vec<String>,
    pub(crate) children: Vec<Vec<String>>,
}

impl Noted {
    /// The notes of one call.
    pub(crate) fn of(stage: &Stage, visit: &Visit) -> Self {
        let (children, _steps) = visit.kind.children().unwrap_or_default();
        let children = (0..children).map(|number| stage.noted(&child(&visit.name, number))).collect();
        Self { own: stage.noted(&visit.name), children }
    }
}

/// The broken promise of one task, given the notes; `None` if all is well.
pub(crate) fn broken(visit: &Visit, all: &Noted, keys: Keys) -> Option<String> {
    let noted = &all.own;
    let end = match &visit.end {
        Ok(end) => end,
        Err(why) => return Some(why.clone()),
    };
    let done = |done: &str| {
        let content = &end.value["structuredContent"];
        (content["name"] == visit.name.as_str() && content["done"] == done).then_some(())
    };
    let has = |line: &str| noted.iter().any(|noted| noted == line);
    let right = match (visit.kind, end.status) {
        (Kind::Steps(steps), Status::Completed) => {
            done(&steps.to_string()).filter(|()| (1..=steps).all(|step| has(&step.to_string())))
        }
        (Kind::Nap(_), Status::Completed) => done("slept").filter(|()| has("before") && has("after")),
        (Kind::Ask, Status::Completed) => done(&visit.name).filter(|()| has("asked")),
        (Kind::Family(children), Status::Completed) => done(&ends(&visit.name, children)).filter(|()| {
            let steps = |(number, noted): (usize, &Vec<String>)| {
                number == CHILD_FAILS as usize || ["1", "2"].iter().all(|step| noted.iter().any(|line| line == step))
            };
            all.children.iter().enumerate().all(steps)
        }),
        (Kind::Callback, Status::Completed) => done(&visit.name),
        (Kind::Kept(kib), Status::Completed) => {
            done(&kinds::text(&visit.name, kib)).filter(|()| has("kept") && has("after"))
        }
        (Kind::Late, Status::Failed) => {
            let is_in_time = visit.ended - visit.begun >= DEADLINE;
            (is_in_time && end.value.to_string().contains(&late())).then_some(())
        }
        (Kind::Fail, _) => end.value.to_string().contains("fails, as it should").then_some(()),
        (Kind::Cancelled(_) | Kind::CancelledFamily(_), Status::Cancelled) => Some(()),
        // It had ended before.
        (Kind::CancelledFamily(_), Status::Completed) => {
            (end.value["structuredContent"]["name"] == visit.name.as_str()).then_some(())
        }
        (Kind::Cancelled(_), Status::Completed) => done(&CANCELLED_STEPS.to_string()),
        // The notes of the other systems decide about jobs.
        (Kind::Job(_), _) => Some(()),
        (Kind::Write, _) => written(end, noted.len(), &visit.name),
        (Kind::Look, Status::Completed) => {
            end.value.to_string().contains(&format!("look {}", visit.name)).then_some(())
        }
        _ => None,
    };
    let right = right.filter(|()| is_one_task(all, keys));
    right.is_none().then(|| {
        let value = end.value.to_string();
        let shown = &value[..value.floor_char_boundary(SHOWN_BYTES)];
        format!("ends as {:?} with {shown} ({} bytes); noted: {all:?}", end.status, value.len())
    })
}

/// The sentence about a task that did not end in time.
fn late() -> String {
    format!("did not end within the {} ms", DEADLINE.as_millis())
}

/// The ends of the calls of a family, as its result has them: in order, and with the one that fails.
fn ends(name: &str, children: u64) -> String {
    let end = |number: u64| {
        let child = child(name, number);
        if number == u64::from(CHILD_FAILS) {
            return format!("{child} fails, as it should");
        }
        serde_json::json!({"name": child, "done": longhaul_chaos::CHILD_STEPS.to_string()}).to_string()
    };
    (0..children).map(end).collect::<Vec<_>>().join("\n")
}

/// The tasks that ran under one name.
pub(crate) fn tasks(noted: &[String]) -> BTreeSet<&str> {
    noted.iter().filter_map(|line| line.strip_prefix(TASK)).collect()
}

/// A call is one task, even if it was sent again. The same applies to each call of a tool in each task.
fn is_one_task(all: &Noted, keys: Keys) -> bool {
    let own = tasks(&all.own).len();
    (own <= 1 || keys == Keys::Refused) && all.children.iter().all(|noted| tasks(noted).len() <= own)
}

/// The broken promises of the tasks of a schedule that is due every minute. It was watched between these times, in
/// seconds since 1970. A task's id begins with the time at which it was due.
pub(crate) fn schedule_broken(ids: &BTreeSet<&str>, from_s: u64, to_s: u64) -> Option<String> {
    let minute = |id: &&str| Some(u64::from_str_radix(id.replace('-', "").get(..12)?, 16).ok()? / 60_000);
    let minutes: Vec<u64> = ids.iter().filter_map(minute).collect();
    let distinct: BTreeSet<u64> = minutes.iter().copied().collect();
    let due = from_s / 60 + 1..=to_s / 60;
    let missed: Vec<u64> = due.clone().filter(|minute| !distinct.contains(minute)).collect();
    let is_right = minutes.len() == ids.len() && distinct.len() == ids.len() && missed.is_empty();
    (!is_right)
        .then(|| format!("the schedule ran as {ids:?}; the minutes {due:?} were due, and {missed:?} are missing"))
}

/// A call that must not be repeated was carried out once, or it is not known whether it was.
fn written(end: &End, times: usize, name: &str) -> Option<()> {
    let text = end.value.to_string();
    let is_answered = end.status == Status::Completed && text.contains(&format!("write {name}"));
    (times == 1 && is_answered || times <= 1 && !is_answered && text.contains(NOT_REPEATED)).then_some(())
}

/// How often steps were run more than once, because of a kill before their record.
pub(crate) fn repeated(noted: &[String]) -> usize {
    let mut times: BTreeMap<&String, usize> = BTreeMap::new();
    for line in noted.iter().filter(|line| !line.starts_with(TASK)) {
        *times.entry(line).or_default() += 1;
    }
    times.values().map(|times| times - 1).sum()
}

/// How long it took from each fault to the next end of a task that was there when it happened.
pub(crate) fn recoveries(faults: &[Instant], visits: &[Visit]) -> Vec<Duration> {
    let next_end = |fault: &Instant| {
        let hit = visits.iter().filter(|visit| visit.begun <= *fault && visit.ended > *fault);
        hit.map(|visit| visit.ended - *fault).min()
    };
    faults.iter().filter_map(next_end).collect()
}

/// The middle and the longest of these times, in seconds.
pub(crate) fn middle_and_longest(times: &[Duration]) -> Option<(f64, f64)> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    Some((sorted.get(sorted.len() / 2)?.as_secs_f64(), sorted.last()?.as_secs_f64()))
}

/// The shortest, the middle and the longest of these times.
pub(crate) fn summary(times: &[Duration]) -> String {
    match (times.iter().min(), middle_and_longest(times)) {
        (Some(first), Some((middle, longest))) => {
            let first = first.as_secs_f64();
            format!("{first:.1} s, {middle:.1} s and {longest:.1} s at least, in the middle, and at most")
        }
        _ => "and no task was hit".to_owned(),
    }
}

/// The histogram of these times, a line for each bucket.
pub(crate) fn histogram(times: &[Duration]) -> Vec<String> {
    let ms = |time: &Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut from = 0;
    let mut lines = Vec::new();
    for to in BUCKETS.into_iter().chain([u64::MAX]) {
        let count = times.iter().filter(|time| (from..to).contains(&ms(time))).count();
        let label = if to == u64::MAX { "longer".to_owned() } else { format!("< {} s", to as f64 / 1_000.0) };
        lines.push(format!("{label:>9}  {count:>5}  {}", "▇".repeat(count.min(60))));
        from = to;
    }
    lines
}

/// Whether a task that has ended is seen to have ended in another way.
pub(crate) fn differs(first: &End, now: Option<&End>) -> Option<String> {
    let stable = |value: &Value| value["structuredContent"].clone();
    match now {
        Some(now) if now.status == first.status && stable(&now.value) == stable(&first.value) => None,
        now => Some(format!("ended as {first:?}, and now it is {now:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn visit(kind: Kind, status: Status, value: Value) -> Visit {
        let now = Instant::now();
        Visit { name: "a".to_owned(), kind, id: None, begun: now, ended: now, end: Ok(End { status, value }) }
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn broken(visit: &Visit, own: &[String]) -> Option<String> {
        super::broken(visit, &Noted { own: own.to_vec(), children: Vec::new() }, Keys::Taken)
    }

    #[test]
    fn a_call_that_becomes_two_tasks_is_found() {
        let steps = visit(Kind::Steps(1), Status::Completed, json!({"structuredContent": {"name": "a", "done": "1"}}));
        assert_eq!(broken(&steps, &lines(&["task 1", "1", "task 1"])), None);
        assert!(broken(&steps, &lines(&["task 1", "1", "task 2", "1"])).is_some());
        let twice = Noted { own: lines(&["task 1", "1", "task 2", "1"]), children: Vec::new() };
        assert_eq!(super::broken(&steps, &twice, Keys::Refused), None);
        assert_eq!(repeated(&lines(&["task 1", "1", "task 1"])), 0);
    }

    #[test]
    fn calls_of_a_tool_that_are_lost_doubled_or_out_of_order_are_found() {
        let first = json!({"name": "a.0", "done": "2"}).to_string();
        let ends = |ends: &[&str]| json!({"structuredContent": {"name": "a", "done": ends.join("\n")}});
        let right = visit(Kind::Family(2), Status::Completed, ends(&[&first, "a.1 fails, as it should"]));
        let own = lines(&["task 1"]);
        let noted = |first: &[&str]| Noted { own: own.clone(), children: vec![lines(first), lines(&["tried"])] };
        let broken = |visit, noted| super::broken(visit, &noted, Keys::Taken);
        assert_eq!(broken(&right, noted(&["task 2", "1", "2", "2"])), None);
        assert!(broken(&right, noted(&["task 2", "1"])).is_some());
        assert!(broken(&right, noted(&["task 2", "1", "2", "task 3"])).is_some());
        let swapped = visit(Kind::Family(2), Status::Completed, ends(&["a.1 fails, as it should", &first]));
        assert!(broken(&swapped, noted(&["task 2", "1", "2"])).is_some());
    }

    #[test]
    fn a_time_of_a_schedule_that_is_missing_or_there_twice_is_found() {
        let id = |minute: u64, rest: u32| {
            let ms = format!("{:012x}", minute * 60_000);
            format!("{}-{}-7000-8000-{rest:012}", &ms[..8], &ms[8..])
        };
        let check = |ids: &[String]| schedule_broken(&ids.iter().map(String::as_str).collect(), 599, 725);
        assert_eq!(check(&[id(10, 1), id(11, 1), id(12, 1)]), None);
        assert_eq!(check(&[id(10, 1), id(11, 1), id(12, 1), id(13, 1)]), None);
        assert!(check(&[id(10, 1), id(12, 1)]).is_some());
        assert!(check(&[id(10, 1), id(11, 1), id(11, 2), id(12, 1)]).is_some());
    }

    #[test]
    fn a_step_that_is_missing_or_another_result_is_found() {
        let result = |done: &str| json!({"structuredContent": {"name": "a", "done": done}});
        let steps = |done, status| visit(Kind::Steps(2), status, result(done));
        assert_eq!(broken(&steps("2", Status::Completed), &lines(&["1", "1", "2"])), None);
        assert!(broken(&steps("2", Status::Completed), &lines(&["1"])).is_some());
        assert!(broken(&steps("3", Status::Completed), &lines(&["1", "2"])).is_some());
        assert!(broken(&steps("2", Status::Failed), &lines(&["1", "2"])).is_some());
        assert_eq!(repeated(&lines(&["1", "1", "2", "1"])), 2);
    }

    #[test]
    fn a_text_that_was_cut_or_mixed_up_is_found() {
        let kept = |text: &str| {
            visit(Kind::Kept(400), Status::Completed, json!({"structuredContent": {"name": "a", "done": text}}))
        };
        let text = kinds::text("a", 400);
        let noted = lines(&["task 1", "kept", "after"]);
        assert_eq!(broken(&kept(&text), &noted), None);
        let cut = text.strip_suffix(|_last| true).unwrap_or_default();
        assert!(broken(&kept(cut), &noted).is_some_and(|what| what.len() < 3_000));
        assert!(broken(&kept(&kinds::text("b", 400)), &noted).is_some());
        assert!(broken(&kept(&text), &noted[..2]).is_some());
    }

    #[test]
    fn a_task_that_fails_before_its_deadline_or_goes_on_after_it_is_found() {
        let ends = |status, after| {
            let visit = visit(Kind::Late, status, json!(format!("{} that the tool may take", late())));
            broken(&Visit { ended: visit.begun + after, ..visit }, &lines(&["task 1", "1"]))
        };
        assert_eq!(ends(Status::Failed, DEADLINE), None);
        assert!(ends(Status::Failed, DEADLINE / 2).is_some());
        assert!(ends(Status::Completed, DEADLINE).is_some());
        let other = visit(Kind::Late, Status::Failed, json!("no retries are left"));
        assert!(broken(&Visit { ended: other.begun + DEADLINE, ..other }, &[]).is_some());
    }

    #[test]
    fn what_must_not_be_repeated_was_not() {
        let answered = |times| {
            let visit =
                visit(Kind::Write, Status::Completed, json!({"content": [{"type": "text", "text": "write a"}]}));
            broken(&visit, &vec!["written".to_owned(); times])
        };
        assert!(answered(0).is_some() && answered(1).is_none() && answered(2).is_some());
        let unknown = |times| {
            let visit = visit(Kind::Write, Status::Failed, json!("may have been carried out; it was not repeated"));
            broken(&visit, &vec!["written".to_owned(); times])
        };
        assert!(unknown(0).is_none() && unknown(1).is_none() && unknown(2).is_some());
        assert!(broken(&visit(Kind::Write, Status::Failed, json!("something else")), &[]).is_some());
    }

    #[test]
    fn a_task_without_an_end_is_found_and_one_that_ends_twice() {
        let unended = Visit { end: Err("has not ended".to_owned()), ..visit(Kind::Ask, Status::Working, Value::Null) };
        assert_eq!(broken(&unended, &[]).as_deref(), Some("has not ended"));
        let end = |status| End { status, value: Value::Null };
        assert_eq!(differs(&end(Status::Completed), Some(&end(Status::Completed))), None);
        assert!(differs(&end(Status::Completed), Some(&end(Status::Failed))).is_some());
        assert!(differs(&end(Status::Completed), None).is_some());
    }

    #[test]
    fn a_recovery_is_the_first_end_of_what_was_hit() {
        let now = Instant::now();
        let at = |from, to| Visit {
            begun: now + Duration::from_secs(from),
            ended: now + Duration::from_secs(to),
            ..visit(Kind::Ask, Status::Completed, Value::Null)
        };
        let visits = [at(0, 9), at(0, 4), at(3, 4), at(0, 1)];
        assert_eq!(recoveries(&[now + Duration::from_secs(2)], &visits), [Duration::from_secs(2)]);
        assert_eq!(recoveries(&[now + Duration::from_secs(10)], &visits), Vec::<Duration>::new());
        assert!(histogram(&[Duration::from_secs(2)]).iter().any(|line| line.contains("< 5 s") && line.contains('▇')));
    }
}
