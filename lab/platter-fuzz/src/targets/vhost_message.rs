//! Messages of a vhost-user front end, and the queues that they describe.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_serve::vhost::memory::Memory;
use platter_serve::vhost::ring::{Addresses, MAX_SIZE, Ring};
use platter_serve::vhost::wire::{Body, HEADER, Header, MAX_BODY, config_body};
use std::sync::Arc;

pub(super) const TARGET: Target = Target {
    name: "vhost-message",
    summary: "messages of a virtual machine's front end, and the queues they describe",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

/// Requests of the protocol, by what their bodies hold.
const TABLE: u32 = 5;
const NUMBERS: [u32; 4] = [8, 10, 11, 18];
const RING: u32 = 9;
const DESCRIPTORS: [u32; 3] = [12, 13, 14];
const CONFIGS: [u32; 2] = [24, 25];
const SHAPES: [u32; 2] = [31, 32];
const REGIONS: [u32; 2] = [37, 38];
const PLAIN: [u32; 6] = [1, 2, 3, 15, 16, 99];

/// Most regions of a guest's memory that a server takes.
const MOST_REGIONS: usize = 32;

/// Bytes of the guest's memory in which queues are put.
const MEMORY: usize = 64 << 10;

/// Bytes of the configuration space.
const SPACE: [u8; 60] = [7; 60];

fn words(rng: &mut Rng, count: usize) -> Vec<u8> {
    let pick = |rng: &mut Rng| *rng.pick(&[0u64, 1, 0x1000, 1 << 20, u64::MAX]);
    (0..count).flat_map(|_| pick(rng).to_ne_bytes()).collect()
}

fn body(rng: &mut Rng, kind: u32) -> Vec<u8> {
    let pair = |one: u32, other: u32| [one.to_ne_bytes(), other.to_ne_bytes()].concat();
    let queue = rng.index(17) as u32;
    match kind {
        TABLE => {
            let count = *rng.pick(&[0u32, 1, 2, 32, 33]);
            [pair(count, 0), words(rng, 4 * count as usize)].concat()
        }
        RING => {
            let mut at = || rng.pick(&[0u64, 0x1000, 0x2000, 0xf000, 0x1002]).to_ne_bytes();
            [pair(queue, 0), [at(), at(), at(), [0; 8]].concat()].concat()
        }
        _ if NUMBERS.contains(&kind) => pair(queue, *rng.pick(&[0, 1, 8, 128, 1024, 2048, u32::MAX])),
        _ if DESCRIPTORS.contains(&kind) => (u64::from(queue) | rng.below(2) << 8).to_ne_bytes().to_vec(),
        _ if CONFIGS.contains(&kind) => {
            let len = *rng.pick(&[0u32, 1, 8, 60]);
            let offset = *rng.pick(&[0u32, 32, 59, 60, u32::MAX]);
            [pair(offset, len), vec![0; 4 + len as usize]].concat()
        }
        _ if SHAPES.contains(&kind) => {
            [words(rng, 2), [rng.below(18) as u16, 128].map(u16::to_ne_bytes).concat()].concat()
        }
        _ if REGIONS.contains(&kind) => words(rng, 5),
        _ => {
            let is_empty = rng.one_in(3);
            words(rng, usize::from(!is_empty))
        }
    }
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let kinds = [&[TABLE, RING][..], &NUMBERS, &DESCRIPTORS, &CONFIGS, &SHAPES, &REGIONS, &PLAIN].concat();
    let mut all = Vec::new();
    for _ in 0..1 + rng.below(6) {
        let kind = *rng.pick(&kinds);
        let body = body(rng, kind);
        let flags = *rng.pick(&[1u32, 1, 1, 9]);
        [kind, flags, body.len() as u32].iter().for_each(|word| all.extend(word.to_ne_bytes()));
        all.extend(body);
    }
    all
}

/// The places of all messages.
fn places(input: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (0, Vec::new());
    while at + HEADER <= input.len() {
        found.push(at);
        at = at.saturating_add(HEADER + bytes::u32_at(input, at + 8) as usize);
    }
    found
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let places = places(input);
    if places.is_empty() || rng.one_in(4) {
        return bytes::mutate(rng, input, other);
    }
    let at = *rng.pick(&places);
    match rng.below(4) {
        // Request, flags, or length.
        0 => bytes::overwrite(input, at, &(rng.below(40) as u32).to_ne_bytes()),
        1 => bytes::overwrite(input, at + 4, &(rng.below(16) as u32).to_ne_bytes()),
        2 => bytes::overwrite(input, at + 8, &(rng.extreme(13) as u32).to_ne_bytes()),
        _ => bytes::overwrite(input, at + HEADER + 8 * rng.index(5), &rng.extreme(64).to_ne_bytes()),
    }
}

fn long(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*body.get(at..)?.first_chunk()?))
}

fn word(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?))
}

