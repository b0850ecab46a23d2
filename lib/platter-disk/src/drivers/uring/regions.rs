//! The memory regions that the ring has registered, and their indices.

use platter_block::segment::{RegionId, Segment};

/// Region by index in the ring's table; [`RegionId::NONE`] if the index is free.
pub(super) struct Regions {
    places: Vec<RegionId>,
    /// Index of the last region found, because programs have few pools.
    last: usize,
    /// Whether vectored transfers can name a registered buffer.
    vectored: bool,
}

impl Regions {
    pub(super) fn new(vectored: bool) -> Regions {
        Regions { places: Vec::new(), last: 0, vectored }
    }

    /// Index of the region of a segment, if it is registered.
    #[inline]
    pub(super) fn find(&mut self, segment: &Segment) -> Option<u16> {
        self.place_of(segment.region())
    }

    /// Index of the region of all segments of a vectored transfer, if registered and useful.
    pub(super) fn find_for_vector(&mut self, region: RegionId) -> Option<u16> {
        if self.vectored { self.place_of(region) } else { None }
    }

    #[inline]
    fn place_of(&mut self, region: RegionId) -> Option<u16> {
        if region == RegionId::NONE {
            return None;
        }
        if self.places.get(self.last) != Some(&region) {
            self.last = self.places.iter().position(|place| *place == region)?;
        }
        Some(self.last as u16)
    }

    /// A free index, which is not taken yet.
    pub(super) fn free_place(&self) -> u32 {
        let free = self.places.iter().position(|place| *place == RegionId::NONE);
        free.unwrap_or(self.places.len()) as u32
    }

    /// Whether a region is registered.
    pub(super) fn contains(&self, region: RegionId) -> bool {
        self.places.contains(&region)
    }

    /// Records that a region is registered at an index that was free.
    pub(super) fn insert(&mut self, place: u32, region: RegionId) {
        let place = place as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, RegionId::NONE);
        }
        self.places[place] = region;
    }

    /// Removes a region; returns its index.
    pub(super) fn remove(&mut self, region: RegionId) -> Option<u32> {
        let place = self.places.iter().position(|place| *place == region)?;
        self.places[place] = RegionId::NONE;
        Some(place as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_reused_and_forgotten() {
        let mut regions = Regions::new(false);
        for id in 1..=3 {
            let place = regions.free_place();
            regions.insert(place, RegionId(id));
        }
        assert_eq!(regions.place_of(RegionId(3)), Some(2));
        assert_eq!(regions.place_of(RegionId(1)), Some(0));
        assert_eq!(regions.place_of(RegionId::NONE), None);
        assert_eq!(regions.remove(RegionId(2)), Some(1));
        assert_eq!((regions.place_of(RegionId(2)), regions.free_place()), (None, 1));
        assert_eq!(regions.place_of(RegionId::NONE), None);
        assert_eq!(regions.remove(RegionId(2)), None);
        assert_eq!(regions.find_for_vector(RegionId(1)), None);
    }
}
