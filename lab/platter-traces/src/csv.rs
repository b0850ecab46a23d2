//! Formats whose lines are fields with commas between them.

pub(crate) mod alibaba;
pub(crate) mod msr;
pub(crate) mod spc;
pub(crate) mod systor;
pub(crate) mod tencent;
pub(crate) mod vscsi;

use crate::error::quote;
use crate::event::{Device, Direction, Event, Item};
use crate::source::{Flow, Lines};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A format of one event a line, whose first line may name the fields.
trait Rows {
    const FIELDS: &str;

    fn event(&mut self, line: &str) -> Result<Event, String>;
}

impl<T: Rows> Lines for T {
    fn line(&mut self, line: &str, first: bool, out: &mut VecDeque<Item>) -> Result<Flow, String> {
        if !(first && line == T::FIELDS) {
            out.push_back(Item::Event(self.event(line)?));
        }
        Ok(Flow::Next)
    }
}

/// The fields of a line, of which there must be as many as names.
fn split<'l, const N: usize>(line: &'l str, names: &str) -> Result<[&'l str; N], String> {
    let mut fields = [""; N];
    let mut count = 0;
    for field in line.split(',') {
        if let Some(place) = fields.get_mut(count) {
            *place = field.trim();
        }
        count += 1;
    }
    match count == N {
        true => Ok(fields),
        false => Err(format!("{count} fields; a line has {N}: {names}")),
    }
}

/// A direction by the words for a read and a write.
fn direction(name: &str, text: &str, read: &str, write: &str) -> Result<Direction, String> {
    match text {
        _ if text.eq_ignore_ascii_case(read) => Ok(Direction::Read),
        _ if text.eq_ignore_ascii_case(write) => Ok(Direction::Write),
        _ => Err(format!("{name} `{}` is not {read} or {write}", quote(text))),
    }
}

/// Whether a name is a number as these formats write it.
pub(crate) fn is_number(name: &str) -> bool {
    name.parse::<u32>().is_ok_and(|number| number.to_string() == name)
}

/// Numbers for devices: those whose name is a number keep it.
pub(crate) struct Numbers {
    most: u32,
    given: BTreeMap<Device, u32>,
    used: BTreeSet<u32>,
    next: u32,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers::up_to(u32::MAX)
    }
}

impl Numbers {
    pub(crate) fn up_to(most: u32) -> Numbers {
        Numbers { most, given: BTreeMap::new(), used: BTreeSet::new(), next: 0 }
    }

    /// The number of a device, and whether it is not in its name.
    pub(crate) fn of(&mut self, device: &Device) -> (u32, bool) {
        let own = match device {
            Device::Number(number) => Some(*number),
            Device::Name(name) => name.parse().ok().filter(|_| is_number(name)),
        };
        if let Some(&given) = self.given.get(device) {
            return (given, own != Some(given));
        }
        let number = own.filter(|own| *own <= self.most && !self.used.contains(own)).unwrap_or_else(|| {
            while self.used.contains(&self.next) {
                self.next = self.next.wrapping_add(1);
            }
            self.next
        });
        self.used.insert(number);
        self.given.insert(device.clone(), number);
        (number, own != Some(number))
    }
}

#[cfg(test)]
mod tests;
