//! Views of tasks on the wire that more than one module uses: in the Tasks extension, as jobs, and as the outcome of a
//! plain call.

pub(crate) mod fields;
pub(crate) mod filtered;
pub(crate) mod job;
pub(crate) mod revised;
pub(crate) mod subject;
pub(crate) mod task;
pub(crate) mod verbatim;
