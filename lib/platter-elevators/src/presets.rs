//! The elevators of kernels of the past, as data.

use crate::by_name;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use platter_block::elevator::Elevator;

/// An elevator with the values of its parameters in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The kernel.
    pub kernel: &'static str,
    /// The elevator.
    pub elevator: &'static str,
    /// Parameters that differ from the defaults, in the order in which they are set: a name, and a value as in
    /// device specs.
    pub settings: &'static [(&'static str, &'static str)],
}

const fn preset(
    kernel: &'static str,
    elevator: &'static str,
    settings: &'static [(&'static str, &'static str)],
) -> Preset {
    Preset { kernel, elevator, settings }
}

/// Each batch of requests ends at the first gap.
const CONTIGUOUS: &[(&str, &str)] = &[("batch_rule", "contiguous")];
const CONTIGUOUS_OLDEST: &[(&str, &str)] = &[("batch_rule", "contiguous-oldest")];

/// noop before 2.6.15.
const FRONT_MERGES: &[(&str, &str)] = &[("front_merges", "1")];

/// Requests of 2.4.
const MAX_SECTORS: (&str, &str) = ("max_sectors", "255");

/// A batch of writes that had to wait for the driver has no time of its own.
const STALE: (&str, &str) = ("stale_write_batch", "1");

/// Every elevator of every kernel, by kernel.
///
/// 2.5.61 stands for the kernel that Morton measured in February 2003: its anticipatory elevator and its CFQ are
/// patches older than any release, for which the oldest releases are used. 2.6.10-ts is the patch with time slices of
/// December 2004, with the slice, idle time and depth that its announcement names.
pub static PRESETS: &[Preset] = &[
    preset("2.4.18", "linus", &[("kernel", "2.4.1"), MAX_SECTORS]),
    preset("2.4.20", "linus", &[("kernel", "2.4.20"), MAX_SECTORS]),
    preset("2.4.25", "linus", &[("kernel", "2.4.20"), MAX_SECTORS]),
    preset("2.5.61", "deadline", CONTIGUOUS),
    preset("2.5.61", "anticipatory", &[("kernel", "2.6.0"), STALE]),
    preset("2.5.61", "cfq-v1", &[]),
    preset("2.6.0", "noop", FRONT_MERGES),
    preset("2.6.0", "deadline", CONTIGUOUS),
    preset("2.6.0", "anticipatory", &[("kernel", "2.6.0"), STALE]),
    preset("2.6.5", "noop", FRONT_MERGES),
    preset("2.6.5", "deadline", CONTIGUOUS),
    preset("2.6.5", "anticipatory", &[("kernel", "2.6.2"), STALE]),
    preset("2.6.5", "cfq-v1", &[]),
    preset("2.6.7", "noop", FRONT_MERGES),
    preset("2.6.7", "deadline", CONTIGUOUS),
    preset("2.6.7", "anticipatory", &[("kernel", "2.6.7"), STALE]),
    preset("2.6.7", "cfq-v1", &[]),
    preset("2.6.10", "noop", FRONT_MERGES),
    preset("2.6.10", "deadline", CONTIGUOUS),
    preset("2.6.10", "anticipatory", &[("kernel", "2.6.7"), STALE]),
    preset("2.6.10", "cfq-v2", &[("swap_fifo_expire", "1")]),
    preset("2.6.10-ts", "deadline", CONTIGUOUS),
    preset("2.6.10-ts", "anticipatory", &[("kernel", "2.6.7"), STALE]),
    preset(
        "2.6.10-ts",
        "cfq",
        &[
            ("kernel", "2.6.16"),
            ("slice_sync", "83"),
            ("slice_idle", "4"),
            ("max_depth", "4"),
            ("idle_grace", "250"),
        ],
    ),
    preset("2.6.16", "noop", &[]),
    preset("2.6.16", "deadline", CONTIGUOUS),
    preset("2.6.16", "anticipatory", &[("kernel", "2.6.16"), STALE]),
    preset("2.6.16", "cfq", &[("kernel", "2.6.16")]),
    preset("2.6.20", "noop", &[]),
    preset("2.6.20", "deadline", CONTIGUOUS),
    preset("2.6.20", "anticipatory", &[("kernel", "2.6.16"), STALE]),
    preset("2.6.20", "cfq", &[("kernel", "2.6.20")]),
    preset("2.6.24", "noop", &[]),
    preset("2.6.24", "deadline", CONTIGUOUS_OLDEST),
    preset("2.6.24", "anticipatory", &[("kernel", "2.6.16"), STALE]),
    preset("2.6.24", "cfq", &[("kernel", "2.6.22")]),
    preset("2.6.28", "noop", &[]),
    preset("2.6.28", "deadline", &[("batch_rule", "any")]),
    preset("2.6.28", "anticipatory", &[("kernel", "2.6.16"), STALE]),
    preset("2.6.28", "cfq", &[("kernel", "2.6.22")]),
];

