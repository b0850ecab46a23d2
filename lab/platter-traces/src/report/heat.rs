//! How many bytes go where and when: a grid over time and place for each of the first devices. As times and places get larger,
//! two columns or rows become one.

use crate::event::{Device, Event};
use std::collections::BTreeMap;

/// Columns and rows at most.
pub(super) const COLUMNS: usize = 96;
pub(super) const ROWS: usize = 48;
/// Devices with a grid.
pub(super) const DEVICES: usize = 8;
/// Width of a column and height of a row at first.
const FIRST_NS: u64 = 1_000;
const FIRST_BYTES: u64 = 4096;

/// The grid of a device.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Heat {
    /// The device.
    pub device: String,
    /// Width of a column.
    pub column_ns: u64,
    /// Height of a row.
    pub row_bytes: u64,
    /// Bytes of each column, by row, from the lowest place.
    #[serde(rename = "columns_bytes")]
    pub columns: Vec<Vec<u64>>,
}

#[derive(Default)]
pub(super) struct Grids {
    grids: BTreeMap<Device, Heat>,
    /// I/Os on devices without a grid.
    pub(super) outside: u64,
}

impl Heat {
    fn new(device: &Device) -> Heat {
        Heat { device: device.text(), column_ns: FIRST_NS, row_bytes: FIRST_BYTES, columns: Vec::new() }
    }

    fn add(&mut self, since_ns: u64, event: &Event) {
        let last = event.end().saturating_sub(1).max(event.offset);
        while since_ns / self.column_ns >= COLUMNS as u64 {
            self.column_ns = self.column_ns.saturating_mul(2);
            let columns = std::mem::take(&mut self.columns);
            let sum = |pair: &[Vec<u64>]| match pair {
                [one, two] => one.iter().zip(two).map(|(a, b)| a.saturating_add(*b)).collect(),
                _ => pair[0].clone(),
            };
            self.columns = columns.chunks(2).map(sum).collect();
        }
        while last / self.row_bytes >= ROWS as u64 {
            self.row_bytes = self.row_bytes.saturating_mul(2);
            for column in &mut self.columns {
                let mut rows: Vec<u64> = column
                    .chunks(2)
                    .map(|pair| pair.iter().fold(0, |sum: u64, part| sum.saturating_add(*part)))
                    .collect();
                rows.resize(ROWS, 0);
                *column = rows;
            }
        }
        let at = (since_ns / self.column_ns) as usize;
        if self.columns.len() <= at {
            self.columns.resize(at + 1, vec![0; ROWS]);
        }
        let mut offset = event.offset;
        while offset <= last && event.length > 0 {
            let row = offset / self.row_bytes;
            let end = event.end().min((row + 1).saturating_mul(self.row_bytes));
            let cell = &mut self.columns[at][row as usize];
            *cell = cell.saturating_add(end - offset);
            offset = end;
        }
    }
}

impl Grids {
    pub(super) fn add(&mut self, since_ns: u64, event: &Event) {
        if self.grids.len() < DEVICES && !self.grids.contains_key(&event.device) {
            self.grids.insert(event.device.clone(), Heat::new(&event.device));
        }
        match self.grids.get_mut(&event.device) {
            Some(grid) => grid.add(since_ns, event),
            None => self.outside += 1,
        }
    }

    pub(super) fn grids(&self) -> Vec<Heat> {
        self.grids.values().cloned().collect()
    }
}
