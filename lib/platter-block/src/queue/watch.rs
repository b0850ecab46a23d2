//! What a queue asks and tells the owner of a device of several queues.

use crate::fault::Status;

/// Speaks for the other queues of a device: their barriers and flushes concern this queue too.
pub trait Watch: Send {
    /// A request has failed or is short, and the queue would retry it or its bios. `false`: a barrier has passed
    /// because the device has completed everything that the driver had. Neither this request nor any other of those
    /// may be retried; their bios fail.
    fn may_restart(&mut self) -> bool {
        true
    }

    /// The queue would flush the device. `false`: something else is flushing it; [`SchedQueue::flush_freed`] is called when
    /// that has ended.
    ///
    /// [`SchedQueue::flush_freed`]: super::SchedQueue::flush_freed
    fn may_flush(&mut self) -> bool {
        true
    }

    /// The flush that the queue was last admitted to has ended. With [`Kind::Gone`](crate::fault::Kind::Gone) of
    /// [`Stage::Queue`](crate::fault::Stage::Queue) it was not sent, because the device [has failed](super::Queue::set_failed).
    fn flushed(&mut self, status: Status) {
        let _ = status;
    }
}
