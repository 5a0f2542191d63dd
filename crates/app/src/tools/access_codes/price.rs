//! The price of a batch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::order::BatchOrder;

/// The tariff of codes: some are included in every batch, and each further one has a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tariff {
    /// Codes per batch that cost nothing.
    pub included: u32,
    /// The price of each further code, in cents.
    pub cents_per_code: u32,
}

impl Default for Tariff {
    fn default() -> Self {
        Self { included: 1_000, cents_per_code: 2 }
    }
}

/// The price of one batch: the result of `preview_access_code_cost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostPreview {
    /// Codes in the batch.
    pub count: u32,
    /// Codes that are included.
    pub included: u32,
    /// Codes beyond the allowance.
    pub overage: u32,
    /// The price of the codes beyond the allowance, in cents.
    pub price_cents: u64,
    /// The currency of the price.
    pub currency: String,
    /// Whether `bulk_generate_access_codes` will ask for confirmation first.
    pub needs_confirmation: bool,
}

/// The caller's answer to the question whether to generate the batch at its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmation {
    /// Whether to generate the batch at this price.
    pub confirm: bool,
}

impl CostPreview {
    /// The price of `order` under `tariff`.
    #[must_use]
    pub fn of(order: &BatchOrder, tariff: Tariff) -> Self {
        let overage = order.count.saturating_sub(tariff.included);
        Self {
            count: order.count,
            included: order.count.min(tariff.included),
            overage,
            price_cents: u64::from(overage) * u64::from(tariff.cents_per_code),
            currency: "USD".to_owned(),
            needs_confirmation: overage > 0,
        }
    }

    /// The price as text, such as `12.50 USD`.
    #[must_use]
    pub fn price(&self) -> String {
        format!("{}.{:02} {}", self.price_cents / 100, self.price_cents % 100, self.currency)
    }

    /// The question before generating a batch that exceeds the allowance.
    #[must_use]
    pub fn question(&self) -> String {
        format!(
            "This batch of {} codes is {} over the allowance of {} and costs {}. Make it?",
            self.count,
            self.overage,
            self.included,
            self.price()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(count: u32) -> CostPreview {
        let order = BatchOrder { count, prefix: String::new(), length: 12 };
        CostPreview::of(&order, Tariff { included: 1_000, cents_per_code: 2 })
    }

    #[test]
    fn a_batch_within_the_allowance_costs_nothing_and_asks_nothing() {
        let preview = preview(1_000);
        assert_eq!((preview.price_cents, preview.needs_confirmation), (0, false));
    }

    #[test]
    fn a_batch_over_the_allowance_is_confirmed_at_its_price() {
        let preview = preview(1_252);
        assert!(preview.needs_confirmation);
        assert_eq!(preview.price(), "5.04 USD");
        assert_eq!(
            preview.question(),
            "This batch of 1252 codes is 252 over the allowance of 1000 and costs 5.04 USD. Make it?"
        );
    }
}
