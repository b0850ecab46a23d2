//! How a worker gets requests from the kernel and answers them.

use super::abi::Request;
use rustix::io::Errno;
use std::os::fd::RawFd;

/// One queue of the driver.
pub(super) trait Port {
    /// Hands over answers and appends the tags of requests that have arrived. `false`: no more will come.
    ///
    /// # Errors
    /// The kernel does not take answers.
    fn turn(&mut self, arrived: &mut Vec<u16>) -> Result<bool, Errno>;

    /// The request of a tag that has arrived.
    fn request(&self, tag: u16) -> Request;

    /// Copies the data of a write.
    fn take_data(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Errno>;

    /// Copies the data of a read.
    fn give_data(&mut self, tag: u16, data: &[u8]) -> Result<(), Errno>;

    /// Answers a request with its number of bytes, or a negative error number. It is sent with the next turn.
    fn answer(&mut self, tag: u16, result: i32);

    /// Readable when requests have arrived.
    fn descriptor(&self) -> RawFd;
}
