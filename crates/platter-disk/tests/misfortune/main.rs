//! Devices whose disk does not do as it should: requests that do not come back, channels that nobody polls, drivers that
//! die. On a disk that does what the test says, mostly in virtual time.

mod disk;

mod barrier;
mod cancel;
mod closing;
mod depth;
mod doubt;
mod driver;
mod stuck;