/// The elevators of a kernel; none if it is not in the table.
pub fn of_kernel(kernel: &str) -> impl Iterator<Item = &'static Preset> {
    PRESETS.iter().filter(move |preset| preset.kernel == kernel)
}

/// An elevator as a kernel had it.
pub fn find(kernel: &str, elevator: &str) -> Option<&'static Preset> {
    of_kernel(kernel).find(|preset| preset.elevator == elevator)
}

impl Preset {
    /// The elevator as in device specs: `deadline(batch_rule=contiguous)`.
    pub fn spec(&self) -> String {
        if self.settings.is_empty() {
            return self.elevator.into();
        }
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}({})", self.elevator, settings.join(", "))
    }

    /// Makes the elevator with these values; `None` if a row of the table does not fit its elevator.
    pub fn make(&self) -> Option<Box<dyn Elevator>> {
        let row = by_name(self.elevator)?;
        let mut elevator = (row.make)();
        for (name, value) in self.settings {
            let param = row.params.iter().find(|param| param.name == *name)?;
            let word = param.words.iter().position(|word| word == value);
            let value = match word {
                Some(place) => i64::try_from(place).ok()?,
                None => value.parse().ok()?,
            };
            elevator.set(name, value).ok()?;
        }
        Some(elevator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_makes_an_elevator_with_its_values() {
        let names: BTreeSet<_> = PRESETS.iter().map(|p| (p.kernel, p.elevator)).collect();
        assert_eq!(names.len(), PRESETS.len(), "no pair is there twice");
        for preset in PRESETS {
            let elevator = preset.make().unwrap_or_else(|| panic!("{preset:?}"));
            for (name, value) in preset.settings {
                let param = elevator.params().iter().find(|param| param.name == *name).unwrap();
                let got = elevator.get(name).unwrap();
                let shown = param.words.get(got as usize).map_or(got.to_string(), |word| (*word).to_owned());
                assert_eq!(shown, *value, "{preset:?}: {name}");
            }
        }
    }

    #[test]
    fn values_are_those_of_the_kernels() {
        let value =
            |kernel, elevator, name| find(kernel, elevator).unwrap().make().unwrap().get(name).unwrap();
        // Linux 2.6.27 and earlier end a batch at a gap; the start point changed in 2.6.24.
        let rules = ["2.5.61", "2.6.5", "2.6.20", "2.6.24", "2.6.28"]
            .map(|kernel| value(kernel, "deadline", "batch_rule"));
        assert_eq!(rules, [0, 0, 0, 2, 1]);
        let rules =
            ["2.5.61", "2.6.5", "2.6.7", "2.6.16"].map(|kernel| value(kernel, "anticipatory", "rule"));
        assert_eq!(rules, [0, 1, 1, 2]);
        let batches = ["2.5.61", "2.6.5", "2.6.7", "2.6.16"]
            .map(|kernel| value(kernel, "anticipatory", "read_batch_expire"));
        assert_eq!(batches, [200, 250, 500, 500]);
        assert_eq!(["2.4.18", "2.4.25"].map(|kernel| value(kernel, "linus", "read_latency")), [8192, 2048]);
        let ts = ["slice_sync", "slice_idle", "max_depth"].map(|name| value("2.6.10-ts", "cfq", name));
        assert_eq!(ts, [83, 4, 4]);
        let spec = |kernel, elevator| find(kernel, elevator).unwrap().spec();
        assert_eq!(["2.6.5", "2.6.16"].map(|kernel| value(kernel, "noop", "front_merges")), [1, 0]);
        assert_eq!(spec("2.6.16", "noop"), "noop");
        assert_eq!(spec("2.6.5", "deadline"), "deadline(batch_rule=contiguous)");
        assert!(find("2.6.5", "cfq").is_none() && of_kernel("2.6.99").next().is_none());
    }
}
