//! A disk of any size of which an input gives a few pieces, the rest being zeroes.
//!
//! As bytes: the base-2 logarithm of the logical block as one byte, the size as eight, a number for the target's own use
//! as two, then the pieces: position as eight bytes, length as four, contents. Numbers are little-endian. Any bytes
//! are an image.

use crate::bytes::{self, u32_at, u64_at};
use crate::rng::Rng;
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Op};
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest disk, in bytes, and most pieces.
const MOST_SIZE: u64 = 1 << 48;
const MOST_PIECES: usize = 512;

/// Shortest run of zeroes that is left out of the bytes of an image.
const ZEROES: usize = 48;

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Logical block in bytes: 512 to 4096.
    pub block: u32,
    /// Size in bytes.
    pub size: u64,
    /// For the target's own use.
    pub number: u16,
    /// Positions and contents; later ones cover earlier ones.
    pub pieces: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// A disk of zeroes.
    pub fn new(block: u32, size: u64) -> Image {
        Image { block, size, number: 1, pieces: Vec::new() }
    }

    /// Reads an image.
    pub fn decode(input: &[u8]) -> Image {
        let mut head = [0; 11];
        bytes::overwrite(&mut head, 0, input);
        let block = 512 << (head[0].wrapping_sub(9) % 4);
        let mut image = Image::new(block, u64_at(&head, 1) % (MOST_SIZE + 1));
        image.number = u16::from(head[9]) | u16::from(head[10]) << 8;
        let mut rest = input.get(11..).unwrap_or_default();
        while rest.len() >= 12 && image.pieces.len() < MOST_PIECES {
            let (at, len) = (u64_at(rest, 0), u32_at(rest, 8) as usize);
            let end = 12 + len.min(rest.len() - 12);
            image.pieces.push((at, rest[12..end].to_vec()));
            rest = &rest[end..];
        }
        image
    }

    /// The bytes of the image. Pieces without long runs of zeroes, so that an image of a few fields is short.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.block.trailing_zeros() as u8];
        out.extend(self.size.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        for (at, piece) in self.visible() {
            out.extend(at.to_le_bytes());
            out.extend((piece.len() as u32).to_le_bytes());
            out.extend(piece);
        }
        out
    }

    /// The pieces that no later one covers as a whole, cut where they hold many zeroes on top of nothing.
    fn visible(&self) -> Vec<(u64, &[u8])> {
        let end = |(at, piece): &(u64, Vec<u8>)| at.saturating_add(piece.len() as u64);
        let mut out = Vec::new();
        for (number, piece) in self.pieces.iter().enumerate() {
            let covers = |later: &(u64, Vec<u8>)| later.0 <= piece.0 && end(later) >= end(piece);
            let overlaps = |earlier: &(u64, Vec<u8>)| earlier.0 < end(piece) && end(earlier) > piece.0;
            if self.pieces[number + 1..].iter().any(covers) {
                continue;
            }
            if self.pieces[..number].iter().any(overlaps) {
                out.push((piece.0, &piece.1[..]));
                continue;
            }
            let mut begin = 0;
            while begin < piece.1.len() {
                let rest = &piece.1[begin..];
                let cut = rest
                    .windows(ZEROES)
                    .position(|window| window.iter().all(|byte| *byte == 0))
                    .unwrap_or(rest.len());
                if cut > 0 {
                    out.push((piece.0 + begin as u64, &rest[..cut]));
                }
                begin += cut + rest[cut..].iter().take_while(|byte| **byte == 0).count();
            }
        }
        out
    }

    /// Sets the contents of the disk at `at`.
    pub fn set(&mut self, at: u64, piece: Vec<u8>) {
        match self.pieces.iter_mut().find(|(place, old)| *place == at && old.len() == piece.len()) {
            Some((_, old)) => *old = piece,
            None => self.pieces.push((at, piece)),
        }
    }

    /// Fills `out` with the contents of the disk from `at` on.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        out.fill(0);
        let end = at.saturating_add(out.len() as u64);
        for (place, piece) in &self.pieces {
            let (from, to) = (at.max(*place), end.min(place.saturating_add(piece.len() as u64)));
            if from < to {
                let part = &piece[(from - place) as usize..(to - place) as usize];
                bytes::overwrite(out, (from - at) as usize, part);
            }
        }
    }

    /// The contents of the disk from `at` on.
    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.read(at, &mut out);
        out
    }

    /// Changes something at random: contents, places, the size.
    pub fn mutate(&mut self, rng: &mut Rng, other: &Image) {
        let count = self.pieces.len();
        match rng.below(16) {
            0 => self.size = rng.extreme(48),
            1 => self.size = self.size.wrapping_add(rng.extreme(16)).wrapping_sub(1 << 15) % MOST_SIZE,
            2 => self.block = 512 << rng.below(4),
            3 => self.number = rng.extreme(16) as u16,
            4 if count < MOST_PIECES && !other.pieces.is_empty() => {
                self.pieces.push(rng.pick(&other.pieces).clone())
            }
            5 if count > 1 => drop(self.pieces.remove(rng.index(count))),
            6 if count > 0 => {
                let at = rng.index(count);
                self.pieces[at].0 = match rng.below(3) {
                    0 => rng.extreme(48),
                    1 => self.pieces[at].0.wrapping_add(u64::from(self.block) * rng.below(4)),
                    _ => self.size.saturating_sub(rng.extreme(17)),
                };
            }
            7 if count > 0 => {
                let at = rng.index(count);
                let piece = other.pieces.first().map(|(_, piece)| piece.clone()).unwrap_or_default();
                bytes::mutate(rng, &mut self.pieces[at].1, &piece);
            }
            _ if count > 0 => {
                let at = rng.index(count);
                bytes::set_number(rng, &mut self.pieces[at].1);
            }
            _ => self.pieces.push((rng.below(8) * 512, vec![rng.any() as u8; 512])),
        }
    }
}

