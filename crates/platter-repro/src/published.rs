//! Every number that the five documents publish as a result, and the claim that reproduces it.
//!
//! The list was typed from the documents, not from the claims, so that a figure without a claim is seen. Statements in words are
//! not in it.

mod others;
mod paper;

/// A published number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figure {
    /// The document.
    pub document: &'static str,
    /// The place in it.
    pub place: &'static str,
    /// What it is, with its unit.
    pub what: &'static str,
    /// The number.
    pub value: f64,
    /// Where it is reproduced.
    pub shown: Shown,
}

/// Where a published number is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shown {
    /// It is the published figure of this claim of this experiment.
    By(&'static str, &'static str),
    /// It is a condition of this claim, which has another figure.
    Within(&'static str, &'static str),
    /// It is not reproduced, for this reason.
    Not(&'static str),
}

const fn figure(
    document: &'static str,
    place: &'static str,
    what: &'static str,
    value: f64,
    shown: Shown,
) -> Figure {
    Figure { document, place, what, value, shown }
}

/// All figures, by document.
pub fn figures() -> impl Iterator<Item = &'static Figure> {
    paper::FIGURES.iter().chain(others::FIGURES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_is_listed_once() {
        let keys: Vec<_> = figures().map(|figure| (figure.document, figure.place, figure.what)).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        assert_eq!((paper::FIGURES.len(), others::FIGURES.len()), (145, 68));
    }

    /// Of each table of the paper, its number of cells.
    #[test]
    fn tables_are_complete() {
        let cells = |table: &str| paper::FIGURES.iter().filter(|figure| figure.place == table).count();
        let tables = ["Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Table 6", "Table 7", "Table 8"];
        assert_eq!(tables.map(cells), [5, 19, 24, 5, 29, 29, 11, 18]);
    }
}
