//! Every number that the five documents publish as a result, their statements in words, and the claims that reproduce them.
//!
//! The lists were typed from the documents, not from the claims, so that a figure or a statement without a claim is seen.

mod others;
mod paper;
mod words;

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

/// A published statement in words, paraphrased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The document.
    pub document: &'static str,
    /// The place in it; of mails the author and the date.
    pub place: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Where it is tested. A claim that tests it need not be worded as the statement is.
    pub shown: Shown,
}

/// Where a published number or statement is reproduced.
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

/// All statements in words, by document.
pub fn statements() -> impl Iterator<Item = &'static Statement> {
    words::STATEMENTS.iter()
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

    #[test]
    fn every_statement_is_listed_once() {
        let keys: Vec<_> = statements().map(|statement| (statement.document, statement.says)).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        let documents: BTreeSet<&str> = figures().map(|figure| figure.document).collect();
        let of = |document: &str| keys.iter().filter(|key| key.0 == document).count();
        let counts: Vec<(usize, &str)> =
            documents.iter().map(|document| (of(document), &document[..4])).collect();
        assert_eq!(counts, [(13, "Axbo"), (9, "Dale"), (24, "Rand"), (20, "Stae"), (18, "Wong")]);
    }

    /// Of each table of the paper, its number of cells.
    #[test]
    fn tables_are_complete() {
        let cells = |table: &str| paper::FIGURES.iter().filter(|figure| figure.place == table).count();
        let tables = ["Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Table 6", "Table 7", "Table 8"];
        assert_eq!(tables.map(cells), [5, 19, 24, 5, 29, 29, 11, 18]);
    }
}
