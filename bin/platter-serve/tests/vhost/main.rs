//! The vhost-user-blk export, with a virtual machine in miniature.

#![cfg(feature = "vhost")]

#[allow(dead_code, reason = "the load generator of the examples uses the rest")]
mod guest;
mod hostile;
mod inflight;
mod life;
mod oracle;
mod pace;
mod rig;
mod silent;
