//! Replies of an NBD server to the client.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_remote::nbd::reply::{MAX_PARSED, Reply, parse};
use platter_remote::nbd::wire::{Chunk, SimpleReply, chunk};

pub(super) const TARGET: Target = Target {
    name: "nbd-reply",
    summary: "replies of an NBD server, simple and in chunks",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

fn an_error(rng: &mut Rng, kind: u16) -> Vec<u8> {
    let message = &b"the disk is full"[..rng.index(17)];
    let mut body = (1 + rng.below(200) as u32).to_be_bytes().to_vec();
    body.extend((message.len() as u16).to_be_bytes());
    body.extend(message);
    if kind == chunk::ERROR_OFFSET {
        body.extend(rng.any().to_be_bytes());
    }
    body
}

/// A reply with a body of its form.
fn a_reply(rng: &mut Rng) -> Vec<u8> {
    if rng.one_in(4) {
        return SimpleReply { error: rng.below(3) as u32, cookie: rng.any() }.to_bytes().to_vec();
    }
    let kinds = [chunk::NONE, chunk::OFFSET_DATA, chunk::OFFSET_HOLE, chunk::BLOCK_STATUS];
    let errors = [chunk::ERROR, chunk::ERROR, chunk::ERROR_OFFSET, 0x8100];
    let kind = if rng.one_in(2) { *rng.pick(&errors) } else { *rng.pick(&kinds) };
    let body = match kind {
        chunk::NONE => Vec::new(),
        chunk::OFFSET_DATA => [&rng.any().to_be_bytes()[..], &[7; 64]].concat(),
        chunk::OFFSET_HOLE => [&rng.any().to_be_bytes()[..], &[0, 0, 16, 0]].concat(),
        chunk::BLOCK_STATUS => [1, 0, 0, 16, 0, 0, 0, 3].repeat(1 + rng.index(3)).split_off(4),
        _ => an_error(rng, kind),
    };
    let header = Chunk { flags: rng.below(2) as u16, kind, cookie: rng.any(), length: body.len() as u32 };
    [&header.to_bytes()[..], &body].concat()
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    (0..1 + rng.below(4)).flat_map(|_| a_reply(rng)).collect()
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    match rng.below(4) {
        0 => bytes::mutate(rng, input, other),
        // The length of a chunk, or of the message of an error.
        1 => bytes::overwrite(input, 16, &(rng.extreme(32) as u32).to_be_bytes()),
        2 => bytes::overwrite(input, Chunk::BYTES + 4, &(rng.below(70) as u16).to_be_bytes()),
        _ => input.extend(a_reply(rng)),
    }
}

/// Bytes of data that follow what is parsed.
fn data(reply: &Reply) -> usize {
    if let Reply::Data { length, .. } = reply { *length as usize } else { 0 }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let mut rest = input;
    while !rest.is_empty() {
        match parse(rest) {
            Err(bad) => return Ok(Verdict::Refused(bad.to_string())),
            Ok(None) => {
                let asks = format!("more than {} bytes are asked for", rest.len());
                hold(rest.len() < MAX_PARSED, || asks)?;
                return Ok(Verdict::Refused("the reply is not complete".to_owned()));
            }
            Ok(Some((taken, reply))) => {
                hold(taken > 0 && taken <= rest.len(), || format!("{reply:?} takes {taken} bytes"))?;
                let whole = parse(&rest[..taken]).map_err(|bad| bad.to_string())?;
                hold(whole == Some((taken, reply)), || format!("{reply:?} depends on what follows it"))?;
                let hole = |length: u32| length > 0;
                if let Reply::Hole { length, .. } | Reply::Status { length, .. } = reply {
                    hold(hole(length), || format!("{reply:?} is empty"))?;
                }
                rest = rest.get(taken + data(&reply)..).unwrap_or_default();
            }
        }
    }
    Ok(Verdict::Accepted)
}
