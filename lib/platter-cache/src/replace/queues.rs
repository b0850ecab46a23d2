//! The lists of frames. Each frame is in at most one, by links in a table of all frames.

use crate::memory::Rows;

/// No frame.
const NONE: u32 = u32::MAX;

/// The standing of a frame, which it keeps while it is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// New in the small queue: uses do not count yet.
    Fresh = 1,
    /// In the small queue.
    Small = 2,
    /// In the main queue.
    Main = 3,
    /// No longer needed.
    Cold = 4,
}

/// A list of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Fresh,
    Small,
    Main,
    Cold,
    Parked,
}

/// The links of a frame: 12 bytes.
#[derive(Clone, Copy)]
struct Place {
    newer: u32,
    older: u32,
    /// From the low end: 3 bits standing (0: in no list), 1 bit parked.
    mark: u32,
}

const _: () = assert!(size_of::<Place>() == 12);

const UNLISTED: Place = Place { newer: NONE, older: NONE, mark: 0 };

const STANDING: u32 = 7;
const PARKED: u32 = 8;

/// Both ends of a list.
#[derive(Clone, Copy)]
struct Ends {
    oldest: u32,
    newest: u32,
    len: u32,
}

/// All lists.
pub(super) struct Queues {
    /// Up to the last frame that was in a list.
    places: Rows<Place>,
    frames: u32,
    ends: [Ends; 5],
}

impl Queues {
    /// Empty lists for as many frames. `None`: the system refuses the addresses.
    pub(super) fn new(frames: u32) -> Option<Self> {
        let ends = Ends { oldest: NONE, newest: NONE, len: 0 };
        Some(Queues { places: Rows::new(frames as usize)?, frames, ends: [ends; 5] })
    }

    pub(super) fn len_of(&self, list: List) -> u32 {
        self.ends[list as usize].len
    }

    pub(super) fn len(&self) -> usize {
        self.ends.iter().map(|ends| ends.len as usize).sum()
    }

    pub(super) fn oldest(&self, list: List) -> Option<u32> {
        Some(self.ends[list as usize].oldest).filter(|&frame| frame != NONE)
    }

    /// The standing of the frame; `None` if it is in no list.
    pub(super) fn standing(&self, frame: u32) -> Option<Standing> {
        assert!(frame < self.frames, "frame {frame} of {}", self.frames);
        match self.places.get(frame as usize)?.mark & STANDING {
            1 => Some(Standing::Fresh),
            2 => Some(Standing::Small),
            3 => Some(Standing::Main),
            4 => Some(Standing::Cold),
            _ => None,
        }
    }

    /// The list the frame is in.
    pub(super) fn list(&self, frame: u32) -> Option<List> {
        let standing = self.standing(frame)?;
        let parked = self.places[frame as usize].mark & PARKED != 0;
        Some(if parked { List::Parked } else { own_list(standing) })
    }

    /// Adds a frame that is in no list, as the newest.
    pub(super) fn add(&mut self, frame: u32, standing: Standing) {
        self.places.grow(frame as usize + 1, UNLISTED);
        self.places[frame as usize].mark = standing as u32;
        self.link_newest(frame, own_list(standing));
    }

    /// Takes a frame out of its list, if it is in one.
    pub(super) fn remove(&mut self, frame: u32) {
        if self.unlink(frame) {
            self.places[frame as usize].mark = 0;
        }
    }

    /// Makes a frame the newest of its standing.
    pub(super) fn renew(&mut self, frame: u32, standing: Standing) {
        if self.unlink(frame) {
            self.add(frame, standing);
        }
    }

    /// Gives a frame another standing; a parked frame stays parked.
    pub(super) fn change(&mut self, frame: u32, standing: Standing) {
        if self.list(frame) == Some(List::Parked) {
            let mark = &mut self.places[frame as usize].mark;
            *mark = (*mark & !STANDING) | standing as u32;
        } else {
            self.renew(frame, standing);
        }
    }

    /// Parks a frame, as the newest parked one.
    pub(super) fn park(&mut self, frame: u32) {
        if self.unlink(frame) {
            self.places[frame as usize].mark |= PARKED;
            self.link_newest(frame, List::Parked);
        }
    }

    /// Makes a parked frame the oldest of its queue.
    pub(super) fn unpark(&mut self, frame: u32) {
        let Some(standing) = self.standing(frame).filter(|_| self.list(frame) == Some(List::Parked)) else {
            return;
        };
        self.unlink(frame);
        self.places[frame as usize].mark &= !PARKED;
        let ends = &mut self.ends[own_list(standing) as usize];
        let next = std::mem::replace(&mut ends.oldest, frame);
        ends.len += 1;
        let place = &mut self.places[frame as usize];
        (place.older, place.newer) = (NONE, next);
        match next {
            NONE => self.ends[own_list(standing) as usize].newest = frame,
            next => self.places[next as usize].older = frame,
        }
    }

    /// Gives the place of a frame to another one, which is in no list.
    pub(super) fn rename(&mut self, frame: u32, to: u32) {
        let (Some(list), None) = (self.list(frame), self.standing(to)) else { return };
        self.places.grow(to as usize + 1, UNLISTED);
        let place = std::mem::replace(&mut self.places[frame as usize], UNLISTED);
        self.places[to as usize] = place;
        match place.older {
            NONE => self.ends[list as usize].oldest = to,
            older => self.places[older as usize].newer = to,
        }
        match place.newer {
            NONE => self.ends[list as usize].newest = to,
            newer => self.places[newer as usize].older = to,
        }
    }

    fn link_newest(&mut self, frame: u32, list: List) {
        let ends = &mut self.ends[list as usize];
        let before = std::mem::replace(&mut ends.newest, frame);
        ends.len += 1;
        if before == NONE {
            ends.oldest = frame;
        } else {
            self.places[before as usize].newer = frame;
        }
        let place = &mut self.places[frame as usize];
        (place.older, place.newer) = (before, NONE);
    }

    /// Takes a frame out of its list and keeps its mark. Returns whether it was in one.
    fn unlink(&mut self, frame: u32) -> bool {
        let Some(list) = self.list(frame) else { return false };
        let Place { newer, older, .. } = self.places[frame as usize];
        match older {
            NONE => self.ends[list as usize].oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
        match newer {
            NONE => self.ends[list as usize].newest = older,
            newer => self.places[newer as usize].older = older,
        }
        self.ends[list as usize].len -= 1;
        true
    }
}

/// The list of frames of a standing that are not parked.
fn own_list(standing: Standing) -> List {
    match standing {
        Standing::Fresh => List::Fresh,
        Standing::Small => List::Small,
        Standing::Main => List::Main,
        Standing::Cold => List::Cold,
    }
}

#[cfg(test)]
impl Queues {
    /// The frames of a list, oldest first.
    pub(super) fn frames(&self, list: List) -> Vec<u32> {
        let mut frames = Vec::new();
        let mut next = self.oldest(list);
        while let Some(frame) = next {
            frames.push(frame);
            next = Some(self.places[frame as usize].newer).filter(|&newer| newer != NONE);
        }
        frames
    }
}
