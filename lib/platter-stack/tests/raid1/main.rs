//! Mirrors: what is durable when, what fails, and what comes back.

mod cuts;
mod lives;
mod members;
mod oracle;
mod reads;
mod rig;
