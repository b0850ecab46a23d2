//! Arrays: where their data lies, how many parts a transfer has, what barriers and errors do.

mod durable;
mod errors;
mod layout;
mod misfortune;
mod order;
mod pace;
mod parts;
mod refusals;
mod rig;
mod script;
mod timeouts;
mod verify;
