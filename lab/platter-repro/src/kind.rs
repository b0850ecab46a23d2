//! The kind of a claim.

/// What a claim says about the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Its figure was used to set the model.
    Input,
    /// Its figure follows from that of another claim.
    Derived,
    /// The model was not set by its figure.
    Prediction,
    /// An exact count that follows from the rules of a kernel.
    Mechanism,
    /// No document states it: a counterfactual, or bounds that are ours.
    Ours,
}

impl Kind {
    /// The kind as text, as in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Derived => "derived",
            Kind::Prediction => "prediction",
            Kind::Mechanism => "mechanism",
            Kind::Ours => "ours",
        }
    }
}
