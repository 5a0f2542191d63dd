//! Spans of OpenTelemetry: whether they are exported, and where to.

use longhaul_core::settings::{Place, SettingsError, Values, table};

#[cfg(feature = "otel")]
mod export;

/// Exports spans to the collector that the settings name, if they name one.
pub(crate) fn start(values: &Values, place: Place) -> Result<(), SettingsError> {
    let Some(endpoint) = values.find(&table::OTLP_ENDPOINT)? else { return Ok(()) };
    #[cfg(feature = "otel")]
    export::to(&endpoint, place)
        .map_err(|error| values.refuse(&table::OTLP_ENDPOINT, &endpoint, &longhaul_core::with_causes(&*error)))?;
    #[cfg(not(feature = "otel"))]
    tracing::warn!(endpoint, ?place, "no spans are exported: this program was built without the feature `otel`");
    Ok(())
}
