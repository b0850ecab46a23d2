//! Logs of partial parity and journals of arrays whose writes were cut anywhere, against a model that knows what was written: without any
//! members that the level can lose, each block reads as before or after its write, or as an error where the rules leave it undefined.

mod journal;
mod model;
mod partial;
