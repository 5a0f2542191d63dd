//! `preview_access_code_cost` and `bulk_generate_access_codes`: batches of access codes that cannot be guessed.
//!
//! A batch is a function of its order and of a random seed of 256 bits. A step records the seed once, so the same
//! batch, run again after a crash, has the same codes.

pub mod alphabet;
pub mod batch;
pub mod order;
pub mod price;

use longhaul::TaskContext;
use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use serde::{Deserialize, Serialize};

use crate::App;
use crate::tools::refused;
use batch::{BatchAnswer, BatchSeed, CSV_MEDIA_TYPE};
use order::BatchOrder;
use price::{Confirmation, CostPreview, Tariff};

/// The seed of a batch, as the task records it before the first code.
#[derive(Serialize, Deserialize)]
struct Batch {
    batch_id: String,
    seed: BatchSeed,
}

#[tool_router(router = access_code_tools, vis = "pub(crate)")]
impl App {
    /// The price of a batch.
    #[tool(
        name = "preview_access_code_cost",
        description = "Returns what a batch of access codes would cost, and whether generating it needs confirmation. \
                       Generates nothing.",
        annotations(read_only_hint = true)
    )]
    async fn preview_access_code_cost(
        &self,
        Parameters(order): Parameters<BatchOrder>,
    ) -> Result<Json<CostPreview>, ErrorData> {
        order.check().map_err(refused)?;
        Ok(Json(CostPreview::of(&order, Tariff::default())))
    }

    /// Generates a batch of access codes.
    #[tool(
        name = "bulk_generate_access_codes",
        description = "Generates a batch of up to 100,000 unpredictable access codes, each unique and with a check \
                       character. Returns the batch's id and the codes as a CSV resource. Asks for confirmation first \
                       if the batch exceeds the allowance.",
        output_schema = rmcp::handler::server::tool::schema_for_output::<BatchAnswer>()
    )]
    async fn bulk_generate_access_codes(
        &self,
        Parameters(order): Parameters<BatchOrder>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        order.check().map_err(refused)?;
        let cost = CostPreview::of(&order, Tariff::default());
        if cost.needs_confirmation {
            let answer = task.ask::<Confirmation>("confirm", cost.question()).await?;
            let Some(Confirmation { confirm: true }) = answer.accepted() else {
                return Ok(CallToolResult::error(vec![ContentBlock::text("not confirmed: no codes were generated")]));
            };
        }
        let batch = task.try_step("seed", async || new_batch()).await?;
        let codes = batch::codes(&order, &batch.seed).map_err(refused)?;
        task.progress(order.count).of(order.count).message("codes generated").await;
        Ok(answer(&order, batch.batch_id, &codes))
    }
}

/// A random seed, and an id that reveals nothing about it.
fn new_batch() -> Result<Batch, ErrorData> {
    let (mut seed, mut name) = ([0; 32], [0; 10]);
    for bytes in [&mut seed[..], &mut name[..]] {
        getrandom::fill(bytes)
            .map_err(|error| ErrorData::internal_error(format!("no randomness is available: {error}"), None))?;
    }
    let batch_id = name.iter().fold("btc_".to_owned(), |id, byte| format!("{id}{byte:02x}"));
    Ok(Batch { batch_id, seed: BatchSeed::new(seed) })
}

fn answer(order: &BatchOrder, batch_id: String, codes: &[String]) -> CallToolResult {
    let uri = format!("longhaul://access-codes/{batch_id}.csv");
    let csv = ResourceContents::text(batch::csv(codes), uri).with_mime_type(CSV_MEDIA_TYPE);
    let answer = serde_json::json!(BatchAnswer { count: order.count, batch_id });
    let mut result = CallToolResult::structured(answer);
    result.content.push(ContentBlock::resource(csv));
    result
}
