//! Totals of claims that count only what the model predicts.

use super::claim::Claim;
use super::kind::Kind;
use serde::Serialize;

/// Totals of the predictions of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// The document.
    pub document: &'static str,
    /// Its predictions.
    pub predictions: usize,
    /// How many hold.
    pub hold: usize,
    /// How many do not hold.
    pub fail: usize,
    /// How many have both a published figure and ours.
    pub figures: usize,
    /// Of these, how many are within 15 %.
    pub within_15_percent: usize,
    /// Of these, how many are within 30 %.
    pub within_30_percent: usize,
    /// Of these, how many are within a factor of 2.
    pub within_factor_2: usize,
}

impl Tally {
    /// The totals of each document with predictions, in the order in which claims name them.
    pub fn of(claims: &[Claim]) -> Vec<Tally> {
        let mut tallies: Vec<Tally> = Vec::new();
        for claim in claims.iter().filter(|claim| claim.kind == Kind::Prediction) {
            let place = tallies.iter().position(|tally| tally.document == claim.document);
            let place = place.unwrap_or_else(|| {
                tallies.push(Tally { document: claim.document, ..Tally::default() });
                tallies.len() - 1
            });
            tallies[place].add(claim);
        }
        tallies
    }

    fn add(&mut self, claim: &Claim) {
        self.predictions += 1;
        self.hold += usize::from(claim.holds() == Some(true));
        self.fail += usize::from(claim.holds() == Some(false));
        let Some(factor) = claim.factor() else { return };
        self.figures += 1;
        self.within_15_percent += usize::from(factor <= 1.15);
        self.within_30_percent += usize::from(factor <= 1.3);
        self.within_factor_2 += usize::from(factor <= 2.0);
    }

    /// The totals as a sentence.
    pub fn text(&self) -> String {
        format!(
            "{}: {} of {} predictions hold, {} do not, {} could not be evaluated; of {} with figures {} are within \
             15 %, {} within 30 %, {} within a factor of 2",
            self.document,
            self.hold,
            self.predictions,
            self.fail,
            self.predictions - self.hold - self.fail,
            self.figures,
            self.within_15_percent,
            self.within_30_percent,
            self.within_factor_2
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Rule;

    fn claim(kind: Kind, published: f64, ours: Option<f64>) -> Claim {
        Claim {
            published: Some(published),
            ours,
            ..Claim::new("id", kind, ("document", "place"), ("says", "s"), Rule::AtLeast(1.0))
        }
    }

    #[test]
    fn only_predictions_count_and_distance_counts_both_ways() {
        let mut claims: Vec<Claim> = [Kind::Input, Kind::Derived, Kind::Mechanism, Kind::Ours]
            .map(|kind| claim(kind, 1.0, Some(1.0)))
            .into();
        assert_eq!(Tally::of(&claims), []);
        for ours in [1.1, 0.8, 1.9, 5.0, 0.4] {
            claims.push(claim(Kind::Prediction, 1.0, Some(ours)));
        }
        claims.push(claim(Kind::Prediction, 1.0, None));
        let tallies = Tally::of(&claims);
        let [tally] = &tallies[..] else { panic!("{tallies:?}") };
        assert_eq!((tally.predictions, tally.hold, tally.fail, tally.figures), (6, 3, 2, 5));
        let within = (tally.within_15_percent, tally.within_30_percent, tally.within_factor_2);
        assert_eq!(within, (1, 2, 3));
    }

    #[test]
    fn a_published_zero_is_met_only_by_zero() {
        assert_eq!(claim(Kind::Prediction, 0.0, Some(0.0)).factor(), Some(1.0));
        assert_eq!(claim(Kind::Prediction, 0.0, Some(0.1)).factor(), Some(f64::INFINITY));
    }
}
