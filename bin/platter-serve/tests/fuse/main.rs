//! Devices as files, used through the kernel. Skipped where FUSE cannot be mounted.

mod clients;
mod files;
mod hostile;
mod mounts;
mod peers;
mod rig;
mod stop;
