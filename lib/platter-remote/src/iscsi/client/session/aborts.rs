//! Aborts of commands.
//!
//! The answer to an abort may come after that of its command, when the token of the command, and its memory, are those of another
//! one. So an abort names its command by the initiator task tag, as the target does: a session gives each command another tag.
//!
//! The library holds commands back that the target has no room for, and an abort overtakes them. The target would answer that
//! there is no such command, and receive it afterwards. So a command is aborted only once all of it is sent: then the target has
//! received it before the abort, and an answer that it has ended is true.

#![allow(unsafe_code)]

use super::{Abort, Command, Ended, Session};
use crate::iscsi::client::library::{Context, status};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// `ISCSI_TM_ABORT_TASK`.
const ABORT_TASK: c_int = 1;

/// The callback of an abort.
unsafe extern "C" fn aborted(_: *mut Context, status: c_int, data: *mut c_void, private: *mut c_void) {
    /// `ISCSI_TMR_TASK_DOES_NOT_EXIST`; 0 is complete. Others say that the command goes on.
    const LAST_DONE: u32 = 1;
    let abort = private.cast::<Abort>();
    // SAFETY: the private pointer is that of the abort, which lives until `end_aborted` has taken what is noted here. No
    // reference to it or the inbox exists while the library is called. With the status GOOD the data is the response code.
    unsafe {
        let is_done = status == status::GOOD && !data.is_null() && data.cast::<u32>().read() <= LAST_DONE;
        let ended = Ended { abort: NonNull::new_unchecked(abort), is_done };
        (*(*abort).inbox).aborted.push(ended);
    }
}

impl Session {
    /// Asks the target to abort a command, once that is sent. The answer to the command comes in any case.
    pub(in crate::iscsi::client) fn abort(&mut self, token: u32) {
        // SAFETY: commands live as long as the session, and the library is not being called.
        let found = self.find(|command| unsafe { command.as_ref().token } == token);
        // SAFETY: as above.
        self.due.extend(found.map(|command| unsafe { command.as_ref().number }));
        self.make_aborts();
    }

    /// Gives the library the aborts of commands that are sent by now. Whether there were any.
    pub(super) fn make_aborts(&mut self) -> bool {
        if self.due.is_empty() {
            return false;
        }
        let count = self.sent_commands();
        let (sent, unsent): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.due).into_iter().partition(|number| *number < count);
        self.due = unsent;
        for number in &sent {
            self.make_abort(*number);
        }
        !sent.is_empty()
    }

    /// How many commands, from the first one on, are certain to be with the system as a whole: they are sent in order, and each
    /// unit that is not may be a command.
    fn sent_commands(&self) -> u64 {
        let begun = usize::from(self.wants_output());
        self.given.saturating_sub((self.unsent() + begun) as u64)
    }

    /// Gives the library the abort of a command, unless that is answered.
    fn make_abort(&mut self, number: u64) {
        // SAFETY: as in `abort`.
        let found = self.find(|command| unsafe { command.as_ref().number } == number);
        let Some(command) = found else { return };
        // SAFETY: the command is awaited, so its task is alive.
        let (tag, number) = unsafe {
            let task = command.as_ref().task;
            ((*task).tag, (*task).command_number)
        };
        let abort = NonNull::from(Box::leak(Box::new(Abort { inbox: self.inbox, tag })));
        self.aborts.push(abort);
        let (context, private) = (self.context.as_ptr(), abort.as_ptr().cast());
        // SAFETY: the context is alive. The abort lives until it is answered, or the session is dropped.
        let given = unsafe {
            (self.library.manage)(context, self.unit, ABORT_TASK, tag, number, aborted, private) == 0
        };
        if !given {
            self.drop_abort(abort);
        }
    }

    /// A command that is not answered.
    fn find(&self, is_it: impl Fn(NonNull<Command>) -> bool) -> Option<NonNull<Command>> {
        // SAFETY: as in `abort`.
        let is_awaited = |command: &NonNull<Command>| unsafe { command.as_ref().is_awaited };
        self.commands.iter().copied().find(|command| is_awaited(command) && is_it(*command))
    }

    /// Drops an abort that the library does not have.
    fn drop_abort(&mut self, abort: NonNull<Abort>) {
        self.aborts.retain(|other| *other != abort);
        // SAFETY: made by `Box::leak` and dropped only here, or with the session if it is still in the list.
        drop(unsafe { Box::from_raw(abort.as_ptr()) });
    }

    /// Ends commands that the target has aborted without an answer. Everything is sent.
    pub(super) fn end_aborted(&mut self) {
        // SAFETY: the library is not being called, so nothing else refers to the inbox.
        for Ended { abort, is_done } in unsafe { std::mem::take(&mut (*self.inbox).aborted) } {
            // SAFETY: each abort is noted once, and is alive until then.
            let tag = unsafe { abort.as_ref().tag };
            self.drop_abort(abort);
            // SAFETY: an awaited command has a task, which is alive.
            let found = self.find(|command| unsafe { (*command.as_ref().task).tag == tag });
            let Some(command) = found.filter(|_| is_done) else { continue };
            // SAFETY: everything is sent, so no unit of the command is under way, and the task is alive. The library calls
            // back for it.
            unsafe {
                (*command.as_ptr()).is_cancelled = true;
                let task = (*command.as_ptr()).task;
                (self.library.cancel)(self.context.as_ptr(), task);
            }
        }
    }
}
