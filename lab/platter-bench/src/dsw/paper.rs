//! The paper's own figures: Table 2, on eight Pentium III of 700 MHz with six RAID controllers.

use serde::Serialize;

/// A row of Table 2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct PaperRow {
    pub(super) rung: &'static str,
    /// Increase of the metric against the row before.
    pub(super) increase_pct: Option<u32>,
    /// Processor time in the program, in the kernel, and idle.
    pub(super) cpu_user_pct: u32,
    pub(super) cpu_kernel_pct: u32,
    pub(super) cpu_idle_pct: u32,
}

const fn row(rung: &'static str, increase: Option<u32>, (user, kernel, idle): (u32, u32, u32)) -> PaperRow {
    PaperRow { rung, increase_pct: increase, cpu_user_pct: user, cpu_kernel_pct: kernel, cpu_idle_pct: idle }
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
            assert_eq!(row.cpu_user_pct + row.cpu_kernel_pct + row.cpu_idle_pct, 100);
        }
        assert_eq!(find("bio"), None);
    }
}
