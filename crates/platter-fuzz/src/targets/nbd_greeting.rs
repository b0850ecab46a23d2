//! What an NBD server sends to a client during the negotiation.

use super::{hold, verdict};
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_block::planted::Planted;
use platter_remote::nbd::handshake::Handshake;
use platter_remote::nbd::wire::{
    BASE_ALLOCATION, INIT_MAGIC, OPTION_MAGIC, OptionReply, info, option, option_reply,
};

pub(super) const TARGET: Target = Target {
    name: "nbd-greeting",
    summary: "the negotiation of an NBD server with a client",
    generate,
    mutate: |rng, input, other| bytes::mutate(rng, input, other),
    read,
    memory: 64 << 20,
    planted: Planted::NbdNameLength,
};

/// Most bytes that a client may send in one negotiation: a few options with the name of the export.
const MOST_SENT: usize = 1 << 10;

fn reply(all: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    all.extend(OptionReply { option, kind, length: data.len() as u32 }.to_bytes());
    all.extend(data);
}

fn error(rng: &mut Rng) -> u32 {
    *rng.pick(&[
        option_reply::ERR_UNSUP,
        option_reply::ERR_POLICY,
        option_reply::ERR_INVALID,
        option_reply::ERR_PLATFORM,
        option_reply::ERR_TLS_REQD,
        option_reply::ERR_SHUTDOWN,
        option_reply::ERR_BLOCK_SIZE_REQD,
        option_reply::ERR_TOO_BIG,
        0x8000_1234,
    ])
}

fn list(rng: &mut Rng, all: &mut Vec<u8>) {
    for _ in 0..rng.below(4) {
        let name = b"export"[..rng.below(7) as usize].to_vec();
        let length = if rng.one_in(8) { rng.extreme(32) as u32 } else { name.len() as u32 };
        reply(all, option::LIST, option_reply::SERVER, &[&length.to_be_bytes()[..], &name, b"?"].concat());
    }
    let end = if rng.one_in(4) { error(rng) } else { option_reply::ACK };
    reply(all, option::LIST, end, b"");
}

fn go(rng: &mut Rng, all: &mut Vec<u8>) {
    let size = rng.extreme(64).to_be_bytes();
    let flags = (rng.any() as u16 | 1).to_be_bytes();
    if rng.one_in(2) {
        let least = 1u32 << rng.below(18);
        let max = if rng.one_in(2) { u32::MAX } else { least << rng.below(8) };
        let sizes = [least, least << rng.below(4), max].map(u32::to_be_bytes).concat();
        reply(all, option::GO, option_reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes()[..], &sizes].concat());
    }
    if !rng.one_in(8) {
        let export = [&info::EXPORT.to_be_bytes()[..], &size, &flags].concat();
        reply(all, option::GO, option_reply::INFO, &export);
    }
    if rng.one_in(4) {
        reply(all, option::GO, option_reply::INFO, &[0, rng.below(4) as u8, 1, 2][..rng.below(5) as usize]);
    }
    reply(all, option::GO, option_reply::ACK, b"");
}

/// The first byte of an input says whether the client lists the exports.
fn generate(rng: &mut Rng) -> Vec<u8> {
    let lists = rng.one_in(5);
    let flags = if rng.one_in(6) { rng.below(4) as u16 } else { 3 };
    let mut all = vec![u8::from(lists)];
    all.extend(INIT_MAGIC.to_be_bytes());
    all.extend(OPTION_MAGIC.to_be_bytes());
    all.extend(flags.to_be_bytes());
    if lists {
        list(rng, &mut all);
        return all;
    }
    let structured = rng.one_in(2);
    if flags & 1 == 1 {
        let kind = if structured { option_reply::ACK } else { error(rng) };
        reply(&mut all, option::STRUCTURED_REPLY, kind, b"why");
        if structured {
            let context = [&[0, 0, 0, 1][..], BASE_ALLOCATION.as_bytes()].concat();
            reply(&mut all, option::SET_META_CONTEXT, option_reply::META_CONTEXT, &context);
            let end = if rng.one_in(4) { error(rng) } else { option_reply::ACK };
            reply(&mut all, option::SET_META_CONTEXT, end, b"");
        }
        match rng.below(5) {
            0 => {
                reply(&mut all, option::GO, option_reply::ERR_UNKNOWN, b"");
                list(rng, &mut all);
                return all;
            }
            1 => reply(&mut all, option::GO, error(rng), b"words"),
            _ => go(rng, &mut all),
        }
    }
    if flags & 1 == 0 || rng.one_in(4) {
        all.extend(rng.extreme(63).to_be_bytes());
        all.extend([0, 5]);
        all.resize(all.len() + if flags & 2 == 0 { 124 } else { 0 }, 0);
    }
    all
}

/// The result of a negotiation, as text, when the input comes in pieces of this length.
fn play(input: &[u8], piece: usize) -> Result<String, String> {
    let Some((lists, input)) = input.split_first() else { return Ok("nothing".to_owned()) };
    let mut handshake = if lists & 1 == 1 { Handshake::list() } else { Handshake::open("export") };
    let mut sent = 0;
    for part in input.chunks(piece) {
        let result = handshake.feed(part);
        sent += handshake.output().drain(..).count();
        match result {
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(format!("{outcome:?}, {sent} bytes sent")),
            Err(error) => return Err(error.to_string()),
        }
    }
    if sent > MOST_SENT { Ok(format!("sends {sent} bytes")) } else { Ok("unfinished".to_owned()) }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let whole = play(input, usize::MAX);
    hold(whole.as_ref().is_ok_and(|text| !text.starts_with("sends")) || whole.is_err(), || {
        format!("{whole:?}")
    })?;
    // Bytes after the end are an error only if they have come by then.
    let bytes = play(input, 1);
    let follows = whole.as_ref().is_err_and(|error| error.contains("bytes follow"));
    hold(whole == bytes || follows, || format!("at once: {whole:?}; byte by byte: {bytes:?}"))?;
    Ok(verdict(whole))
}
