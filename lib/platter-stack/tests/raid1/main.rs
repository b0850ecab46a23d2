//! Mirrors: what is durable when, what fails, and what comes back.

mod lives;
mod oracle;
mod reads;
mod rig;
