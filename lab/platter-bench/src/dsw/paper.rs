//! The paper's own figures: Table 2, on eight Pentium III of 700 MHz with six RAID controllers.

/// A row of Table 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PaperRow {
    pub(super) rung: &'static str,
    /// Increase of the metric against the row before, in percent.
    pub(super) increase: Option<u32>,
    /// Processor time in the program, in the kernel, and idle, in percent.
    pub(super) user: u32,
    pub(super) kernel: u32,
    pub(super) idle: u32,
}

const fn row(rung: &'static str, increase: Option<u32>, (user, kernel, idle): (u32, u32, u32)) -> PaperRow {
    PaperRow { rung, increase, user, kernel, idle }
}

/// Table 2.
pub(super) static TABLE_2: &[PaperRow] = &[
    row("Baseline", None, (16, 43, 41)),
    row("SB", Some(37), (22, 71, 7)),
    row("SBI", Some(78), (41, 37, 22)),
    row("SBIR", Some(16), (47, 34, 19)),
    row("SBIRV", Some(18), (55, 9, 36)),
];

/// The paper's results for a rung, if there are any.
pub(super) fn find(rung: &str) -> Option<&'static PaperRow> {
    TABLE_2.iter().find(|row| row.rung == rung)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_a_rung_and_adds_up() {
        for row in TABLE_2 {
            assert!(crate::ladder::find(row.rung).is_some(), "{}", row.rung);
            assert_eq!(row.user + row.kernel + row.idle, 100);
        }
        assert_eq!(find("bio"), None);
    }
}
