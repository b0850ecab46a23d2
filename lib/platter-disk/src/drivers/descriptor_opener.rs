//! Opens channels for calls on descriptors: the driver that is asked for, or the first that works here.

use crate::wake::CallDoorbell;
use std::io;
use std::sync::Arc;

use super::choose::{self, Choice, FileDriver, MAX_DEPTH};
use super::descriptors::Descriptors;
use super::threads::{DescriptorThreads, Workers};
use super::uring::DescriptorRing;

/// Options of a channel for descriptors.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorOptions {
    /// The driver. Native AIO is none of them, because it blocks in its submission on everything except direct I/O.
    pub driver: Choice,
    /// Most calls at a time, 1 to 16384.
    pub depth: u32,
    /// `threads`: most threads.
    pub threads: u32,
}

/// Ends the wait of a channel from another thread.
#[derive(Clone)]
pub struct Waker(Arc<CallDoorbell>);

impl Waker {
    /// Ends a wait that has begun, and costs two atomic reads if there is none. `false`: the program has closed the
    /// descriptors by which the channel is woken, so it may wait for ever. Work that was handed over before this call must be
    /// taken back, unless the channel has taken it.
    #[must_use]
    pub fn wake(&self) -> bool {
        self.0.ring()
    }

    /// Whether the channel is awake, or can be woken.
    pub fn is_reachable(&self) -> bool {
        self.0.is_reachable()
    }
}

/// What opens a channel, on whichever thread will own it.
pub struct DescriptorOpener {
    kind: FileDriver,
    options: DescriptorOptions,
    wake: Arc<CallDoorbell>,
}

impl DescriptorOpener {
    /// Chooses the driver.
    ///
    /// # Errors
    /// The system's error, with its errno, if the system has run out of a resource at the moment, such as descriptors.
    /// Otherwise an error without errno that says what is wrong: the depth is out of range, or the requested driver is
    /// unavailable here.
    pub fn new(options: DescriptorOptions) -> io::Result<DescriptorOpener> {
        if !(1..=MAX_DEPTH).contains(&options.depth) {
            let why = format!("a depth of {} is out of range: give 1 to {MAX_DEPTH}", options.depth);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // First, so that a shortage of descriptors does not decide which driver is taken.
        let sockets = match options.driver {
            Choice::Only(FileDriver::Threads) => None,
            _ => Some(CallDoorbell::for_ring()?),
        };
        let kind = choose::choose_for_descriptors(options.driver)?;
        let wake = sockets.filter(|_| kind == FileDriver::Uring).unwrap_or_else(CallDoorbell::parked);
        Ok(DescriptorOpener { kind, options, wake: Arc::new(wake) })
    }

    /// The driver that was chosen.
    pub fn driver(&self) -> FileDriver {
        self.kind
    }

    /// Ends the waits of the channel.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake))
    }

    /// Opens the channel. The calling thread must be the one that will use it.
    ///
    /// # Errors
    /// The system has run out of a resource.
    pub fn open(self) -> io::Result<Box<dyn Descriptors>> {
        let DescriptorOpener { kind, options, wake } = self;
        Ok(match kind {
            FileDriver::Uring => Box::new(DescriptorRing::new(options.depth, wake)?),
            _ => {
                let workers = Arc::new(Workers::new(options.threads as usize));
                Box::new(DescriptorThreads::new(options.depth, workers, wake))
            }
        })
    }
}
