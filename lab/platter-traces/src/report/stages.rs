//! The stages of I/Os, as btt has them: each arrival, request, issue and completion paired with those before it, by device and place.

use super::spread::{Counter, Spread};
use crate::event::{Action, Device, Event, Extra, SECTOR};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Most I/Os and requests that are under way at once. When there are more, the older half is given up.
const MOST: usize = 1 << 18;

/// The stages: key, and the words for it.
pub const STAGES: [(&str, &str); 9] = [
    ("q2q", "between arrivals on a device"),
    ("q2g", "arrival to request"),
    ("q2m", "arrival to merge"),
    ("g2i", "request to scheduler"),
    ("i2d", "scheduler to driver"),
    ("m2d", "merge to driver"),
    ("d2c", "driver to completion"),
    ("q2c", "arrival to completion"),
    ("flush", "driver to completion, of what has no data"),
];
const Q2Q: usize = 0;
const Q2G: usize = 1;
const Q2M: usize = 2;
const G2I: usize = 3;
const I2D: usize = 4;
const M2D: usize = 5;
const D2C: usize = 6;
const Q2C: usize = 7;
const FLUSH: usize = 8;

/// An I/O that arrived and is in no request.
struct Arrived {
    end: u64,
    at: u64,
}

/// A request.
#[derive(Default)]
struct Request {
    end: u64,
    /// When each of its I/Os arrived.
    arrived: Vec<u64>,
    /// When I/Os were merged into it.
    merged: Vec<u64>,
    made: Option<u64>,
    inserted: Option<u64>,
    issued: Option<u64>,
}

/// By place and number.
type Places<T> = BTreeMap<(u64, u64), T>;

#[derive(Default)]
struct OfDevice {
    arrived: Places<Arrived>,
    requests: Places<Request>,
    /// Places at the end of requests, with those at their start.
    ends: Places<u64>,
    last_arrival: Option<u64>,
}

/// All stages.
#[derive(Default)]
pub(super) struct Stages {
    devices: HashMap<Device, OfDevice>,
    counters: [Counter; 9],
    /// When what has no data went to the driver. It has no place by which it could be found.
    flushes: HashMap<Device, VecDeque<u64>>,
    number: u64,
    under_way: usize,
    given_up: u64,
}

/// The key of the oldest entry at a place that fits.
fn find<T>(places: &Places<T>, at: u64, fits: impl Fn(&T) -> bool) -> Option<(u64, u64)> {
    places.range((at, 0)..=(at, u64::MAX)).find(|(_, entry)| fits(entry)).map(|(key, _)| *key)
}

impl OfDevice {
    fn take_arrived(&mut self, event: &Event) -> Option<u64> {
        let whole = find(&self.arrived, event.offset, |entry| entry.end == event.end());
        let key = whole.or_else(|| find(&self.arrived, event.offset, |_| true))?;
        self.arrived.remove(&key).map(|entry| entry.at)
    }

    fn put(&mut self, start: u64, number: u64, request: Request) {
        self.ends.insert((request.end, number), start);
        self.requests.insert((start, number), request);
    }

    fn take(&mut self, key: (u64, u64)) -> Option<Request> {
        let request = self.requests.remove(&key)?;
        self.ends.remove(&(request.end, key.1));
        Some(request)
    }

    /// The request that an I/O was merged into.
    fn host(&self, event: &Event) -> Option<(u64, u64)> {
        let is_open =
            |key: &(u64, u64)| self.requests.get(key).is_some_and(|request| request.issued.is_none());
        if event.action == Action::FrontMerge {
            return find(&self.requests, event.end(), |request| request.issued.is_none());
        }
        let behind = self.ends.range((event.offset, 0)..=(event.offset, u64::MAX));
        behind.map(|(&(_, number), &start)| (start, number)).find(is_open)
    }
}

impl Stages {
    pub(super) fn add(&mut self, event: &Event) {
        if event.length == 0 && event.action != Action::Split {
            return self.flush(event);
        }
        self.number += 1;
        if self.under_way > MOST {
            self.give_up();
        }
        let number = self.number;
        if !self.devices.contains_key(&event.device) {
            self.devices.insert(event.device.clone(), OfDevice::default());
        }
        let Some(device) = self.devices.get_mut(&event.device) else { return };
        let count = &mut self.counters;
        let now = event.time_ns;
        let since = |then: u64| now.saturating_sub(then);
        match event.action {
            Action::Queue => {
                let last = device.last_arrival.replace(now);
                last.into_iter().for_each(|then| count[Q2Q].add(since(then)));
                match event.latency_ns {
                    Some(latency) => count[Q2C].add(latency),
                    None => {
                        device.arrived.insert((event.offset, number), Arrived { end: event.end(), at: now });
                        self.under_way += 1;
                    }
                }
            }
            Action::Split => {
                let Extra::Cut(sector) = event.extra else { return };
                let cut = sector.saturating_mul(SECTOR);
                if let Some(key) = find(&device.arrived, event.offset, |entry| cut < entry.end)
                    && cut > event.offset
                    && let Some(entry) = device.arrived.get_mut(&key)
                {
                    let rest = Arrived { end: entry.end, at: entry.at };
                    entry.end = cut;
                    device.arrived.insert((cut, number), rest);
                    self.under_way += 1;
                }
            }
            Action::GetRequest => {
                let arrived = device.take_arrived(event);
                self.under_way += usize::from(arrived.is_none());
                arrived.into_iter().for_each(|then| count[Q2G].add(since(then)));
                let arrived = arrived.into_iter().collect();
                device.put(
                    event.offset,
                    number,
                    Request { end: event.end(), arrived, made: Some(now), ..Request::default() },
                );
            }
            Action::BackMerge | Action::FrontMerge => {
                let arrived = device.take_arrived(event);
                self.under_way -= usize::from(arrived.is_some());
                arrived.into_iter().for_each(|then| count[Q2M].add(since(then)));
                if let Some(key) = device.host(event)
                    && let Some(mut request) = device.take(key)
                {
                    request.arrived.extend(arrived);
                    request.merged.push(now);
                    request.end = request.end.max(event.end());
                    device.put(key.0.min(event.offset), key.1, request);
                }
            }
            _ => self.request(event),
        }
    }

