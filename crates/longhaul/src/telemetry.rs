//! Spans and metrics of OpenTelemetry: whether they are exported, and where to.

use longhaul_core::settings::{Place, SettingsError, Values, table};

#[cfg(feature = "otel")]
mod export;
#[cfg(all(feature = "otel", feature = "serve"))]
mod metrics;
#[cfg(all(not(feature = "otel"), feature = "serve"))]
mod no_metrics;

#[cfg(all(feature = "otel", feature = "serve"))]
pub(crate) use metrics::MetricsExporter;
#[cfg(all(not(feature = "otel"), feature = "serve"))]
pub(crate) use no_metrics::MetricsExporter;

/// Exports spans to the collector that the settings name, if they name one.
pub(crate) fn start(values: &Values, place: Place) -> Result<(), SettingsError> {
    let Some(endpoint) = values.find(&table::OTLP_ENDPOINT)? else { return Ok(()) };
    #[cfg(feature = "otel")]
    export::to(&endpoint, place)
        .map_err(|error| values.refuse(&table::OTLP_ENDPOINT, &endpoint, &longhaul_core::with_causes(&*error)))?;
    #[cfg(not(feature = "otel"))]
    tracing::warn!(
        endpoint,
        ?place,
        "no spans and metrics are exported: this program was built without the feature `otel`"
    );
    Ok(())
}
