//! A command that runs beside a test, and does not outlive it.

use rustix::process::{Pid, Signal, kill_process};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Output};

/// A child. Dropped before it has ended, as by a test that fails, it is killed.
pub(crate) struct Running(Option<Child>);

impl Running {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Running {
        Running(Some(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))))
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self), signal).unwrap();
    }

    /// Sends a signal, and waits until it has ended.
    #[track_caller]
    pub(crate) fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.wait().unwrap()
    }

    /// What it writes until it ends.
    #[track_caller]
    pub(crate) fn output(mut self) -> Output {
        self.0.take().expect("a child").wait_with_output().unwrap()
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("a child")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("a child")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
