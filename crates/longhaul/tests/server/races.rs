//! Timeouts and races, as an author writes and tests them.
#![expect(clippy::excessive_nesting, reason = "a tool with branches consists of futures in futures")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::rmcp::{ErrorData, schemars};
use longhaul::testing::{self, Call, State};
use longhaul::{Answer, TaskContext, TimedOut};
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3_600);

/// Something that is booked within an hour, and confirmed after a while.
async fn booked(task: &TaskContext, bookings: Arc<Mutex<Vec<String>>>, confirmed: Duration) -> Result<(), ErrorData> {
    let taken = Arc::clone(&bookings);
    let hotel = move || {
        let mut bookings = taken.lock().unwrap();
        bookings.retain(|booked| booked != "hotel");
        bookings.push("hotel".to_owned());
        async { Ok::<_, ErrorData>(()) }
    };
    let cancel = move || {
        bookings.lock().unwrap().clear();
        async { Ok::<_, ErrorData>(()) }
    };
    task.on_failure("cancel the hotel", cancel).await;
    task.try_step("hotel", hotel).await?;
    task.sleep("until it is confirmed", confirmed).await;
    Ok(())
}

fn booking(bookings: &Arc<Mutex<Vec<String>>>, confirmed: Duration) -> Call {
    let bookings = Arc::clone(bookings);
    testing::tool(move |task: TaskContext| {
        let bookings = Arc::clone(&bookings);
        async move {
            task.timeout("booking", HOUR, booked(&task, bookings, confirmed)).await??;
            task.step("travel", async || ()).await;
            Ok::<_, ErrorData>("travelled".to_owned())
        }
    })
}

#[tokio::test]
async fn a_tool_that_is_in_time_goes_on_and_one_that_is_not_is_undone() {
    let bookings = Arc::default();
    let run = booking(&bookings, HOUR / 2).to_end().await.unwrap();
    run.assert_text("travelled");
    assert_eq!(*bookings.lock().unwrap(), ["hotel"]);

    let bookings = Arc::default();
    let run = booking(&bookings, 2 * HOUR).expect_failure().to_end().await.unwrap();
    run.assert_error("the timeout `booking` has elapsed, 3600000 ms after it began");
    assert!(bookings.lock().unwrap().is_empty(), "{}", run.report());
    assert_eq!((run.times("hotel"), run.times("cancel the hotel")), (1, 1), "{}", run.report());
}

#[tokio::test]
async fn a_timeout_ends_the_same_way_after_every_crash() {
    booking(&Arc::default(), HOUR / 2).crash_everywhere().await.unwrap();
    booking(&Arc::default(), 2 * HOUR).expect_failure().crash_everywhere().await.unwrap();
}

/// Two suppliers that take their time, of which the second is faster.
async fn fastest(task: TaskContext) -> String {
    let suppliers = [("north", 3), ("south", 2)].map(|(supplier, hours)| {
        let task = task.clone();
        async move {
            task.step(&format!("ask {supplier}"), async || ()).await;
            task.sleep("answer", hours * HOUR).await;
            supplier
        }
    });
    let supplier = task.race("supplier", suppliers).await;
    task.sleep("answer", HOUR).await;
    task.step("order", async || supplier.to_owned()).await
}

