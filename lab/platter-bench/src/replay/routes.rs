//! Which device of the replay gets the I/Os of which device of the trace.

use std::collections::HashMap;

use platter_traces::Device;

use super::error::ReplayError;

/// Most devices of a trace that a message lists.
const LISTED: usize = 8;

/// Which device of the replay gets the I/Os of which device of the trace.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Devices of the trace that have a target of their own.
    named: HashMap<String, usize>,
    /// Targets of the others, the next one last.
    free: Vec<usize>,
    /// The devices of the trace that are replayed; empty for all.
    chosen: Vec<String>,
    /// Where the I/Os of each device go that was seen; `None`: they are not replayed.
    known: HashMap<Device, Option<usize>>,
    /// The last one that was looked up.
    last: Option<(Device, Option<usize>)>,
}

impl Routes {
    /// Routes to as many devices as `targets` has, each for the device of the trace of that name, and without one for the next that
    /// is seen. Of the trace only the `chosen` devices are replayed in addition, or all if there are none.
    pub fn new(targets: &[Option<String>], chosen: &[String]) -> Routes {
        let named = |(at, of): (usize, &Option<String>)| Some((of.clone()?, at));
        let free = (0..targets.len()).rev().filter(|at| targets[*at].is_none());
        Routes {
            named: targets.iter().enumerate().filter_map(named).collect(),
            free: free.collect(),
            chosen: chosen.to_vec(),
            known: HashMap::new(),
            last: None,
        }
    }

    /// The number of the target of a device of the trace; `None` if its I/Os are not replayed.
    ///
    /// # Errors
    /// There is no target for it.
    pub fn of(&mut self, device: &Device) -> Result<Option<usize>, ReplayError> {
        if let Some((last, target)) = &self.last
            && last == device
        {
            return Ok(*target);
        }
        let target = match self.known.get(device) {
            Some(target) => *target,
            None => self.add(device)?,
        };
        self.last = Some((device.clone(), target));
        Ok(target)
    }

    fn add(&mut self, device: &Device) -> Result<Option<usize>, ReplayError> {
        let name = device.text();
        let target = if let Some(target) = self.named.get(&name) {
            Some(*target)
        } else if !self.chosen.is_empty() && !self.chosen.contains(&name) {
            None
        } else {
            Some(self.free.pop().ok_or_else(|| self.lacks(&name))?)
        };
        self.known.insert(device.clone(), target);
        Ok(target)
    }

    fn lacks(&self, name: &str) -> ReplayError {
        let mut names: Vec<String> =
            self.known.iter().filter(|known| known.1.is_some()).map(|known| known.0.text()).collect();
        names.sort();
        names.truncate(LISTED);
        names.push(name.to_owned());
        ReplayError::Options(format!(
            "the trace has I/Os of the devices {}: give a device for each with --on or --redirect DEV=SPEC, or choose some with --device",
            names.join(" ")
        ))
    }

    /// The devices of the trace that are replayed, each with its target, in the order of the targets.
    pub fn taken(&self) -> Vec<(String, usize)> {
        let taken = self.known.iter().filter_map(|(device, target)| Some((device.text(), (*target)?)));
        let mut taken: Vec<_> = taken.collect();
        taken.sort_by_key(|(_, target)| *target);
        taken
    }

    /// Devices that were chosen and have not been seen.
    pub fn missing(&self) -> Vec<String> {
        let seen: Vec<String> = self.known.keys().map(Device::text).collect();
        let wanted = self.chosen.iter().chain(self.named.keys());
        let mut missing: Vec<String> = wanted.filter(|name| !seen.contains(name)).cloned().collect();
        missing.sort();
        missing.dedup();
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(minor: u32) -> Device {
        Device::Number(8 << 20 | minor)
    }

    #[test]
    fn devices_are_taken_by_name_and_then_in_order() {
        let targets = [None, Some("8,16".to_owned()), None];
        let mut routes = Routes::new(&targets, &[]);
        for (minor, at) in [(0, 0), (16, 1), (0, 0), (32, 2), (16, 1)] {
            assert_eq!(routes.of(&numbered(minor)).unwrap(), Some(at));
        }
        let said = routes.of(&numbered(48)).unwrap_err().to_string();
        assert!(said.contains("8,0 8,16 8,32 8,48") && said.contains("--redirect"), "{said}");
        assert_eq!(routes.taken()[1], ("8,16".to_owned(), 1));
    }

    #[test]
    fn only_those_chosen_are_replayed() {
        let mut routes = Routes::new(&[None], &["8,16".to_owned(), "8,99".to_owned()]);
        assert_eq!((routes.of(&numbered(0)).unwrap(), routes.of(&numbered(16)).unwrap()), (None, Some(0)));
        assert_eq!(routes.missing(), ["8,99"]);
    }
}
