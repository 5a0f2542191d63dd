//! Whether each job was started once, its result arrived, and jobs that no task waits for were stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use longhaul_client::Status;

use crate::faults::Keys;
use crate::jobs::{Ending, Job, System};
use crate::stage::Stage;
use crate::visits::{End, NOT_STARTED_AGAIN, Visit};

/// How long it may take until a job is stopped whose task has ended.
const STOP_MAX: Duration = Duration::from_secs(90);

/// The systems' notes of the jobs of one call.
#[derive(Debug, Default)]
struct Noted<'a> {
    /// The keys of starts that arrived, including those that started nothing.
    asked: Vec<&'a str>,
    /// Key and id of each job.
    started: Vec<(&'a str, &'a str)>,
    /// How jobs have ended, by their ids.
    ended: Vec<(&'a str, &'a str)>,
    /// The jobs whose results were accepted as values of callbacks.
    accepted: Vec<&'a str>,
}

impl<'a> Noted<'a> {
    fn of(lines: &'a [String]) -> Self {
        let mut noted = Self::default();
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["asked", key] => noted.asked.push(key),
                ["started", key, id] => noted.started.push((key, id)),
                ["accepted", id] => noted.accepted.push(id),
                [end, id] => noted.ended.push((end, id)),
                _ => {}
            }
        }
        noted
    }

    fn has_ended(&self, id: &str, end: &str) -> bool {
        self.ended.contains(&(end, id))
    }

    /// How many starts arrived that started nothing, because the job was there.
    fn repeated(&self) -> usize {
        self.asked.len().saturating_sub(self.started.len())
    }
}

/// The broken promises of the jobs of one call.
fn broken(job: Job, visit: &Visit, lines: &[String], keys: Keys) -> Option<String> {
    let Ok(end) = &visit.end else { return None };
    let noted = Noted::of(lines);
    let right = once(&noted, keys) && ended(job, visit, end, &noted);
    (!right).then(|| format!("{job:?} ends as {:?} with {}; the systems noted: {lines:?}", end.status, end.value))
}

/// Each task has at most one job, and each job sends its result at most once.
fn once(noted: &Noted<'_>, keys: Keys) -> bool {
    let of: BTreeSet<&str> = noted.started.iter().map(|(key, _)| *key).collect();
    let brought: BTreeSet<&str> = noted.accepted.iter().copied().collect();
    let is_one = of.len() == noted.started.len() && brought.len() == noted.accepted.len();
    is_one && (of.len() <= 1 || keys == Keys::Refused)
}

/// The end of the call is that of its job.
fn ended(job: Job, visit: &Visit, end: &End, noted: &Noted<'_>) -> bool {
    let is_of_this_task = |key: &str| visit.id.as_deref().is_none_or(|id| key.ends_with(id));
    let mut own = noted.started.iter().filter(|(key, _)| is_of_this_task(key)).map(|(_, id)| *id);
    let content = &end.value["structuredContent"];
    let says = |id: &str| {
        let done = if job.system == System::Execution { id.to_owned() } else { format!("job {id}") };
        content["name"] == visit.name.as_str() && content["done"] == done
    };
    match (job.ending, end.status) {
        (Ending::Done, Status::Completed) => own.any(|id| says(id) && noted.has_ended(id, "done")),
        (Ending::Failed, Status::Completed) => {
            let text = end.value.to_string();
            text.contains("it fails, as it should") && own.any(|id| noted.has_ended(id, "failed"))
        }
        // No job continues after its task has ended.
        (Ending::Cancelled(_), Status::Cancelled) => own.all(|id| noted.ended.iter().any(|(_, ended)| *ended == id)),
        // It is not known whether it was started, so that it was not started again.
        (Ending::Done | Ending::Failed | Ending::Cancelled(_), Status::Failed) => {
            job.system == System::Once && is_unknown(end)
        }
        (Ending::Done | Ending::Failed | Ending::Cancelled(_), _) => false,
    }
}

fn is_unknown(end: &End) -> bool {
    end.value.to_string().contains(NOT_STARTED_AGAIN)
}

/// The systems' notes, by the names of the calls.
type Ledger = BTreeMap<String, Vec<String>>;

async fn ledger(stage: &Stage, visits: &[Visit]) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::new();
    for (visit, _) in of(visits) {
        ledger.insert(visit.name.clone(), stage.noted(&format!("{}.jobs", visit.name)));
    }
    for (name, line) in stage.executions().await? {
        ledger.entry(name).or_default().push(line);
    }
    Ok(ledger)
}

fn of(visits: &[Visit]) -> impl Iterator<Item = (&Visit, Job)> {
    visits.iter().filter_map(|visit| Some((visit, visit.kind.job()?)))
}