#[tokio::test]
async fn a_race_has_the_same_winner_after_every_crash() {
    let run = testing::tool(fastest).to_end().await.unwrap();
    run.assert_text("south");
    assert_eq!(run.elapsed(), 3 * HOUR, "{}", run.report());
    assert_eq!((run.times("ask north"), run.times("ask south")), (1, 1));
    testing::tool(fastest).crash_everywhere().await.unwrap();
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approval {
    /// Refund this order?
    approved: bool,
}

/// The approval of the recipe.
async fn approved(task: TaskContext) -> Result<String, ErrorData> {
    let mut question = Box::pin(task.ask::<Approval>("approve", "The order was 120 euros."));
    for number in 1..=2 {
        match task.timeout(&format!("answer {number}"), 24 * HOUR / 3, &mut question).await {
            Ok(answer) => {
                let approved = matches!(answer?, Answer::Accepted(Approval { approved: true }));
                return Ok(format!("{approved} after {number}"));
            }
            Err(TimedOut { .. }) => task.step(&format!("reminder {number}"), async || ()).await,
        }
    }
    Ok("nobody answered".to_owned())
}

#[tokio::test]
async fn a_question_stays_open_while_its_timeouts_end() {
    let mut running = testing::tool(approved).begin().await.unwrap();
    running.work().await.unwrap();
    running.pass(9 * HOUR);
    let state = running.work().await.unwrap();
    assert!(matches!(state, State::Asks(_)), "{state:?}");
    running.answer("approve", json!({"approved": true})).await.unwrap();
    running.to_end().await.unwrap().assert_text("true after 2");

    let mut running = testing::tool(approved).begin().await.unwrap();
    for _ in 0..2 {
        running.work().await.unwrap();
        running.pass(9 * HOUR);
    }
    let run = running.to_end().await.unwrap();
    run.assert_text("nobody answered");
    assert_eq!((run.times("reminder 1"), run.times("reminder 2")), (1, 1));
}

#[tokio::test]
async fn a_question_that_outlives_a_timeout_has_the_same_answer_after_every_crash() {
    let answered = json!({"approved": true});
    let run = testing::tool(approved).answer("approve", answered.clone());
    run.clone().to_end().await.unwrap().assert_text("true after 1");
    run.crash_everywhere().await.unwrap();
    // The first part of this work is done within one timeout, and the rest within another one.
    let parts = testing::tool(|task: TaskContext| async move {
        let mut work = Box::pin(async {
            task.step("order", async || ()).await;
            task.sleep("delivery", HOUR * 5 / 2).await;
            task.step("unpack", async || ()).await;
        });
        for number in 1..9 {
            if task.timeout(&format!("part {number}"), HOUR, &mut work).await.is_ok() {
                return number.to_string();
            }
            task.step(&format!("report {number}"), async || ()).await;
        }
        String::new()
    });
    parts.clone().to_end().await.unwrap().assert_text("3");
    parts.crash_everywhere().await.unwrap();
}

/// A race in each round of a loop, whose branches race too.
async fn rounds(task: TaskContext) -> String {
    let mut winners = String::new();
    for round in 1..=2 {
        let branches = [2, 1].map(|number| {
            let task = task.clone();
            async move {
                let naps = [3, 2].map(|hours| {
                    let task = task.clone();
                    async move {
                        task.sleep("nap", hours * HOUR * number).await;
                        hours
                    }
                });
                let hours = task.race(&format!("inner {round} {number}"), naps).await;
                task.step(&format!("after {round} {number}"), async || format!("{number}.{hours} ")).await
            }
        });
        winners += &task.race(&format!("outer {round}"), branches).await;
        task.step(&format!("round {round}"), async || ()).await;
    }
    winners
}

#[tokio::test]
async fn races_in_races_in_a_loop_end_the_same_way_after_every_crash() {
    let run = testing::tool(rounds).to_end().await.unwrap();
    run.assert_text("1.2 1.2 ");
    assert_eq!((run.elapsed(), run.times("after 1 2")), (4 * HOUR, 0), "{}", run.report());
    testing::tool(rounds).crash_everywhere().await.unwrap();
}

/// Two bookings race, and then the task fails: both are undone.
async fn two_bookings(task: TaskContext) -> Result<String, ErrorData> {
    let bookings = [("hotel", 2), ("hostel", 1)].map(|(place, hours)| {
        let task = task.clone();
        async move {
            task.on_failure(&format!("cancel the {place}"), async || Ok::<_, ErrorData>(())).await;
            task.try_step(place, async || Ok::<_, ErrorData>(())).await?;
            task.sleep("confirmed", hours * HOUR).await;
            task.on_failure(&format!("send the {place} home"), async || Ok::<_, ErrorData>(())).await;
            task.try_step(&format!("pay the {place}"), async || Ok::<_, ErrorData>(())).await
        }
    });
    task.race("booked", bookings).await?;
    task.sleep("travel", 5 * HOUR).await;
    Err(ErrorData::internal_error("it rained", None))
}

#[tokio::test]
async fn a_branch_that_lost_is_undone_as_far_as_it_came() {
    let run = testing::tool(two_bookings).expect_failure().to_end().await.unwrap();
    let times =
        ["cancel the hotel", "cancel the hostel", "send the hostel home", "send the hotel home", "pay the hotel"];
    assert_eq!(times.map(|step| run.times(step)), [1, 1, 1, 0, 0], "{}", run.report());
    testing::tool(two_bookings).expect_failure().crash_everywhere().await.unwrap();
}

#[tokio::test]
async fn two_of_one_name_and_a_race_of_nothing_fail_with_a_sentence() {
    let twice = testing::tool(|task: TaskContext| async move {
        task.race("first", [async {}]).await;
        task.timeout("first", HOUR, async {}).await.is_ok().to_string()
    });
    let said = "two of the tool's steps, races and timeouts have the name `first`; give each its own";
    twice.expect_failure().to_end().await.unwrap().assert_error(said);
    let empty = testing::tool(|task: TaskContext| async move {
        task.race("first", Vec::<std::future::Ready<()>>::new()).await;
        String::new()
    });
    let said = "the race `first` has no branches: give it at least one";
    empty.expect_failure().to_end().await.unwrap().assert_error(said);
    let long = testing::tool(|task: TaskContext| async move {
        task.timeout("too long", 25 * HOUR, async {}).await.is_ok().to_string()
    });
    let said = "the timeout `too long` would take 90000000 ms, and the task has 86400000 ms left";
    long.expect_failure().to_end().await.unwrap().assert_error(said);
}