    /// As in btt, what has no data is in no other stage: several flushes may be one for the driver.
    fn flush(&mut self, event: &Event) {
        let now = event.time_ns;
        event.latency_ns.into_iter().for_each(|latency| self.counters[FLUSH].add(latency));
        match event.action {
            Action::Issue => {
                let issued = self.flushes.entry(event.device.clone()).or_default();
                if issued.len() < MOST {
                    issued.push_back(now);
                }
            }
            Action::Complete => {
                let then = self.flushes.get_mut(&event.device).and_then(VecDeque::pop_front);
                then.into_iter().for_each(|then| self.counters[FLUSH].add(now.saturating_sub(then)));
            }
            _ => {}
        }
    }

    /// What happens to requests.
    fn request(&mut self, event: &Event) {
        let Some(device) = self.devices.get_mut(&event.device) else { return };
        let count = &mut self.counters;
        let now = event.time_ns;
        let since = |then: u64| now.saturating_sub(then);
        match event.action {
            Action::Insert => {
                let open = find(&device.requests, event.offset, |request| request.inserted.is_none());
                if let Some(request) = open.and_then(|key| device.requests.get_mut(&key)) {
                    request.inserted = Some(now);
                    request.made.into_iter().for_each(|then| count[G2I].add(since(then)));
                }
            }
            Action::Issue => {
                let open = find(&device.requests, event.offset, |request| request.issued.is_none());
                let (key, mut request) = match open.and_then(|key| Some((key, device.take(key)?))) {
                    Some(found) => found,
                    None => {
                        // Its making is not in the trace; its arrival may be.
                        let arrived = device.take_arrived(event);
                        self.under_way += usize::from(arrived.is_none());
                        let arrived = arrived.into_iter().collect();
                        ((event.offset, self.number), Request { arrived, ..Request::default() })
                    }
                };
                request.inserted.into_iter().for_each(|then| count[I2D].add(since(then)));
                request.merged.drain(..).for_each(|then| count[M2D].add(since(then)));
                request.issued = Some(now);
                request.end = event.end();
                device.put(key.0, key.1, request);
            }
            Action::Requeue => {
                let issued = find(&device.requests, event.offset, |request| request.issued.is_some());
                if let Some(request) = issued.and_then(|key| device.requests.get_mut(&key)) {
                    request.issued = None;
                }
            }
            Action::Complete => self.complete(event),
            _ => {}
        }
    }

    fn complete(&mut self, event: &Event) {
        let Some(device) = self.devices.get_mut(&event.device) else { return };
        let count = &mut self.counters;
        let since = |then: u64| event.time_ns.saturating_sub(then);
        let issued = find(&device.requests, event.offset, |request| request.issued.is_some());
        let Some((key, request)) = issued.and_then(|key| Some((key, device.take(key)?))) else {
            if let Some(then) = device.take_arrived(event) {
                self.under_way -= 1;
                count[Q2C].add(since(then));
            }
            return;
        };
        if event.length > 0 && event.end() < request.end {
            // The rest is still under way.
            return device.put(event.end(), key.1, request);
        }
        self.under_way = self.under_way.saturating_sub(1);
        // As in btt, once for each I/O of the request.
        for _ in 0..request.arrived.len().max(1) {
            request.issued.into_iter().for_each(|then| count[D2C].add(since(then)));
        }
        request.arrived.iter().for_each(|then| count[Q2C].add(since(*then)));
    }

    /// Gives up the older half of what is under way.
    fn give_up(&mut self) {
        let mut numbers: Vec<u64> = Vec::with_capacity(self.under_way);
        for device in self.devices.values() {
            numbers.extend(device.arrived.keys().map(|key| key.1));
            numbers.extend(device.requests.keys().map(|key| key.1));
        }
        let before = numbers.len();
        let middle = before / 2;
        let oldest = if numbers.is_empty() { 0 } else { *numbers.select_nth_unstable(middle).1 };
        self.under_way = 0;
        for device in self.devices.values_mut() {
            device.arrived.retain(|key, _| key.1 >= oldest);
            device.requests.retain(|key, _| key.1 >= oldest);
            device.ends.retain(|key, _| key.1 >= oldest);
            self.under_way += device.arrived.len() + device.requests.len();
        }
        self.given_up += (before - self.under_way) as u64;
    }

    /// I/Os whose end was not seen: given up, or still under way.
    pub(super) fn unfinished(&self) -> u64 {
        if self.counters[D2C].spread().is_none() && self.counters[Q2C].spread().is_none() {
            // The trace has only arrivals.
            return 0;
        }
        let open = self.devices.values().map(|device| device.arrived.len() + device.requests.len());
        self.given_up + open.sum::<usize>() as u64
    }

    /// Each stage, in the order of [`STAGES`].
    pub(super) fn spreads(&self) -> [Option<Spread>; 9] {
        std::array::from_fn(|at| self.counters[at].spread())
    }
}

#[cfg(test)]
mod tests;
