//! The task set: which commands may run together.

use super::{Attribute, Nexus, TaskId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for others.
    Blocked,
    /// It has waited, and its nexus is told so.
    Enabled,
    /// It has been carried out and waits for others to end before it is answered.
    Answered,
    /// Its steps are carried out.
    Running,
}

/// A command that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) nexus: Nexus,
    pub(super) token: u64,
    pub(super) attribute: Attribute,
    /// The bytes of the device that it names, from and to, if known.
    pub(super) range: Option<(u64, u64)>,
    /// No other command may run on its range.
    pub(super) exclusive: bool,
    pub(super) state: State,
    pub(super) aborted: bool,
    /// Commands that have to end before it is answered.
    pub(super) after: Vec<TaskId>,
}

impl Task {
    fn conflicts(&self, other: &Task) -> bool {
        let overlap = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => a < d && c < b,
            _ => false,
        };
        overlap && (self.exclusive || other.exclusive)
    }
}

#[derive(Default)]
pub(super) struct Tasks {
    all: BTreeMap<TaskId, Task>,
    /// Of all, those that let others wait: not simple, or exclusive.
    special: usize,
    exclusive: usize,
    /// Of all, those that are blocked or answered later.
    blocked: usize,
}

impl Tasks {
    pub(super) fn insert(&mut self, id: TaskId, task: Task) {
        self.special += usize::from(task.is_special());
        self.exclusive += usize::from(task.exclusive);
        self.blocked += usize::from(task.state == State::Blocked);
        self.all.insert(id, task);
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Option<Task> {
        let task = self.all.remove(&id)?;
        self.special -= usize::from(task.is_special());
        self.exclusive -= usize::from(task.exclusive);
        self.blocked -= usize::from(task.state == State::Blocked || !task.after.is_empty());
        Some(task)
    }

    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.all.get_mut(&id)
    }

    pub(super) fn nexus(&self, id: TaskId) -> Option<Nexus> {
        self.all.get(&id).map(|task| task.nexus)
    }

    pub(super) fn is_aborted(&self, id: TaskId) -> bool {
        self.all.get(&id).is_none_or(|task| task.aborted)
    }

    pub(super) fn has_exclusive(&self) -> bool {
        self.exclusive > 0
    }

    /// The commands that fit, oldest first.
    pub(super) fn of(&self, fits: impl Fn(&Task) -> bool) -> Vec<TaskId> {
        self.all.iter().filter(|(_, task)| fits(task)).map(|(id, _)| *id).collect()
    }

    /// Whether a command may run among those that there are.
    pub(super) fn may_run(&self, id: TaskId, task: &Task) -> bool {
        if self.special == 0 && !task.is_special() {
            return true;
        }
        self.all.iter().filter(|(other, _)| **other != id).all(|(other, before)| {
            let older = *other < id;
            let runs = matches!(before.state, State::Running | State::Enabled);
            let apart = !before.conflicts(task);
            match task.attribute {
                // It passes those that wait, but cannot take a range from one that runs.
                Attribute::HeadOfQueue => apart || !runs,
                Attribute::Ordered => !older && before.attribute != Attribute::HeadOfQueue,
                Attribute::Simple => match before.attribute {
                    Attribute::HeadOfQueue => false,
                    Attribute::Ordered => !older,
                    Attribute::Simple => apart || !(older || runs),
                },
            }
        })
    }

    /// Marks a running command as one that is answered when all in `after`, which run, have ended.
    pub(super) fn answer_after(&mut self, id: TaskId, after: Vec<TaskId>) {
        if let Some(task) = self.all.get_mut(&id) {
            (task.state, task.after) = (State::Answered, after);
            self.blocked += 1;
        }
    }

    /// The oldest command that may go on now and could not before.
    pub(super) fn enable_next(&mut self) -> Option<(TaskId, Nexus, u64)> {
        if self.blocked == 0 {
            return None;
        }
        let found = self.all.iter().find(|(id, task)| match task.state {
            State::Blocked => self.may_run(**id, task),
            State::Answered => {
                !task.after.is_empty() && task.after.iter().all(|id| !self.all.contains_key(id))
            }
            _ => false,
        });
        let id = *found?.0;
        let task = self.all.get_mut(&id)?;
        self.blocked -= 1;
        match task.state {
            State::Answered => task.after.clear(),
            _ => task.state = State::Enabled,
        }
        Some((id, task.nexus, task.token))
    }
}

impl Task {
    fn is_special(&self) -> bool {
        self.exclusive || self.attribute != Attribute::Simple
    }
}
