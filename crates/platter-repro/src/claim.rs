//! A published statement, and the result of the model.

use super::kind::Kind;
use platter_bench::report::units::fixed;
use serde_json::{Value, json};

/// When a claim holds: decided before the model was run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Not below.
    AtLeast(f64),
    /// Not above.
    AtMost(f64),
    /// Neither below the first nor above the second.
    Between(f64, f64),
}

impl Rule {
    /// Whether a value keeps the rule.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Rule::AtLeast(low) => value >= low,
            Rule::AtMost(high) => value <= high,
            Rule::Between(low, high) => (low..=high).contains(&value),
        }
    }

    /// The rule as text: `>= 2`, `<= 1.3`, `1 to 3`.
    pub fn text(self) -> String {
        match self {
            Rule::AtLeast(low) => format!(">= {}", number(low)),
            Rule::AtMost(high) => format!("<= {}", number(high)),
            Rule::Between(low, high) => format!("{} to {}", number(low), number(high)),
        }
    }
}

/// Three digits at least.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    fixed(value, decimals)
}

/// A published statement, and the result of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Name, unique in its experiment.
    pub id: &'static str,
    /// What it says about the model.
    pub kind: Kind,
    /// The document that publishes it; totals are per document.
    pub document: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The statement.
    pub says: &'static str,
    /// The published figure.
    pub published: Option<f64>,
    /// The figure of the model.
    pub modelled: Option<f64>,
    /// The figure of this machine, where it can be measured.
    pub here: Option<f64>,
    /// Unit of the three.
    pub unit: &'static str,
    /// When it holds.
    pub rule: Rule,
    /// Why there is no figure of the model, or a note on the figure.
    pub reason: Option<String>,
}

impl Claim {
    /// Whether the claim holds in the model; `None` if it could not be evaluated.
    pub fn holds(&self) -> Option<bool> {
        self.modelled.map(|value| self.rule.holds(value))
    }

    /// The modelled figure over the published one, if there are both and the published one is not zero.
    pub fn ratio(&self) -> Option<f64> {
        let published = self.published.filter(|published| *published != 0.0)?;
        Some(self.modelled? / published)
    }

    /// The larger of the published and the modelled figure over the smaller; infinite if only one is zero.
    pub fn factor(&self) -> Option<f64> {
        let (published, modelled) = self.published.zip(self.modelled)?;
        if published == modelled {
            return Some(1.0);
        }
        let (low, high) = (published.min(modelled), published.max(modelled));
        Some(if low > 0.0 { high / low } else { f64::INFINITY })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "kind": self.kind.name(),
            "document": self.document,
            "source": self.source,
            "says": self.says,
            "published": self.published,
            "modelled": self.modelled,
            "ratio": self.ratio(),
            "here": self.here,
            "unit": self.unit,
            "rule": self.rule.text(),
            "holds": self.holds(),
            "reason": self.reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_include_their_ends() {
        assert!(Rule::AtLeast(2.0).holds(2.0) && !Rule::AtLeast(2.0).holds(1.999));
        assert!(Rule::AtMost(2.0).holds(2.0) && !Rule::AtMost(2.0).holds(2.001));
        let between = Rule::Between(1.0, 3.0);
        assert!(between.holds(1.0) && between.holds(3.0) && !between.holds(0.9) && !between.holds(f64::NAN));
        assert_eq!(between.text(), "1.00 to 3.00");
        assert_eq!(
            (Rule::AtLeast(12.345).text(), Rule::AtMost(500.0).text()),
            (">= 12.3".into(), "<= 500".into())
        );
    }
}
