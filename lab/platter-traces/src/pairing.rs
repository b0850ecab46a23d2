//! Arrivals that wait for their completion, to be given on in their order with the time that they took.

use crate::event::{Device, Direction, Event};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Most arrivals that wait. Beyond, the oldest is given on without a time.
const MOST: usize = 1 << 18;

/// Length and direction of arrivals, by place and number.
type Places = BTreeMap<(u64, u64), (u64, Direction)>;

/// Arrivals that wait.
#[derive(Default)]
pub(crate) struct Pairing {
    /// In their order; whether each is complete.
    waiting: VecDeque<(Event, bool)>,
    /// The number of the first of them.
    first: u64,
    /// By device, place and number.
    open: HashMap<Device, Places>,
}

impl Pairing {
    pub(crate) fn arrive(&mut self, event: Event) {
        let number = self.first + self.waiting.len() as u64;
        let places = self.open.entry(event.device.clone()).or_default();
        places.insert((event.offset, number), (event.length, event.direction));
        self.waiting.push_back((event, false));
    }

    /// An arrival that waits for nothing but those before it.
    pub(crate) fn arrive_done(&mut self, event: Event) {
        self.waiting.push_back((event, true));
    }

    /// A request ended: all arrivals within it have, one at each place.
    pub(crate) fn complete(&mut self, event: &Event) {
        let Some(places) = self.open.get_mut(&event.device) else { return };
        // One without data has only its place.
        let last = if event.length == 0 { (event.offset, u64::MAX) } else { (event.end() - 1, u64::MAX) };
        let mut ended: Vec<(u64, u64)> = Vec::new();
        for (&(offset, number), &(length, direction)) in places.range((event.offset, 0)..=last) {
            let within = offset.saturating_add(length) <= event.end() && (length > 0) == (event.length > 0);
            let again = ended.last().is_some_and(|before| before.0 == offset);
            if within && !again && direction == event.direction {
                ended.push((offset, number));
            }
        }
        for key in ended {
            places.remove(&key);
            if let Some((arrival, done)) = self.waiting.get_mut((key.1 - self.first) as usize) {
                arrival.latency_ns = Some(event.time_ns.saturating_sub(arrival.time_ns));
                *done = true;
            }
        }
    }

    /// The next arrival that need not wait any more.
    pub(crate) fn next(&mut self, at_end: bool) -> Option<Event> {
        let done = self.waiting.front()?.1;
        if !done && !at_end && self.waiting.len() <= MOST {
            return None;
        }
        let (event, _) = self.waiting.pop_front()?;
        if !done && let Some(places) = self.open.get_mut(&event.device) {
            places.remove(&(event.offset, self.first));
        }
        self.first += 1;
        Some(event)
    }
}