/// Waits for the last stops, and returns the broken promises.
pub(crate) async fn check(stage: &Stage, visits: &[Visit], keys: Keys) -> anyhow::Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        let ledger = ledger(stage, visits).await?;
        let wrong = |(visit, job): (&Visit, Job)| {
            let wrong = broken(job, visit, ledger.get(&visit.name)?, keys)?;
            Some(format!("{} {} ({:?}) {wrong}", job.name(), visit.name, visit.id))
        };
        let wrong: Vec<String> = of(visits).filter_map(wrong).collect();
        if wrong.is_empty() || begun.elapsed() > STOP_MAX {
            println!("  {}", summary(&ledger, visits));
            return Ok(wrong);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn summary(ledger: &Ledger, visits: &[Visit]) -> String {
    let all: Vec<Noted<'_>> = ledger.values().map(|lines| Noted::of(lines)).collect();
    let started: usize = all.iter().map(|noted| noted.started.len()).sum();
    let repeated: usize = all.iter().map(Noted::repeated).sum();
    let ended = |end: &str| all.iter().flat_map(|noted| &noted.ended).filter(|(is, _)| *is == end).count();
    let unknown = || of(visits).map(|(visit, _)| visit).filter(|visit| visit.end.as_ref().is_ok_and(is_unknown));
    let has_job = |visit: &&Visit| ledger.get(&visit.name).is_some_and(|lines| !Noted::of(lines).started.is_empty());
    let (not_repeated, there) = (unknown().count(), unknown().filter(has_job).count());
    format!(
        "{started} external jobs: {} done, {} failed, {} stopped. {repeated} starts repeated to a system that \
         recognises them, \
         {not_repeated} not repeated to one that does not, of which {there} had started a job",
        ended("done"),
        ended("failed"),
        ended("stopped"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::Kind;

    const ID: &str = "01a20865-b505-72d6-a2ec-4c413b1088a3";

    fn job(system: System, ending: Ending) -> Job {
        Job { system, ending, seconds: 1 }
    }

    fn check(job: Job, status: Status, value: Value, lines: &[&str]) -> Option<String> {
        let (now, id) = (Instant::now(), Some(ID.to_owned()));
        let end = Ok(End { status, value });
        let visit = Visit { name: "a".to_owned(), kind: Kind::Job(job), id, begun: now, ended: now, end };
        let lines: Vec<String> = lines.iter().map(|line| line.replace("KEY", &format!("owner.{ID}"))).collect();
        broken(job, &visit, &lines, Keys::Taken)
    }

    fn done(done: &str) -> Value {
        json!({"structuredContent": {"name": "a", "done": done}})
    }

    #[test]
    fn a_job_that_is_started_twice_is_found_and_a_start_that_is_recognised_is_right() {
        let check =
            |lines: &[&str]| check(job(System::Repeatable, Ending::Done), Status::Completed, done("job 1"), lines);
        assert_eq!(check(&["asked KEY", "started KEY 1", "asked KEY", "done 1"]), None);
        assert!(check(&["asked KEY", "started KEY 1", "asked KEY", "started KEY 2", "done 1", "done 2"]).is_some());
        assert!(check(&["asked KEY", "started KEY 1", "asked other", "started other 2", "done 1"]).is_some());
    }

    #[test]
    fn a_result_that_is_lost_or_that_of_another_job_is_found() {
        let check = |value, lines: &[&str]| check(job(System::Once, Ending::Done), Status::Completed, value, lines);
        let lines = ["asked KEY", "started KEY 1", "done 1"];
        assert_eq!(check(done("job 1"), &lines), None);
        assert!(check(done("job 2"), &lines).is_some());
        assert!(check(Value::Null, &lines).is_some());
        assert!(check(done("job 1"), &["asked KEY", "started KEY 1"]).is_some());
        assert!(check(done("job 1"), &["asked other", "started other 1", "done 1"]).is_some());
    }

    #[test]
    fn a_value_that_is_taken_twice_is_found() {
        let check =
            |lines: &[&str]| check(job(System::CallsBack, Ending::Done), Status::Completed, done("job 1"), lines);
        assert_eq!(check(&["asked KEY", "started KEY 1", "done 1", "accepted 1"]), None);
        assert!(check(&["asked KEY", "started KEY 1", "done 1", "accepted 1", "accepted 1"]).is_some());
    }

    #[test]
    fn a_job_that_goes_on_although_its_task_was_cancelled_is_found() {
        let check =
            |lines: &[&str]| check(job(System::Execution, Ending::Cancelled(1)), Status::Cancelled, Value::Null, lines);
        assert_eq!(check(&[]), None);
        assert_eq!(check(&["started KEY 1", "stopped 1"]), None);
        assert!(check(&["started KEY 1"]).is_some());
    }

    #[test]
    fn only_a_start_that_must_not_be_repeated_may_be_unknown() {
        let check =
            |system, value: Value, lines: &[&str]| check(job(system, Ending::Done), Status::Failed, value, lines);
        let unknown = json!("the job may have been started; it was not started again: no answer");
        assert_eq!(check(System::Once, unknown.clone(), &[]), None);
        assert!(check(System::Once, json!("something else"), &[]).is_some());
        assert!(check(System::Repeatable, unknown.clone(), &[]).is_some());
        assert!(check(System::Once, unknown, &["started KEY 1", "started KEY 2"]).is_some());
    }

    #[test]
    fn a_failure_is_that_of_the_job() {
        let check =
            |value: Value, lines: &[&str]| check(job(System::Once, Ending::Failed), Status::Completed, value, lines);
        let text = json!({"isError": true, "content": [{"text": "the job failed (failed): it fails, as it should"}]});
        assert_eq!(check(text.clone(), &["asked KEY", "started KEY 1", "failed 1"]), None);
        assert!(check(text, &["asked KEY", "started KEY 1", "done 1"]).is_some());
        assert!(check(done("job 1"), &["asked KEY", "started KEY 1", "failed 1"]).is_some());
    }
}
