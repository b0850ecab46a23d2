//! The vhost-user-blk export, with a virtual machine in miniature.

mod guest;
mod hostile;
mod life;
mod oracle;
mod rig;
