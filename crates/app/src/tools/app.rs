//! The handler of all tools, and the resources that each of them may use.

use std::path::PathBuf;
use std::sync::Arc;

use longhaul::ToolEnv;

use super::profile_dataset::source::Sources;
use crate::settings::{Settings, ToolSet};

/// Why the server cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data directory cannot be read.
    #[error("cannot read the data directory {path}")]
    DataDir {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
}

/// The handler of all tools.
#[derive(Clone)]
pub struct App {
    sources: Arc<Sources>,
    env: ToolEnv,
    pub(crate) tools: ToolSet,
}

impl App {
    pub(crate) fn new(settings: Settings) -> Result<Self, ServerError> {
        let unreadable = |cause| ServerError::DataDir { path: settings.data_dir.clone().unwrap_or_default(), cause };
        let sources = Arc::new(Sources::new(settings.data_dir.as_deref()).map_err(unreadable)?);
        Ok(Self { sources, env: settings.env, tools: settings.tools })
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    pub(crate) const fn env(&self) -> &ToolEnv {
        &self.env
    }
}
