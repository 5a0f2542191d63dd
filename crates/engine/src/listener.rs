//! Mailboxes, by which one request passes a text to another one on any instance. And waits for changes of this process:
//! register first, then read, then wait.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul_core::ports::Left;
use longhaul_core::{MailboxId, OwnerId, Task, TaskId, TaskKey, Timestamp, limits};

use crate::changes::{Inbox, Subject};
use crate::{AcceptError, Accepted, Call, CollectError, Engine, LeaveError, PollError};

/// Receives the changes of some subjects. Nothing is missed between a read and the next wait: a subject is registered
/// before it is read. Later changes are kept until they are [taken](Self::changed).
pub struct Listener {
    engine: Engine,
    inbox: Arc<Inbox>,
    subjects: BTreeSet<Subject>,
}

impl Engine {
    /// A listener, to nothing yet.
    #[must_use]
    pub fn listener(&self) -> Listener {
        Listener { engine: self.clone(), inbox: Arc::default(), subjects: BTreeSet::new() }
    }

    /// Leaves `text` in one of the owner's mailboxes until `expires_at`. The first text stays, and later
    /// callers get it. If the store's first answer was lost, that may be the caller's own text.
    pub async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
    ) -> Result<Left, LeaveError> {
        if text.len() > limits::ENTRY_BYTES_MAX {
            return Err(LeaveError::TooLarge(text.len()));
        }
        let left = self.with_retry(|| self.store().leave(owner, mailbox, text, expires_at, self.now())).await;
        self.changes.tell(Subject::Mailbox(*owner, *mailbox));
        left.map_err(self.unavailable(LeaveError::Unavailable))
    }

    /// The text in one of the owner's mailboxes; `None` if none was left or it has expired.
    pub async fn collect(&self, owner: &OwnerId, mailbox: &MailboxId) -> Result<Option<String>, CollectError> {
        self.with_retry(|| self.store().collect(owner, mailbox, self.now()))
            .await
            .map_err(self.unavailable(CollectError))
    }
}

impl Listener {
    /// The engine that makes the changes.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Listens to the task from now on.
    pub fn add(&mut self, key: TaskKey) {
        self.listen(Subject::Task(key));
    }

    /// Listens to the task from now on, and does what [`Engine::poll`] does.
    pub async fn poll(&mut self, key: &TaskKey) -> Result<Task, PollError> {
        self.add(*key);
        self.engine.poll(key).await
    }

    /// The task as this process ended it, if that was heard and not taken yet; otherwise does what [`Engine::poll`]
    /// does.
    pub async fn look(&mut self, key: &TaskKey) -> Result<Arc<Task>, PollError> {
        match self.inbox.take_ended(key) {
            Some(ended) => {
                self.engine.note_on_span(&ended);
                Ok(ended)
            }
            None => self.engine.poll(key).await.map(Arc::new),
        }
    }

    /// Does what [`Engine::accept_as`] does, and listens to the task from before it was read: to a new one from before
    /// it exists.
    pub async fn accept(&mut self, id: TaskId, call: Call) -> Result<Task, AcceptError> {
        self.add(TaskKey::new(call.owner, id));
        match self.engine.accept_as(id, call).await? {
            Accepted::New(task) => Ok(task),
            // It may have changed between that read and this.
            Accepted::Existing(task) => Ok(self.poll(&task.key()).await.unwrap_or(task)),
        }
    }

    /// Listens to the mailbox from now on, and does what [`Engine::collect`] does.
    pub async fn collect(&mut self, owner: &OwnerId, mailbox: &MailboxId) -> Result<Option<String>, CollectError> {
        self.listen(Subject::Mailbox(*owner, *mailbox));
        self.engine.collect(owner, mailbox).await
    }

    /// The changes since this was last taken; waits until there is one. Dropping the future loses nothing.
    pub fn changed(&mut self) -> impl Future<Output = BTreeSet<Subject>> + Send + '_ {
        self.inbox.changed()
    }

    fn listen(&mut self, subject: Subject) {
        if !self.subjects.contains(&subject) && self.engine.changes.register(subject, &self.inbox) {
            self.subjects.insert(subject);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for subject in &self.subjects {
            self.engine.changes.remove(*subject, &self.inbox);
        }
    }
}
