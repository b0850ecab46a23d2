//! What policies are known to do, what holds for all of them, and what ours may cost.

mod compared;
mod properties;
mod vectors;