/// An image as a device that counts reads.
pub struct ImageDisk {
    name: Arc<str>,
    geometry: Geometry,
    state: Arc<Mutex<ImageState>>,
}

struct ImageState {
    image: Image,
    reads: u64,
    bytes_read: u64,
}

impl ImageDisk {
    /// A device that holds an image.
    pub fn new(name: &str, image: Image) -> ImageDisk {
        let limits = Limits::unlimited(image.block);
        let geometry = Geometry::new(image.size, limits);
        ImageDisk {
            name: name.into(),
            geometry,
            state: Arc::new(Mutex::new(ImageState { image, reads: 0, bytes_read: 0 })),
        }
    }

    fn state(&self) -> MutexGuard<'_, ImageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it was read, and how many bytes.
    pub fn reads(&self) -> (u64, u64) {
        let state = self.state();
        (state.reads, state.bytes_read)
    }
}

impl LimitSource for ImageDisk {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.geometry.limits, u64::MAX)
    }
}

impl Backend for ImageDisk {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_lane(&self, _lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        Ok(Box::new(ImageLane { geometry: self.geometry, state: Arc::clone(&self.state), done: Vec::new() }))
    }

    fn may_bounce(&self) -> bool {
        true
    }
}

/// Completes everything at once.
struct ImageLane {
    geometry: Geometry,
    state: Arc<Mutex<ImageState>>,
    done: Vec<Bio>,
}

impl ImageState {
    /// Carries out a bio that is inside the disk.
    fn carry_out(&mut self, bio: &mut Bio) {
        let mut at = bio.pos();
        if bio.op() == Op::Read {
            self.reads += 1;
            self.bytes_read += bio.len();
        }
        let mut written = Vec::new();
        for segment in bio.segments() {
            let mut part = vec![0; segment.len() as usize];
            match bio.op() {
                Op::Read => {
                    self.image.read(at, &mut part);
                    // SAFETY: the bio is in flight with this lane, and `part` is as long as the segment.
                    unsafe { segment.copy_from(&part) };
                }
                Op::Write => {
                    // SAFETY: as above.
                    unsafe { segment.copy_to(&mut part) };
                    written.push((at, part));
                }
                _ => {}
            }
            at += u64::from(segment.len());
        }
        written.into_iter().for_each(|(at, part)| self.image.set(at, part));
        bio.advance(bio.len());
    }
}

impl Lane for ImageLane {
    fn submit(&mut self, _now: Time, mut bio: Bio) {
        let outside = bio.pos().checked_add(bio.len()).is_none_or(|end| end > self.geometry.size);
        if outside {
            bio.fail(Fault::new(Kind::OutOfRange, Stage::Layer));
        } else {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).carry_out(&mut bio);
        }
        self.done.push(bio);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.done.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_written_and_read() {
        let mut image = Image::new(4096, 1 << 40);
        image.set(512, vec![1; 100]);
        image.set(600, vec![2; 4]);
        assert_eq!(Image::decode(&image.encode()), image);
        assert_eq!(image.bytes(598, 8), [1, 1, 2, 2, 2, 2, 1, 1]);
        assert_eq!(image.bytes(611, 2), [1, 0]);
        Image::decode(&[]);
        Image::decode(&[0xff; 100]);
    }

    #[test]
    fn zeroes_and_what_is_covered_take_no_room() {
        let mut image = Image::new(512, 1 << 20);
        let mut sector = vec![0; 512];
        sector[100] = 1;
        sector[511] = 2;
        image.pieces.push((0, vec![9; 512]));
        image.pieces.push((0, sector));
        // Zeroes that cover something stay.
        image.pieces.push((90, vec![0; 100]));
        let bytes = image.encode();
        assert!(bytes.len() < 700, "{}", bytes.len());
        let again = Image::decode(&bytes);
        assert_eq!(again.bytes(0, 1024), image.bytes(0, 1024));
        assert_eq!(Image::decode(&again.encode()).bytes(0, 1024), again.bytes(0, 1024));
    }

    #[test]
    fn a_device_holds_what_the_image_says() {
        let mut image = Image::new(512, 1 << 20);
        image.set(1000, vec![7; 100]);
        let device = platter_disk::device::Device::new(Arc::new(ImageDisk::new("image", image)));
        let mut out = [0; 200];
        device.read_at(&mut out, 950).expect("it can be read");
        assert_eq!(out.iter().filter(|byte| **byte == 7).count(), 100);
        device.write_at(&[9; 512], 512).expect("it can be written");
        device.read_at(&mut out, 950).expect("it can be read");
        assert_eq!(out[..74], [9; 74]);
        assert!(device.read_at(&mut out, (1 << 20) - 100).is_err());
    }
}
