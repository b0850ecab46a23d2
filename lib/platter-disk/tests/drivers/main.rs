//! Every driver against the same contract, through the queue that programs use.

mod atomic;
mod bench;
mod block_device;
mod cancel;
mod contract;
mod descriptors;
mod fallback;
mod loops;
mod misuse;
mod nodes;
mod outstanding;
mod registered;
mod shrink;
mod watched;
mod zram;
