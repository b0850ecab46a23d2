//! Platter: a block I/O layer in user space.

pub mod registry;
pub mod spec;

pub use platter_bench as bench;
pub use platter_block as block;
pub use platter_disk as disk;
pub use platter_disk::device::Device;
