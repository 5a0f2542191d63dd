//! Wake-ups inside one process. A change that this process makes wakes its waiting requests at once.
//!
//! A wake-up names the subject, and the listener reads the store again. Only the end of a task comes with the recorded
//! task, since no later change can make it wrong. A change that another process makes wakes no listener here. So every
//! wait also ends after a while on its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_core::{MailboxId, OwnerId, Task, TaskKey};

use crate::limits::LISTENED_MAX;

/// A subject that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A task: an event was applied to it.
    Task(TaskKey),
    /// A mailbox: a text was left in it.
    Mailbox(OwnerId, MailboxId),
}

impl Subject {
    /// The task, if it is one.
    #[must_use]
    pub const fn task(self) -> Option<TaskKey> {
        match self {
            Self::Task(key) => Some(key),
            Self::Mailbox(..) => None,
        }
    }
}

/// The listeners of one process. Has an entry for a subject only while it has a listener.
#[derive(Clone, Default)]
pub(crate) struct Changes(Arc<Mutex<Listeners>>);

#[derive(Default)]
struct Listeners {
    inboxes: HashMap<Subject, Vec<Arc<Inbox>>>,
    /// How many inboxes there are under all subjects.
    count: usize,
}

/// The changes that one listener has received and not taken yet.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    changed: BTreeSet<Subject>,
    /// Tasks among them that have ended, as they ended. One that has changed since then is not among these.
    ended: BTreeMap<TaskKey, Arc<Task>>,
    waker: Option<Waker>,
}

impl Changes {
    /// Wakes those who listen to `subject`. Called after the change is recorded.
    pub(crate) fn tell(&self, subject: Subject) {
        for inbox in self.listening(subject) {
            inbox.hear(subject, None);
        }
    }

    /// Wakes those who listen to this task, which has just ended. Called after its end is recorded.
    pub(crate) fn tell_end(&self, task: &Task) {
        let subject = Subject::Task(task.key());
        let inboxes = self.listening(subject);
        if inboxes.is_empty() {
            return;
        }
        let task = Arc::new(task.clone());
        for inbox in inboxes {
            inbox.hear(subject, Some(Arc::clone(&task)));
        }
    }

    fn listening(&self, subject: Subject) -> Vec<Arc<Inbox>> {
        lock(&self.0).inboxes.get(&subject).cloned().unwrap_or_default()
    }

    /// Listens to `subject` from now on; false if too much is listened to.
    pub(crate) fn register(&self, subject: Subject, inbox: &Arc<Inbox>) -> bool {
        let mut listeners = lock(&self.0);
        if listeners.count >= LISTENED_MAX {
            return false;
        }
        listeners.count += 1;
        listeners.inboxes.entry(subject).or_default().push(Arc::clone(inbox));
        true
    }

    /// Ends what [`Changes::register`] began.
    pub(crate) fn remove(&self, subject: Subject, inbox: &Arc<Inbox>) {
        let mut listeners = lock(&self.0);
        let Some(inboxes) = listeners.inboxes.get_mut(&subject) else { return };
        inboxes.retain(|other| !Arc::ptr_eq(other, inbox));
        if inboxes.is_empty() {
            listeners.inboxes.remove(&subject);
        }
        listeners.count = listeners.count.saturating_sub(1);
    }
}

impl Inbox {
    fn hear(&self, subject: Subject, ended: Option<Arc<Task>>) {
        let mut heard = lock(&self.0);
        heard.changed.insert(subject);
        match (subject.task(), ended) {
            (Some(key), Some(task)) => drop(heard.ended.insert(key, task)),
            (Some(key), None) => drop(heard.ended.remove(&key)),
            (None, _) => {}
        }
        let waker = heard.waker.take();
        drop(heard);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The task as it ended, if that was heard and nothing of the task since then.
    pub(crate) fn take_ended(&self, key: &TaskKey) -> Option<Arc<Task>> {
        lock(&self.0).ended.remove(key)
    }

    /// The changes since this was last taken; waits until there is one. Dropping the future loses nothing.
    pub(crate) fn changed(&self) -> impl Future<Output = BTreeSet<Subject>> + Send + '_ {
        std::future::poll_fn(|context| {
            let mut heard = lock(&self.0);
            if heard.changed.is_empty() {
                heard.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut heard.changed))
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use longhaul_core::{IdSource, Identity, TaskEvent, Timestamp};
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    fn subject(number: u64) -> Subject {
        let id = SeededIds::new(number).task_id(Timestamp::from_ms(1));
        Subject::Task(TaskKey::new(OwnerId::of(Identity::Anonymous), id))
    }

    fn registered(changes: &Changes) -> (usize, usize) {
        let listeners = lock(&changes.0);
        (listeners.inboxes.len(), listeners.count)
    }

    #[test]
    fn entries_exist_only_while_somebody_listens() {
        let changes = Changes::default();
        let (one, two) = (Arc::<Inbox>::default(), Arc::<Inbox>::default());
        assert!(changes.register(subject(1), &one) && changes.register(subject(1), &two));
        assert!(changes.register(subject(2), &one));
        assert_eq!(registered(&changes), (2, 3));
        changes.remove(subject(1), &one);
        assert_eq!(registered(&changes), (2, 2));
        changes.tell(subject(1));
        assert!(lock(&one.0).changed.is_empty());
        assert_eq!(lock(&two.0).changed.len(), 1);
        changes.remove(subject(1), &two);
        changes.remove(subject(2), &one);
        assert_eq!(registered(&changes), (0, 0));
    }

    #[test]
    fn an_end_is_heard_with_its_task_until_the_task_changes_again() {
        let (changes, inbox) = (Changes::default(), Arc::<Inbox>::default());
        let task = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW);
        let (ended, subject) = (task.apply(&TaskEvent::Cancel, given::NOW).unwrap(), Subject::Task(task.key()));
        changes.tell_end(&ended);
        assert!(changes.register(subject, &inbox));
        assert_eq!(inbox.take_ended(&task.key()), None);
        changes.tell_end(&ended);
        assert_eq!(inbox.take_ended(&task.key()).as_deref(), Some(&ended));
        assert_eq!(inbox.take_ended(&task.key()), None);
        changes.tell_end(&ended);
        changes.tell(subject);
        assert_eq!(inbox.take_ended(&task.key()), None);
    }

    #[test]
    fn a_subject_says_whether_it_is_a_task() {
        let Subject::Task(key) = subject(1) else { panic!("not a task") };
        assert_eq!(subject(1).task(), Some(key));
        assert_eq!(Subject::Mailbox(key.owner, MailboxId::of(&[b"word"])).task(), None);
    }

    #[test]
    fn what_is_listened_to_is_limited() {
        let (changes, inbox) = (Changes::default(), Arc::<Inbox>::default());
        lock(&changes.0).count = LISTENED_MAX - 1;
        assert!(changes.register(subject(1), &inbox));
        assert!(!changes.register(subject(2), &inbox));
        changes.remove(subject(1), &inbox);
        assert!(changes.register(subject(2), &inbox));
    }
}
