//! The paper's own figures: Table 3, on eight Pentium III of 700 MHz with 32 disks.

use super::Call;
use serde::Serialize;

/// A row of Table 3. Changes are in percent, as printed there, against the row before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct PaperRow {
    pub(super) call: Call,
    pub(super) rung: &'static str,
    /// Its name in the paper.
    pub(super) kernel: &'static str,
    pub(super) mb_per_s: u32,
    #[serde(skip)]
    pub(super) rate_change: Option<i32>,
    #[serde(rename = "cpu_idle_pct")]
    pub(super) idle_pct: u32,
    #[serde(skip)]
    pub(super) idle_change: Option<i32>,
}

const fn row(
    call: Call,
    (rung, kernel): (&'static str, &'static str),
    (mb_per_s, rate_change): (u32, Option<i32>),
    (idle_pct, idle_change): (u32, Option<i32>),
) -> PaperRow {
    PaperRow { call, rung, kernel, mb_per_s, rate_change, idle_pct, idle_change }
}

/// Table 3. Its last rows are those of the first kernels with bios, whose `readv` did not use them yet.
pub(super) static TABLE_3: &[PaperRow] = &[
    row(Call::Read, ("Baseline", "Baseline"), (54, None), (64, None)),
    row(Call::Read, ("SB", "SB"), (133, Some(147)), (21, Some(-68))),
    row(Call::Read, ("SBI", "SBI"), (235, Some(77)), (61, Some(192))),
    row(Call::Read, ("SBIR", "SBIR"), (240, Some(2)), (94, Some(55))),
    row(Call::Read, ("bio", "2.5.17"), (243, None), (97, None)),
    row(Call::Readv, ("SBIR", "SBIR"), (104, None), (41, None)),
    row(Call::Readv, ("SBIRV", "SBIRV"), (241, Some(132)), (94, Some(130))),
    row(Call::Readv, ("bio", "2.5.17"), (150, None), (61, None)),
];

/// Memory that the paper counts descriptors in: 2.4's `vmalloc` space (section 8).
pub(super) const DESCRIPTOR_SPACE: u64 = 128 << 20;

/// The paper's results for a rung with a call, if there are any.
pub(super) fn find(call: Call, rung: &str) -> Option<&'static PaperRow> {
    TABLE_3.iter().find(|row| row.call == call && row.rung == rung)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder;

    #[test]
    fn every_row_is_of_a_rung() {
        for row in TABLE_3 {
            assert!(ladder::find(row.rung).is_some(), "{}", row.rung);
        }
        assert_eq!(find(Call::Read, "SBIRV"), None);
        assert_eq!(find(Call::Readv, "SBIRV").map(|row| row.mb_per_s), Some(241));
    }
}
