//! The functions of the interface, called as a C program calls them. All tests are run with each driver and each
//! personality, in a process each.

#[path = "../common/mod.rs"]
mod common;

mod again;
mod cancel;
mod lists;
mod notify;
mod order;
mod process;
mod refused;
mod shortage;
mod transfers;
