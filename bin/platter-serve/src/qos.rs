//! Quality of service: which request of which client may start when.
//!
//! Each device of a server has an [`Arbiter`]; each connection has a [`Share`] of it, from [`Arbiter::join`]. An export
//! asks before it submits a request and reports when the request has completed:
//!
//! ```
//! use platter_block::time::Time;
//! use platter_serve::qos::{Admit, Arbiter};
//! use std::sync::Arc;
//!
//! struct Eventfd;
//! impl platter_block::lane::Bell for Eventfd {
//!     fn ring(&self) {} // makes a descriptor readable for which the connection's thread waits
//! }
//!
//! let arbiter = Arbiter::new();
//! let share = arbiter.join(7, Arc::new(Eventfd));
//! // The time is read only if something is limited.
//! if share.is_limited() {
//!     let now = Time(1_000);
//!     match share.admit(now, 4096) {
//!         Admit::Now => {}         // submit it
//!         Admit::At(_time) => {}   // ask again with the same request at that time, or when the bell rings
//!         Admit::OnBell => {}      // ask again with the same request when the bell rings
//!     }
//! } else {
//!     share.start();               // submit it
//! }
//! share.complete(Time(2_000));     // for each request that was let through, with or without a limit
//! ```
//!
//! A connection that is told to wait keeps its request and reads no further ones, so that waiting requests take no
//! memory here and a client that floods is slowed down by its socket.
//!
//! Without any limit, [`Share::is_limited`] is one relaxed load, and [`Share::start`] and [`Share::complete`] are one
//! addition to a number of the share's own and one load each. With one they take the arbiter's lock.
//!
//! # How requests are ordered
//! - A client's own limits come first: its I/O rate and bandwidth, each by the generic cell rate algorithm (ITU-T I.371)
//!   with a tolerance of `burst`. Until they allow its request, the client does not compete with others.
//! - Requests that compete for the device are started in the order of start-time fair queueing: Goyal, Vin and Cheng,
//!   "Start-time Fair Queuing", SIGCOMM 1996. Their start tags advance by bytes divided by weight. With several
//!   requests in the device at a time this is the variant SFQ(D): Jin, Chase and Kaur, "Interposed Proportional
//!   Sharing for a Storage Service Utility", SIGMETRICS 2004. A request counts as at least [`MIN_COST_BYTES`].
//! - The device's budget decides when the next one may start: its I/O rate, its bandwidth, and the number of requests
//!   in it at a time (`depth`). Without a budget of the device nothing competes, and weights have no effect.
//! - A request of more than 32 MiB, as zeroes or readahead may be, takes its bytes from a bandwidth of the device in
//!   parts of 32 MiB before it starts. Requests of others start in between.
//!
//! Limits change while requests run and wait. What has started before counts in a `depth` that is set or lowered later; all
//! clients are rung at each change, and ask again. A client that has to wait for what it took at a low rate waits less when
//! the rate is raised.
//!
//! A request is granted by whichever connection calls next, on behalf of the connection that it belongs to. So a thread
//! that is slow to ask does not delay the others.
//!
//! A client is a connection here, because a protocol such as NBD does not tell which connections belong together: a
//! client with four connections has four shares.

mod arbiter;
mod fair;
mod limits;
mod pacer;

pub use arbiter::{Admit, Arbiter, Share, ShareState};
pub use fair::MIN_COST_BYTES;
pub use limits::{ClientLimits, DEFAULT_BURST, DeviceLimits, LimitRange, MAX_WEIGHT};
