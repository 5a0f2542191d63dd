//! Nothing is exported by a program that was built without the feature `otel`.

use longhaul_core::settings::{SettingsError, Values};

pub(crate) enum MetricsExporter {}

impl MetricsExporter {
    #[expect(clippy::unnecessary_wraps, reason = "the exporter with the feature can be refused")]
    pub(crate) const fn of(_values: &Values) -> Result<Option<Self>, SettingsError> {
        Ok(None)
    }

    pub(crate) async fn pause(&self) {
        match *self {}
    }

    pub(crate) const fn has_failed_lately(&self) -> bool {
        match *self {}
    }

    pub(crate) async fn send(&self, _text: &str) {
        match *self {}
    }
}
