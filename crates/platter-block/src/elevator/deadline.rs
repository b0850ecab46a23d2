//! `deadline`.
/// Placeholder.
#[derive(Debug, Default)]
pub struct Deadline;
/// Placeholder.
#[derive(Debug, Default)]
pub struct BatchRule;
