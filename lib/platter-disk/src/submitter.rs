//! The process on whose behalf a handle does its I/O.

use crate::device::Device;
use platter_block::bio::{Bio, Context, IoPrio};
use platter_block::handle::HandleId;

/// Context and priority for I/Os of a handle that have none themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Submitter {
    pub(crate) context: Context,
    pub(crate) ioprio: IoPrio,
    pub(crate) handle: HandleId,
}

impl Submitter {
    #[inline]
    pub(crate) fn is_anybody(&self) -> bool {
        *self == Submitter::default()
    }

    #[inline]
    pub(crate) fn sign(&self, bio: &mut Bio) {
        if bio.context() == Context::default() {
            bio.set_context(self.context);
        }
        if bio.ioprio() == IoPrio::NONE {
            bio.set_ioprio(self.ioprio);
        }
        if bio.handle() == HandleId::DEVICE {
            bio.set_handle(self.handle);
        }
    }
}

impl Device {
    /// The same device, with I/Os on behalf of `context` unless they have a context of their own. Fair
    /// elevators tell processes apart by it.
    ///
    /// ```
    /// use platter_block::bio::{Class, Context, IoPrio};
    /// # use platter_disk::device::Device;
    /// let disk = Device::ram(1 << 20)?;
    /// let backup = disk.on_behalf_of(Context::new(7)).with_ioprio(IoPrio::new(Class::Idle, 7));
    /// backup.read_at(&mut [0; 512], 0)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    #[must_use]
    pub fn on_behalf_of(&self, context: Context) -> Device {
        let submitter = Submitter { context, ..self.submitter };
        Device { submitter, ..self.clone() }
    }

    /// The same device, with I/Os of this priority unless they have a priority of their own.
    #[must_use]
    pub fn with_ioprio(&self, ioprio: IoPrio) -> Device {
        let submitter = Submitter { ioprio, ..self.submitter };
        Device { submitter, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::bio::Class;
    use platter_block::trace::{Action, Event, Sink};
    use std::future::Future;
    use std::pin::pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context as Task, Poll, Waker};

    struct Contexts(Arc<Mutex<Vec<u32>>>);

    impl Sink for Contexts {
        fn event(&mut self, event: &Event) {
            if event.action == Action::Queue {
                self.0.lock().unwrap().push(event.context);
            }
        }
    }

    #[test]
    fn a_handle_signs_what_says_nothing_itself_in_all_three_ways() {
        let disk = Device::ram(1 << 20).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        disk.backend().trace(Some(Arc::new(move || Box::new(Contexts(Arc::clone(&sink))))));
        let handle = disk.on_behalf_of(Context::new(7)).with_ioprio(IoPrio::new(Class::Idle, 3));
        handle.read_at(&mut [0; 512], 0).unwrap();
        disk.read_at(&mut [0; 512], 0).unwrap();
        let mut channel = handle.channel(2).unwrap();
        channel.submit(Bio::read(0, vec![0u8; 512]).unwrap()).unwrap();
        let mut own = Bio::read(4096, vec![0u8; 512]).unwrap();
        own.set_context(Context::new(9));
        channel.submit(own).unwrap();
        let mut done = Vec::new();
        while done.len() < 2 {
            channel.wait(&mut done, None);
        }
        assert!(done.iter().all(|bio| bio.ioprio() == IoPrio::new(Class::Idle, 3)));
        let mut read = pin!(handle.read(0, vec![0u8; 512]));
        let ready = read.as_mut().poll(&mut Task::from_waker(Waker::noop()));
        assert!(matches!(ready, Poll::Ready((Ok(()), Some(_)))), "memory answers at the first poll");
        assert_eq!(*seen.lock().unwrap(), [7, 0, 7, 9, 7]);
    }
}