/// What the messages so far have said of the queue.
struct Known {
    memory: Arc<Memory>,
    size: u16,
}

impl Known {
    /// A queue at these addresses: it lies in the memory or is refused, and gives no more chains than it has entries.
    fn queue(&self, at: Addresses) -> Result<bool, String> {
        let Ok(mut ring) = Ring::new(Arc::clone(&self.memory), self.size, at, true) else { return Ok(false) };
        let ends = [(at.descriptors, 16), (at.available, 2), (at.used, 8)]
            .map(|(begin, entry)| u128::from(begin) + entry * u128::from(self.size));
        hold(self.size <= MAX_SIZE && ends.iter().all(|end| *end <= MEMORY as u128), || {
            format!("a queue of {} entries at {at:?} is not in the memory", self.size)
        })?;
        ring.start_at(0);
        let mut taken = 0;
        while let Ok(Some(head)) = ring.take() {
            taken += 1;
            hold(head < self.size && taken <= self.size, || format!("chain {taken}: descriptor {head}"))?;
        }
        Ok(true)
    }

    /// Takes a message apart. Returns whether it is one of its kind.
    fn message(&mut self, kind: u32, bytes: &[u8]) -> Result<bool, String> {
        let body = Body(bytes);
        let differs = || format!("message {kind} with {bytes:?} is taken apart wrongly");
        Ok(match kind {
            TABLE => {
                let Some(all) = body.regions() else { return Ok(false) };
                hold(all.len() <= MOST_REGIONS, || format!("{} regions", all.len()))?;
                hold(word(bytes, 0) == Some(all.len() as u32), differs)?;
                for (index, region) in all.iter().enumerate() {
                    let words = [region.guest, region.len, region.user, region.offset];
                    let same =
                        (0..).zip(words).all(|(at, it)| long(bytes, 8 + 32 * index + 8 * at) == Some(it));
                    hold(same, differs)?;
                }
                true
            }
            RING => {
                let Some((_, at)) = body.addresses() else { return Ok(false) };
                let words = [at.descriptors, at.used, at.available];
                hold((1..).zip(words).all(|(index, it)| long(bytes, 8 * index) == Some(it)), differs)?;
                self.queue(at)?
            }
            _ if NUMBERS.contains(&kind) => {
                let Some(it) = body.numbered() else { return Ok(false) };
                hold((word(bytes, 0), word(bytes, 4)) == (Some(it.queue), Some(it.value)), differs)?;
                self.size = u16::try_from(it.value).unwrap_or(self.size);
                true
            }
            _ if DESCRIPTORS.contains(&kind) => {
                let Some((queue, _)) = body.descriptor() else { return Ok(false) };
                hold(queue < 256, differs)?;
                true
            }
            _ if CONFIGS.contains(&kind) => {
                let Some((offset, part)) = body.config() else { return Ok(false) };
                hold(word(bytes, 0) == Some(offset) && part.len() + 12 <= bytes.len(), differs)?;
                let reply = config_body(bytes, &SPACE).ok_or_else(differs)?;
                hold(reply.len() == 12 + part.len() && reply[..12] == bytes[..12], differs)?;
                true
            }
            _ if SHAPES.contains(&kind) => {
                let Some(shape) = body.shape() else { return Ok(false) };
                hold([long(bytes, 0), long(bytes, 8)] == [Some(shape.bytes), Some(shape.offset)], differs)?;
                true
            }
            _ if REGIONS.contains(&kind) => {
                let Some(region) = body.single_region() else { return Ok(false) };
                hold(long(bytes, 8) == Some(region.guest), differs)?;
                true
            }
            _ => {
                hold(body.number() == long(bytes, 0), differs)?;
                true
            }
        })
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let mut known = Known { memory: Arc::new(Memory::private(MEMORY)?), size: 128 };
    // The available ring of the usual place: a chain for each of a few entries, the last of them impossible.
    let available: Vec<u8> =
        [0u16, 4, 0, 3, 7, u16::MAX].iter().flat_map(|word| word.to_le_bytes()).collect();
    hold(known.memory.write(0x1000, &available), || "the ring does not fit".to_owned())?;
    let mut rest = input;
    let mut verdict = Verdict::Refused("there is no message".to_owned());
    while let Some((header, after)) = rest.split_first_chunk::<HEADER>() {
        let header = match Header::parse(header) {
            Ok(header) => header,
            Err(why) => return Ok(Verdict::Refused(why)),
        };
        hold(header.bytes <= MAX_BODY, || format!("a body of {} bytes", header.bytes))?;
        let Some((body, after)) = after.split_at_checked(header.bytes) else {
            return Ok(Verdict::Refused("a message does not end".to_owned()));
        };
        rest = after;
        verdict = match known.message(header.request, body)? {
            true => Verdict::Accepted,
            false => return Ok(Verdict::Refused(format!("message {} is refused", header.request))),
        };
    }
    Ok(verdict)
}
