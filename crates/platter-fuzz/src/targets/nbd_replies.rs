//! Replies of an NBD server to a client, in the transmission phase.

use super::{hold, verdict};
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_block::planted::Planted;
use platter_remote::nbd::reply::{MAX_PARSED, parse, parse_stream};
use platter_remote::nbd::wire::{Chunk, SimpleReply, chunk};

pub(super) const TARGET: Target = Target {
    name: "nbd-replies",
    summary: "replies of an NBD server, simple and structured",
    generate,
    mutate: |rng, input, other| bytes::mutate(rng, input, other),
    read,
    memory: 16 << 20,
    planted: Planted::NbdErrorLength,
};

/// Bytes of the reads that simple replies answer.
const READ: u32 = 24;

fn chunk_of(rng: &mut Rng) -> (u16, Vec<u8>) {
    let offset = rng.extreme(64).to_be_bytes();
    let number = (rng.extreme(32) as u32).to_be_bytes();
    let message = vec![b'm'; rng.below(40) as usize];
    let length = (message.len() as u16).to_be_bytes();
    let error = [&number[..], &length, &message].concat();
    match rng.below(7) {
        0 => (chunk::NONE, Vec::new()),
        1 => (chunk::OFFSET_DATA, [&offset[..], &message, b"."].concat()),
        2 => (chunk::OFFSET_HOLE, [&offset[..], &number].concat()),
        3 => {
            let extents = rng.range(1, 4) as usize;
            (chunk::BLOCK_STATUS, [&[0, 0, 0, 1][..], &[offset; 4].concat()[..8 * extents]].concat())
        }
        4 => (chunk::ERROR, error),
        5 => (chunk::ERROR_OFFSET, [&error[..], &offset].concat()),
        _ => (rng.any() as u16, error),
    }
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..rng.range(1, 6) {
        let cookie = rng.any();
        if rng.one_in(4) {
            let error = if rng.one_in(2) { 0 } else { rng.extreme(32) as u32 };
            all.extend(SimpleReply { error, cookie }.to_bytes());
            all.resize(all.len() + if error == 0 { READ as usize } else { 0 }, 7);
            continue;
        }
        let (kind, body) = chunk_of(rng);
        let length = if rng.one_in(12) { rng.extreme(32) as u32 } else { body.len() as u32 };
        all.extend(Chunk { flags: rng.below(3) as u16, kind, cookie, length }.to_bytes());
        all.extend(body);
    }
    all
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let stream = parse_stream(input, READ);
    if let Ok(Some((taken, reply))) = parse(input) {
        hold(taken <= input.len() && taken <= MAX_PARSED, || format!("{reply:?} takes {taken} bytes"))?;
        // The answer must not depend on what follows, nor appear before its last byte.
        hold(parse(&input[..taken]) == Ok(Some((taken, reply))), || format!("{reply:?} needs more bytes"))?;
        hold(parse(&input[..taken - 1]).is_ok_and(|early| early.is_none()), || {
            format!("{reply:?} needs fewer")
        })?;
    }
    if input.len() >= MAX_PARSED {
        hold(parse(input) != Ok(None), || "the longest reply is not enough".to_owned())?;
    }
    Ok(verdict(stream))
}
