//! The promise of every store of permits: it answers what the model answers, for any order of calls.

use longhaul_core::ports::{AttemptPermit, AttemptPermits, Taken};
use longhaul_core::{LeaseToken, OwnerId, PermitGroup, TaskKey, Turn};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::given::{self, NOW, owner};
use crate::{FakePermits, SeededIds, block_on};

/// A verb of a worker.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Take,
    /// The permit of the attempt with this lease.
    TakeOver(u8),
    GiveBack,
}

/// One call: what, whose, of which group, of which task and which attempt, and how long after the one before.
type Call = (Ask, u8, u8, u64, u8, u64);

/// A lease belongs to one attempt, whose permit has one end.
fn permit(owner: OwnerId, group: u8, number: u64, lease: u8) -> AttemptPermit {
    let group = match group {
        0 => PermitGroup::Owner(owner),
        1 => PermitGroup::Running([7; 32]),
        _ => PermitGroup::Begun([8; 32]),
    };
    // Two owners may have tasks of the same id.
    let task = TaskKey::new(owner, given::task(&SeededIds::new(number), owner, NOW).id);
    let until = NOW.plus_ms(u64::from(lease) * 300 + number * 37);
    let since = NOW.plus_ms(u64::from(lease));
    let turn = Turn { priority: u8::from(number == 4), since: NOW.plus_ms(number) };
    let turn = matches!(group, PermitGroup::Running(_)).then_some(turn);
    AttemptPermit { group, task, lease: LeaseToken::from_random([lease; 16]), since, until, turn }
}

async fn same_answers(permits: &dyn AttemptPermits, max: u32, calls: &[Call]) -> Result<(), TestCaseError> {
    let (model, mut now) = (FakePermits::default(), NOW);
    for (ask, who, group, number, lease, passes_ms) in calls {
        now = now.plus_ms(*passes_ms);
        let owner = owner(if *who == 0 { "alice" } else { "bob" });
        let asked = permit(owner, *group, *number, *lease);
        let answer = async |of: &dyn AttemptPermits| -> Result<Taken, Option<TaskKey>> {
            match ask {
                Ask::Take => Ok(of.take(&asked, max, now).await.unwrap()),
                Ask::TakeOver(held) => {
                    Ok(of.take_over(&asked, &permit(owner, *group, *number, *held).stored(), max, now).await.unwrap())
                }
                Ask::GiveBack => Err(of.give_back(&asked, now).await.unwrap()),
            }
        };
        prop_assert_eq!(answer(permits).await, answer(&model).await, "{:?} {:?} at {:?}", ask, asked, now);
    }
    Ok(())
}

/// A task waits when the permit of another one expires, which an attempt then wants to take over.
const EXPIRED_AND_AWAITED: [Call; 3] =
    [(Ask::Take, 0, 1, 1, 2, 0), (Ask::Take, 0, 1, 0, 1, 0), (Ask::TakeOver(2), 0, 1, 1, 1, 637)];

/// Promise: any order of calls is answered as the model answers. Each of the `cases` gets permits of its own.
pub fn permits_answer_as_the_model<F, P>(cases: u32, make: impl Fn() -> F)
where
    F: Future<Output = P>,
    P: AttemptPermits,
{
    block_on(async { same_answers(&make().await, 1, &EXPIRED_AND_AWAITED).await }).unwrap();
    let ask = prop_oneof![4 => Just(Ask::Take), 2 => (0_u8..4).prop_map(Ask::TakeOver), 2 => Just(Ask::GiveBack)];
    let call = (ask, 0..2_u8, 0..3_u8, 0..5_u64, 1..4_u8, 0..60_u64);
    // All workers have the same limit.
    let run = (1..4_u32, prop::collection::vec(call, 1..60));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let test = |(max, calls): (u32, Vec<Call>)| {
        block_on(async {
            let permits = make().await;
            same_answers(&permits, max, &calls).await
        })
    };
    runner.run(&run, test).unwrap();
}
