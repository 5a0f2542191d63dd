//! For tests only: a clock that is set by hand, ids from a seed, and ports that fail on demand. It also has the
//! contracts that every adapter keeps, and a store and a queue in memory.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a broken promise shows as a panic; nothing here runs in production"
)]

#[cfg(feature = "contract")]
pub mod all_owners_contract;
mod clock;
#[cfg(feature = "contract")]
pub mod damage_contract;
mod faulty;
pub mod given;
mod layer;
mod lines;
mod logging;
#[cfg(feature = "contract")]
mod model;
pub mod models;
#[cfg(feature = "contract")]
pub mod one_database_contract;
#[cfg(feature = "contract")]
mod permits_contract;
#[cfg(feature = "contract")]
pub mod queue_contract;
mod run;
mod seeded_ids;
#[cfg(feature = "contract")]
pub mod store_contract;
#[cfg(feature = "contract")]
pub mod unfinished_contract;

pub use clock::ManualClock;
#[cfg(feature = "contract")]
pub use damage_contract::DamageHarness;
pub use faulty::{Fault, FaultyQueue, FaultyStore, QueueCall, Scripting};
pub use layer::{Layered, StoreCall, StoreLayer};
pub use lines::Lines;
pub use logging::capture;
#[cfg(feature = "contract")]
pub use model::{StoreModel, check_store_model, store_equals_the_model};
pub use models::{Damage, FakePermits, FakeQueue, FakeStore, FakeUnfinished};
#[cfg(feature = "contract")]
pub use one_database_contract::OneDatabase;
#[cfg(feature = "contract")]
pub use permits_contract::permits_answer_as_the_model;
#[cfg(feature = "contract")]
pub use queue_contract::QueueHarness;
pub use run::{at_once, block_on, is_one_of_many};
pub use seeded_ids::SeededIds;
#[cfg(feature = "contract")]
pub use store_contract::StoreHarness;
#[cfg(feature = "contract")]
pub use unfinished_contract::UnfinishedHarness;
