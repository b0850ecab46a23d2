//! Serves devices of the block I/O layer Platter to other programs.
//!
//! A [`Server`](server::Server) has [`Served`](served::Served) devices, each under a name, and exports: ways to reach
//! them. An export is an implementation of [`Export`](export::Export) in a folder of its own, and a row of
//! [`TABLE`](table::TABLE). All exports drive channels of the device, so order, barriers, flushes and errors are
//! those of the layer.
//!
//! An export runs threads of its own. Programs that embed a server need no executor.
//!
//! # Exports
//!
//! An `Export` is a way to reach the devices of a `Server` (`platter-serve`): a folder and a row of `table::TABLE`.
//! Every export drives channels of the device; exports (docs/exports.md) describes each of them.
//!
//! The iSCSI export (`iscsi.rs`) has a `Session` for each connection; the `Target` of the device decides what may run
//! (docs/exports.md).
//!
//! **Invariant:** a `Target` hears of a command when its data is complete (`Target::begin`), and again when the device
//! has nothing of it any more (`Target::end`); only then does an abort complete, a reservation that preempts it answer,
//! or a new session of its initiator begin.

#![deny(unsafe_code)]

mod admission;
pub mod age;
mod bios;
mod buffers;
mod changes;
#[cfg(feature = "iscsi")]
pub mod chap;
pub mod clients;
#[cfg(feature = "daemon")]
pub mod config;
#[cfg(feature = "daemon")]
pub mod control;
#[cfg(feature = "daemon")]
pub mod daemon;
pub mod descriptors;
pub mod device_trace;
pub mod error;
pub mod events;
pub mod export;
pub mod flood;
pub mod fuse;
pub mod inherited;
#[cfg(feature = "iscsi")]
pub mod iscsi;
#[cfg(feature = "daemon")]
pub mod layers;
#[cfg(feature = "daemon")]
pub mod metrics;
mod moderation;
pub mod nbd;
mod presence;
pub mod qos;
pub mod restart;
pub mod served;
pub mod server;
mod sizes;
#[cfg(feature = "daemon")]
mod state;
mod stream;
pub mod table;
mod telling;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "ublk")]
pub mod ublk;
mod unix_socket;
#[cfg(feature = "vhost")]
pub mod vhost;
