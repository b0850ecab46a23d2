//! The vhost-user-blk export, with a virtual machine in miniature.

#![cfg(feature = "vhost")]

mod guest;
mod hostile;
mod life;
mod oracle;
mod rig;
