//! Devices whose disk does not do as it should: requests that do not come back, lanes that are not run meanwhile, and channels
//! that die. On a disk that does what the test says, mostly in virtual time.

mod disk;

mod barrier;
mod dead;
mod doubt;
mod property;
mod statistics;
