//! Devices with a misbehaving disk: requests that do not come back, lanes that are not run, and channels that die.
//! The test controls the disk, mostly in virtual time.

mod disk;

mod barrier;
mod commands;
mod dead;
mod late;
mod mail;
mod property;
mod silence;
mod statistics;
