//! Runs the command as a user does.

mod copy;
mod copy_refused;
mod docs;
mod info;
mod list;
mod run;
mod sim;
mod soak;
