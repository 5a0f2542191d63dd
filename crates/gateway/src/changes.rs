//! Which lists have changed, for clients that listen.

use tokio::sync::watch;

use crate::catalog::Catalog;

/// How often each kind of list has changed, and how often everything was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) tools: u64,
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
    pub(crate) replaced: u64,
}

/// The counts of the changes of lists, which clients' streams watch. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Changes(watch::Sender<Versions>);

impl Changes {
    pub(crate) fn hear(&self) -> watch::Receiver<Versions> {
        self.0.subscribe()
    }

    /// Notes the differences that clients see after the catalog was put together again.
    pub(crate) fn note(&self, old: &Catalog, new: &Catalog) {
        self.add(Versions { replaced: 0, ..changed(old, new) });
    }

    /// Notes that everything was replaced, and whether the tools of jobs have changed.
    pub(crate) fn note_replaced(&self, old: &Catalog, new: &Catalog, are_other_jobs: bool) {
        let changed = changed(old, new);
        let tools = u64::from(changed.tools > 0 || are_other_jobs);
        self.add(Versions { tools, replaced: 1, ..changed });
    }

    /// Whether a client waits for changes.
    pub(crate) fn are_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    fn add(&self, more: Versions) {
        self.0.send_if_modified(|versions| {
            versions.tools += more.tools;
            versions.prompts += more.prompts;
            versions.resources += more.resources;
            versions.replaced += more.replaced;
            more != Versions::default()
        });
    }
}

/// One for each kind of list that differs.
fn changed(old: &Catalog, new: &Catalog) -> Versions {
    let tools = |catalog: &Catalog| catalog.shown().cloned().collect::<Vec<_>>();
    let prompts = |catalog: &Catalog| catalog.prompts.iter().map(|(prompt, _)| prompt.clone()).collect::<Vec<_>>();
    let resources = |catalog: &Catalog| {
        let resources = catalog.resources.iter().map(|(resource, _)| resource.clone()).collect::<Vec<_>>();
        (resources, catalog.templates.iter().map(|(template, _)| template.clone()).collect::<Vec<_>>())
    };
    Versions {
        tools: u64::from(tools(old) != tools(new)),
        prompts: u64::from(prompts(old) != prompts(new)),
        resources: u64::from(resources(old) != resources(new)),
        replaced: 0,
    }
}
