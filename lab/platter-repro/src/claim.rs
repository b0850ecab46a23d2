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

    /// The bounds of a published ratio: a figure of 2 or more, or of 1/2 or less, within a factor of 2; any other within
    /// 30 %.
    pub const fn near(published: f64) -> Rule {
        let factor = if published >= 2.0 || published <= 0.5 { 2.0 } else { 1.3 };
        Rule::Between(published / factor, published * factor)
    }

    /// The bounds of a published change of a few percent, given as a ratio: half to twice the change.
    pub const fn change(published: f64) -> Rule {
        let change = published - 1.0;
        match change < 0.0 {
            true => Rule::Between(1.0 + change * 2.0, 1.0 + change / 2.0),
            false => Rule::Between(1.0 + change / 2.0, 1.0 + change * 2.0),
        }
    }

    /// The rule with both of its bounds moved to these where they are narrower.
    pub const fn within(self, low: f64, high: f64) -> Rule {
        match self {
            Rule::AtLeast(bound) => Rule::Between(bound.max(low), high),
            Rule::AtMost(bound) => Rule::Between(low, bound.min(high)),
            Rule::Between(least, most) => Rule::Between(least.max(low), most.min(high)),
        }
    }

    /// The lower and the upper bound, as far as there are any.
    pub fn bounds(self) -> (Option<f64>, Option<f64>) {
        match self {
            Rule::AtLeast(low) => (Some(low), None),
            Rule::AtMost(high) => (None, Some(high)),
            Rule::Between(low, high) => (Some(low), Some(high)),
        }
    }

    /// Whether a value is within 40 % of a bound, on either side of it.
    pub fn is_near(self, value: f64) -> bool {
        self.is_within(1.4, value)
    }

    /// Whether a value is within this factor of a bound, on either side of it.
    pub(super) fn is_within(self, factor: f64, value: f64) -> bool {
        let (low, high) = self.bounds();
        let near = |bound: f64| value <= bound * factor && value * factor >= bound;
        [low, high].into_iter().flatten().any(near)
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
    /// Where it was published: the document and the place in it.
    pub source: String,
    /// The statement.
    pub says: &'static str,
    /// The published figure.
    pub published: Option<f64>,
    /// The figure of the model: ours.
    pub ours: Option<f64>,
    /// The figure of this machine, where it can be measured.
    pub here: Option<f64>,
    /// The smallest and the largest figure of the model over several seeds, if ours is near a bound of the rule.
    pub interval: Option<[f64; 2]>,
    /// Unit of the figures.
    pub unit: &'static str,
    /// When it holds.
    pub rule: Rule,
    /// Why there is no figure of the model, or a note on the figure.
    pub reason: Option<String>,
}

impl Claim {
    /// A claim without figures. A source is a document and a place in it.
    pub(super) fn new(
        id: &'static str,
        kind: Kind,
        (document, place): (&'static str, &str),
        (says, unit): (&'static str, &'static str),
        rule: Rule,
    ) -> Claim {
        Claim {
            id,
            kind,
            document,
            source: format!("{document}: {place}"),
            says,
            published: None,
            ours: None,
            here: None,
            interval: None,
            unit,
            rule,
            reason: None,
        }
    }

    /// Whether the claim holds in the model; `None` if it could not be evaluated.
    pub fn holds(&self) -> Option<bool> {
        self.ours.map(|value| self.rule.holds(value))
    }

    /// Whether other seeds give another verdict, as far as the interval shows.
    pub fn depends_on_seed(&self) -> bool {
        let verdict = |value: &f64| Some(self.rule.holds(*value)) != self.holds();
        self.interval.is_some_and(|ends| ends.iter().any(verdict))
    }

    /// Our figure over the published one, if there are both and the published one is not zero.
    pub fn ratio(&self) -> Option<f64> {
        let published = self.published.filter(|published| *published != 0.0)?;
        Some(self.ours? / published)
    }

    /// The larger of the published figure and ours over the smaller; infinite if only one is zero.
    pub fn factor(&self) -> Option<f64> {
        let (published, modelled) = self.published.zip(self.ours)?;
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
            "ours": self.ours,
            "ratio": self.ratio(),
            "interval": self.interval,
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
        assert!(
            between.is_near(0.9) && between.is_near(2.7) && !between.is_near(2.0) && !between.is_near(4.5)
        );
        assert_eq!(
            (Rule::AtLeast(12.345).text(), Rule::AtMost(500.0).text()),
            (">= 12.3".into(), "<= 500".into())
        );
    }

    #[test]
    fn bounds_follow_the_published_figure() {
        assert_eq!(Rule::near(4.0), Rule::Between(2.0, 8.0));
        assert_eq!(Rule::near(0.25), Rule::Between(0.125, 0.5));
        assert_eq!(Rule::near(1.3), Rule::Between(1.0, 1.3 * 1.3));
        assert_eq!(Rule::near(4.0).within(3.0, 20.0), Rule::Between(3.0, 8.0));
        let bounds = [1.5, 0.75].map(Rule::change);
        assert_eq!(bounds, [Rule::Between(1.25, 2.0), Rule::Between(0.5, 0.875)]);
    }
}
